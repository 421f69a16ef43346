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
      ->allow_extra_args(false)
      ->required(required);
  app.add_option("overrides", overrides_, "values that replace the file's, as train.epochs=3")->type_name("key=value");
}

void ConfigurationOptions::declare_image_gradient(CLI::App& app) {
  app.add_flag("--image-gradient", image_gradient_, "the images want a gradient, as for adversarial examples");
}

Configuration ConfigurationOptions::parse() const {
  Configuration configuration = read_configuration(files_, overrides_);
  if (configuration.output.dir.empty()) {
    std::vector<std::string> names;
    for (const std::string& file : files_) names.push_back(std::filesystem::path(file).stem().string());
    configuration.output.dir = fmt::format("runs/{}", fmt::join(names, "_"));
  }
  configuration.image_gradient = image_gradient_;
  return configuration;
}

Configuration ConfigurationOptions::read() const { return resolve(parse()); }

}  // namespace lacuna::apps
