#include "apps/config/model_options.h"

#include "apps/config/schema.h"
#include "core/registry.h"
#include "models/registry.h"
#include "models/task.h"

#include <algorithm>
#include <filesystem>

namespace lacuna::apps {
namespace {

/// The place of a hyper-parameter: in `model`, or for `image_size` in `data`.
Location place_of_parameter(const Tree& root, const std::string& key) {
  const TreeEntry* const model = root.find("model");
  const bool in_model = model != nullptr && model->value.find(key) != nullptr;
  const TreeEntry* const data = key == "image_size" ? root.find("data") : nullptr;
  return place_of(root, !in_model && data != nullptr && data->value.find(key) != nullptr ? "data" : "model", key);
}

/// Hyper-parameters without those that other keys set.
std::vector<HyperParameter> without_shared(std::vector<HyperParameter> all) {
  std::erase_if(all, [](const HyperParameter& one) {
    return one.key == "num_classes" || one.key == "image_size" || one.key == "head";
  });
  return all;
}

}  // namespace

std::vector<std::string> known_models() {
  std::vector<std::string> names = model_names();
  for (const std::string& family : model_families().names()) names.push_back(family);
  return names;
}

namespace {

bool is_weights_file(std::string_view name) {
  constexpr std::string_view endings[] = {".safetensors", ".pth", ".pt", ".bin", ".ckpt", ".tar", ".onnx"};
  return std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
}

/// Why `name`, the known `model` and more, names no model to be drawn; empty: the weights come from a folder.
std::string problem_with_tag(const std::string& name, const std::string& bare, const std::string& model,
                             const std::string& from) {
  if (is_weights_file(name)) {
    std::error_code ignored;
    return fmt::format("{} is {}; model.from reads weights, and model.name={} draws new ones", name,
                       std::filesystem::exists(name, ignored) ? "a file" : "a file that does not exist", model);
  }
  if (!model_presets().contains(model) || model_presets().get(model).images.mean.empty())
    return fmt::format("expected {}, got {}: timm has no weights of it that a tag could name", model, name);
  if (!from.empty()) return {};
  return fmt::format(
      "{0} names weights of timm, and Lacuna downloads nothing: `hf download timm/{1} --local-dir {1}` fetches them, "
      "and model.from={1} reads them; model.name={2} draws new ones",
      name, bare, model);
}

}  // namespace

void read_model_name(Configuration& configuration, const Tree& section, Problems& problems) {
  std::string& name = configuration.model.name;
  const TreeEntry* const entry = section.find("name");
  const Names known = known_models();
  if (entry == nullptr || name.empty() || std::ranges::find(known, name) != known.end()) return;
  std::string_view bare = name;
  for (const std::string_view hub : {"hf_hub:", "hf-hub:", "timm/"})
    if (bare.starts_with(hub)) bare.remove_prefix(hub.size());
  const std::string without_tag(bare.substr(0, bare.find('.')));
  if (std::ranges::find(known, without_tag) == known.end()) {
    const std::string near = nearest_name(name, known);
    problems.add_expected(
        entry->value, "model.name",
        "a name that `lacuna models` lists" + (near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near)));
    name.clear();
    return;
  }
  if (const std::string problem = problem_with_tag(name, std::string(bare), without_tag, configuration.model.from);
      !problem.empty())
    problems.add(entry->where, "model.name: " + problem);
  name = without_tag;
}

std::vector<HyperParameter> read_model_options(const std::vector<const TreeEntry*>& entries, Problems& problems) {
  std::vector<HyperParameter> options;
  for (const TreeEntry* const entry : entries) {
    if (entry->value.kind == Tree::Kind::null)
      problems.add_expected(entry->value, "model." + entry->key, "a value, a list or a map");
    else
      options.push_back({entry->key, entry->value});
  }
  return options;
}

std::vector<HyperParameter> hyper_parameters_of(const Configuration& configuration) {
  std::vector<HyperParameter> all = configuration.model.options;
  if (configuration.model.num_classes > 0) all.push_back({"num_classes", configuration.model.num_classes});
  const ImageSize& size = configuration.data.images.image_size;
  if (size.is_given() && find_value(all, "image_size") == nullptr)
    all.push_back({"image_size", codec_of<ImageSize>().write(&size)});
  const std::string_view head =
      tasks().contains(configuration.task.name) ? tasks().get(configuration.task.name).head : std::string_view();
  const bool has_heads = find_section("model")->options(configuration.model.name).find("head") != nullptr;
  if (has_heads && !head.empty() && find_value(all, "head") == nullptr) all.push_back({"head", std::string(head)});
  return all;
}

std::vector<HyperParameter> defaults_of_model(std::string_view name) {
  const std::string known(name.substr(0, name.find('.')));
  if (!model_presets().contains(known) && !model_families().contains(known)) return {};
  return without_shared(describe_model(name, {}).hyper_parameters);
}

ImageSize image_size_of(const ModelDescription& model) {
  const Tree* const found = find_value(model.hyper_parameters, "image_size");
  ImageSize size = 0;
  Problems none;
  if (found != nullptr) codec_of<ImageSize>().read(*found, &size, {}, {}, none);
  return size;
}

std::int64_t channels_of(const ModelDescription& model) {
  const Tree* const found = find_value(model.hyper_parameters, "in_channels");
  return found == nullptr ? 0 : static_cast<std::int64_t>(number_in(*found).value_or(0));
}

void fill_in_model_options(Experiment& experiment) {
  std::vector<HyperParameter>& options = experiment.model.options;
  const std::vector<HyperParameter>& all = experiment.architecture.hyper_parameters;
  for (HyperParameter& given : options)
    if (const Tree* const value = find_value(all, given.key)) given.value = *value;
  for (const HyperParameter& value : without_shared(all))
    if (find_value(options, value.key) == nullptr) options.push_back(value);
}

void check_model(const Experiment& experiment, const Tree& root, Problems& problems) {
  for (const HyperProblem& problem : experiment.architecture.problems)
    problems.add(place_of_parameter(root, problem.key),
                 fmt::format("model {}: {}", experiment.model.name, problem.message));
  for (const HyperParameter& option : experiment.model.options) {
    const ImageSize& size = experiment.data.images.image_size;
    const Tree wanted = codec_of<ImageSize>().write(&size);
    const bool is_text = option.value.kind == Tree::Kind::scalar && !number_in(option.value);  // refused already
    if (option.key == "image_size" && size.is_given() && !is_text && option.value != wanted)
      problems.add(place_of_parameter(root, option.key),
                   fmt::format("model.image_size is {}, but data.image_size is {}", lacuna::to_yaml(option.value),
                               lacuna::to_yaml(wanted)));
  }
}

}  // namespace lacuna::apps
