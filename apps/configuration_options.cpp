#include "apps/configuration_options.h"

#include "apps/resolve.h"

#include <CLI/CLI.hpp>

#include <filesystem>

namespace lacuna::apps {

void ConfigurationOptions::declare(CLI::App& app, bool required) {
  app.add_option("-c,--config", file_, "configuration file")->type_name("CONFIG")->required(required);
  app.add_option("overrides", overrides_, "values that replace the file's, as train.epochs=3")->type_name("key=value");
}

void ConfigurationOptions::declare_image_gradient(CLI::App& app) {
  app.add_flag("--image-gradient", image_gradient_, "the images want a gradient, as for adversarial examples");
}

Configuration ConfigurationOptions::parse() const {
  Configuration configuration = read_configuration(file_, overrides_);
  if (configuration.output.dir.empty())
    configuration.output.dir = (std::filesystem::path("runs") / std::filesystem::path(file_).stem()).string();
  configuration.image_gradient = image_gradient_;
  return configuration;
}

Configuration ConfigurationOptions::read() const { return resolve(parse()); }

}  // namespace lacuna::apps
