#include "apps/config/configuration_options.h"

#include "apps/config/paths.h"
#include "apps/config/resolve.h"
#include "core/error.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <filesystem>

namespace lacuna::apps {

void ConfigurationOptions::declare(CLI::App& app, bool required) {
  app.add_option("-c,--config", files_, "configuration file; repeat it to lay further files over the first")
      ->type_name("CONFIG")
      ->option_text(required ? "CONFIG REQUIRED" : "CONFIG")
      ->allow_extra_args(false);
  required_ = required;
  app.add_option("overrides", arguments_,
                 "configuration files, and values that replace theirs, as train.epochs=3; `lacuna keys` lists all keys")
      ->type_name("[CONFIG] [key=value ...]");
  app.parse_complete_callback([this, &app] {
    // An unknown option's value would be read as a configuration file; CLI11 reports the option.
    if (app.remaining().empty()) sort_arguments();
  });
}

bool is_configuration_file(std::string_view argument) {
  return argument.find('=') == std::string_view::npos && (argument.ends_with(".yaml") || argument.ends_with(".yml"));
}

namespace {

/// Rejects a word that is neither the name of a configuration file nor `key=value`.
[[noreturn]] void reject_word(const std::string& word) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path path = expand_home(word);
  if (fs::is_regular_file(path / "config.yaml", ignored))
    reject("{0} is the folder of a run: `lacuna train --resume {0}` continues it; {1} is its configuration", word,
           (path / "config.yaml").string());
  if (fs::is_directory(path, ignored)) reject("{}: expected a configuration file, got a folder", word);
  if (fs::exists(path, ignored)) reject("{0}: expected a name that ends in .yaml; `-c {0}` reads any file", word);
  reject("{}: expected a configuration file (.yaml) or key=value", word);
}

}  // namespace

void ConfigurationOptions::sort_arguments() {
  for (const std::string& argument : arguments_) {
    if (is_configuration_file(argument))
      files_.push_back(argument);
    else if (argument.find('=') != std::string::npos)
      overrides_.push_back(argument);
    else
      reject_word(argument);
  }
  if (required_ && files_.empty() && overrides_.empty()) throw CLI::RequiredError("--config");
}

void ConfigurationOptions::declare_image_gradient(CLI::App& app) {
  app.add_flag("--image-gradient", image_gradient_,
               "compute the gradient of the images too, as for adversarial examples");
}

Experiment ConfigurationOptions::parse() const {
  Experiment experiment =
      given() ? read_configuration(files_, overrides_) : parse_configuration("", "", overrides_);
  if (experiment.output.dir.empty()) {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const std::string& file : files_)
      names.push_back(std::filesystem::is_regular_file(file, ignored) ? std::filesystem::path(file).stem().string()
                                                                      : experiment.model.name);  // a pipe
    if (names.empty()) names.push_back(experiment.model.name);
    experiment.output.dir = fmt::format("runs/{}", fmt::join(names, "_"));
  }
  experiment.image_gradient = image_gradient_;
  return experiment;
}

}  // namespace lacuna::apps
