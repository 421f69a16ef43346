// lacuna models: names, parameters, input sizes; of one model the names of its parameters.
#include "apps/command.h"
#include "apps/output/output.h"
#include "models/registry.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

namespace lacuna::apps {
namespace {

class Models {
 public:
  explicit Models(CLI::App& app) {
    app.add_option("name", name_, "a model: lists its parameters, by the names that freeze patterns match");
    report_.declare(app);
  }

  ExitCode operator()() const {
    if (name_.empty())
      list_models();
    else
      list_parameters();
    return 0;
  }

 private:
  void list_parameters() const {
    const std::unique_ptr<Model> model = describe_model(name_, {}).build({.device = Device::meta});
    nlohmann::ordered_json json = nlohmann::json::array();
    std::string text;
    for (const Parameter* parameter : model->parameters()) {
      const Shape& shape = parameter->tensor().shape();
      text += fmt::format("{:<48} {}\n", parameter->path(), shape);
      json.push_back({{"name", parameter->path()}, {"shape", std::vector(shape.begin(), shape.end())}});
    }
    report_.write(text, json);
  }

  void list_models() const {
    nlohmann::ordered_json json = nlohmann::json::array();
    std::string text =
        fmt::format("{:<44} {:<16} {:>12} {:>11} {:>8}\n", "name", "family", "parameters", "input", "classes");
    for (const std::string& name : model_names()) {
      const ModelDescription description = describe_model(name, {});
      const std::unique_ptr<Model> model = description.build({.device = Device::meta});
      const SampleField& input = model->inputs().front();
      const bool is_image = input.kind == FieldKind::pixels;
      const Shape& shape = input.shape;  // [H, W, C], or the most tokens
      text += fmt::format(
          "{:<44} {:<16} {:>12} {:>11} {:>8}\n", name, description.family, model->parameter_count(),
          is_image ? fmt::format("{}x{}x{}", shape[0], shape[1], shape[2]) : fmt::format("{} tokens", shape[0]),
          model->num_classes());
      json.push_back({{"name", name}, {"family", description.family}, {"parameters", model->parameter_count()}});
      if (is_image) {
        json.back()["image_size"] = shape[0];
        json.back()["channels"] = shape[2];
      } else {
        json.back()["max_tokens"] = shape[0];
        json.back()["vocabulary"] = input.below;
      }
      json.back()["num_classes"] = model->num_classes();
    }
    text += "Families, every hyper-parameter open:";
    for (const std::string& family : model_families().names()) text += " " + family;
    report_.write(text + "\n", json);
  }

  std::string name_;
  Report report_;
};

const RegisterCommand models(80, "models", "list the models, or the parameters of one", declare<Models>);

}  // namespace
}  // namespace lacuna::apps
