// The options `-c CONFIG [-c CONFIG ...] [key=value ...]` of every command that reads a configuration.
#pragma once

#include "apps/config/configuration.h"

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lacuna::apps {

class ConfigurationOptions {
 public:
  /// `required`: whether the command needs a configuration file.
  void declare(CLI::App& app, bool required);
  /// Besides `--image-gradient`, for commands whose step is made up.
  void declare_image_gradient(CLI::App& app);
  bool given() const { return !files_.empty(); }
  const std::vector<std::string>& overrides() const { return overrides_; }
  /// Reads the files with the overrides.
  Configuration parse() const;
  /// The same, resolved.
  Configuration read() const;

 private:
  std::vector<std::string> files_;
  std::vector<std::string> overrides_;
  bool image_gradient_ = false;
};

}  // namespace lacuna::apps
