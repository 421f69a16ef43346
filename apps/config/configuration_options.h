// The options `-c CONFIG [-c CONFIG ...] [key=value ...]` of every command that reads a configuration.
#pragma once

#include "apps/config/experiment.h"

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace lacuna::apps {

/// Whether a word of the command line names a file rather than sets a key.
bool is_configuration_file(std::string_view argument);

class ConfigurationOptions {
 public:
  /// `required`: whether the command needs a configuration: a file, or values that name the model and the data.
  void declare(CLI::App& app, bool required);
  /// Besides `--image-gradient`, for commands whose step is made up.
  void declare_image_gradient(CLI::App& app);
  bool given() const { return !files_.empty(); }
  const std::vector<std::string>& overrides() const { return overrides_; }
  /// Reads the files with the overrides, or the overrides alone.
  Experiment parse() const;

 private:
  void sort_arguments();

  std::vector<std::string> files_, arguments_, overrides_;
  bool required_ = false;
  bool image_gradient_ = false;
};

}  // namespace lacuna::apps
