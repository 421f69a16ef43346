#include "apps/config/configuration_options.h"

#include "apps/config/resolve.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <filesystem>

namespace lacuna::apps {

void ConfigurationOptions::declare(CLI::App& app, bool required) {
  app.add_option("-c,--config", files_, "configuration file; given again, a further one, which replaces what it sets")
      ->type_name("CONFIG")
      ->option_text(required ? "CONFIG REQUIRED" : "CONFIG")
      ->allow_extra_args(false);
  required_ = required;
  app.add_option("overrides", arguments_,
                 "a configuration file, without -c too; values that replace the file's, as train.epochs=3")
      ->type_name("[CONFIG] [key=value ...]");
  app.parse_complete_callback([this] { sort_arguments(); });
}

bool is_configuration_file(std::string_view argument) {
  return argument.find('=') == std::string_view::npos && (argument.ends_with(".yaml") || argument.ends_with(".yml"));
}

void ConfigurationOptions::sort_arguments() {
  for (const std::string& argument : arguments_)
    (is_configuration_file(argument) ? files_ : overrides_).push_back(argument);
  if (required_ && files_.empty()) throw CLI::RequiredError("--config");
}

void ConfigurationOptions::declare_image_gradient(CLI::App& app) {
  app.add_flag("--image-gradient", image_gradient_, "the images want a gradient, as for adversarial examples");
}

Configuration ConfigurationOptions::parse() const {
  Configuration configuration = read_configuration(files_, overrides_);
  if (configuration.output.dir.empty()) {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const std::string& file : files_)
      names.push_back(std::filesystem::is_regular_file(file, ignored) ? std::filesystem::path(file).stem().string()
                                                                      : configuration.model.name);  // a pipe
    configuration.output.dir = fmt::format("runs/{}", fmt::join(names, "_"));
  }
  configuration.image_gradient = image_gradient_;
  return configuration;
}

Configuration ConfigurationOptions::read() const { return resolve(parse()); }

}  // namespace lacuna::apps
