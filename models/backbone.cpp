#include "models/backbone.h"

#include "models/io/weights.h"
#include "models/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace lacuna {
namespace {

ModelDescription describe(const BackboneOptions& options, const BackboneForm& form) {
  std::vector<HyperParameter> values = options.values;
  values.push_back({"image_size", codec_of<ImageSize>().write(&form.image_size)});
  values.push_back({"in_channels", form.in_channels});
  return describe_model(options.name, values);
}

std::string read_backbone(const Tree& from, void* value, const Limits&, std::string_view key, Problems& problems) {
  BackboneOptions options;
  if (from.kind == Tree::Kind::scalar) options.name = from.text;
  if (from.kind == Tree::Kind::map)
    for (const TreeEntry& entry : from.entries) {
      if (entry.key == "name")
        options.name = entry.value.text;
      else if (entry.key == "image_size" || entry.key == "in_channels" || entry.key == "num_classes")
        problems.add(entry.where, fmt::format("{}: the model itself says `{}`", key, entry.key));
      else
        options.values.push_back({entry.key, entry.value});
    }
  if (options.name.empty()) return "a model's name, or a map of its name and hyper-parameters";
  *static_cast<BackboneOptions*>(value) = std::move(options);
  return {};
}

}  // namespace

Tree BackboneOptions::tree() const {
  Tree named(name);
  if (values.empty()) return named;
  Tree map;
  map.kind = Tree::Kind::map;
  map.entries.push_back({"name", {}, named});
  for (const HyperParameter& value : values) map.entries.push_back({value.key, {}, value.value});
  return map;
}

void BackboneOptions::set_default(const std::string& key, Tree value) {
  if (!model_families().contains(name) && !model_presets().contains(name)) return;
  if (describe_model(name, {}).options.find(key) == nullptr || find_value(values, key) != nullptr) return;
  values.push_back({key, std::move(value)});
}

template <>
const Codec& codec_of<BackboneOptions>() {
  static const Codec codec{read_backbone,
                           [](const void* value) { return static_cast<const BackboneOptions*>(value)->tree(); },
                           [](const Limits&) -> std::string { return "text, or a map of name and hyper-parameters"; }};
  return codec;
}

Backbone::Backbone(Module& parent, std::string_view name, const BackboneOptions& options, const BackboneForm& form)
    : options_(options) {
  ModelContext context = parent.context();
  context.part_of = {&parent, std::string(name), form.maps, form.map_norm};
  std::unique_ptr<Model> model = describe(options, form).build(context);
  model_.reset(dynamic_cast<ImageModel*>(model.release()));
  for (Module* const module : model_->modules())
    if (auto* const norm = dynamic_cast<nn::BatchNorm2d*>(module); norm != nullptr && form.fixed_norms)
      norm->fix(*form.fixed_norms);
  if (!form.map_norm || model_->norms_maps()) return;
  for (const MapShape& map : model_->map_shapes())
    norms_.push_back(std::make_unique<nn::LayerNorm>(parent, fmt::format("{}.norm{}", name, norms_.size()),
                                                     map.channels, model_->map_norm_eps()));
}

std::vector<Variable> Backbone::maps(Variable images) const {
  std::vector<Variable> maps = model_->maps(std::move(images));
  for (std::size_t i = 0; i < norms_.size(); ++i) maps[i] = norms_[i]->forward(std::move(maps[i]));
  return maps;
}

std::vector<std::string> Backbone::left_out() const {
  std::set<std::string> own;
  const std::string path = model_->path() + ".";
  for (const auto& [name, tensor] : state_of(*model_)) own.insert(name.substr(path.size()));
  std::vector<std::string> names;
  const BackboneForm form{model_->image_size(), model_->in_channels()};
  for (const auto& [name, tensor] : state_of(*describe(options_, form).build({.device = Device::meta})))
    if (!own.contains(name)) names.push_back(name);
  return names;
}

std::vector<MapShape> Backbone::check(const BackboneOptions& options, const BackboneForm& form, std::string_view key,
                                      HyperProblems& problems) {
  if (!model_presets().contains(options.name) && !model_families().contains(options.name)) {
    problems.add(key, fmt::format("`{}` {} is no model that `lacuna models` lists", key, options.name));
    return {};
  }
  const ModelDescription description = describe(options, form);
  for (const HyperProblem& problem : description.problems)
    problems.add(key, fmt::format("`{}` {}: {}", key, options.name, problem.message));
  if (!description.problems.empty()) return {};
  /// A root for the backbone alone.
  Module root({.device = Device::meta});
  ModelContext context = root.context();
  context.part_of = {&root, std::string(key), form.maps, form.map_norm};
  const std::unique_ptr<Model> model = description.build(context);
  const auto* const images = dynamic_cast<const ImageModel*>(model.get());
  std::vector<MapShape> shapes = images == nullptr ? std::vector<MapShape>() : images->map_shapes();
  if (shapes.empty())
    problems.add(key, fmt::format("`{}` {} gives no maps: expected a model of images such as resnet50, convnext_tiny, "
                                  "swin_tiny_patch4_window7_224 or vit_small_patch16_224",
                                  key, options.name));
  return shapes;
}

}  // namespace lacuna
