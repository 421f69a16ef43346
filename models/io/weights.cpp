#include "models/io/weights.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace lacuna {
namespace {

constexpr std::string_view batch_counter = "num_batches_tracked";

bool fits(const SafetensorsEntry& entry, const Tensor& tensor) {
  return entry.shape == tensor.shape() && entry.dtype.has_value() &&
         is_floating(*entry.dtype) == is_floating(tensor.dtype());
}

/// Whether the model can have the entry in another shape (Model::adapt).
bool adapts(const Model& model, std::string_view name, const SafetensorsEntry& entry) {
  if (!entry.dtype || !is_floating(*entry.dtype)) return false;
  for (const Parameter* const parameter : model.parameters())
    if (parameter->path() == name)
      return model.adapt(*parameter, Tensor::empty(entry.shape, *entry.dtype, Device::meta)).defined();
  return false;
}

bool belongs_to(std::string_view name, std::string_view module) {
  return name.size() > module.size() && name.starts_with(module) && name[module.size()] == '.';
}

void add_line(std::string& list, std::string_view line) { list.append("\n    ").append(line); }

/// Differences between the names and shapes of a file and those of a model.
struct Differences {
  std::string missing, unexpected, different;  // a line for each name
  const SafetensorsEntry* head = nullptr;      // a head's weight of the right width for other classes
  bool only_head = true;                       // nothing but the heads differs
  LoadedWeights loaded;

  bool none() const { return missing.empty() && unexpected.empty() && different.empty(); }
};

bool belongs_to_head(std::string_view name, const Model& model, std::string_view prefix = {}) {
  return name.starts_with(prefix) && std::ranges::any_of(model.heads(), [&](const std::string& head) {
           return belongs_to(name.substr(prefix.size()), head);
         });
}

/// Whether the entry is one of the model's heads except for the number of classes.
bool is_head_for_other_classes(const Model& model, std::string_view name, const SafetensorsEntry& entry,
                               const Tensor& tensor) {
  return belongs_to_head(name, model) && entry.dtype && is_floating(*entry.dtype) && entry.shape.rank() > 0 &&
         entry.shape.rank() == tensor.shape().rank() &&
         std::equal(entry.shape.begin() + 1, entry.shape.end(), tensor.shape().begin() + 1);
}

/// The heads are loaded as a whole or not at all: a weight is of no use without its bias.
LoadedWeights judge_head(const Model& model, const SafetensorsFile& file, const LoadOptions& options) {
  LoadedWeights judged;
  if (!options.new_head) return judged;
  std::set<std::string, std::less<>> known;
  for (const auto& [name, tensor] : state_of(model)) {
    if (!belongs_to_head(name, model)) continue;
    known.insert(options.prefix + name);
    const SafetensorsEntry* const entry = file.find(options.prefix + name);
    if (entry == nullptr || !fits(*entry, tensor)) judged.new_head = true;
  }
  for (const SafetensorsEntry& entry : file.entries())
    if (belongs_to_head(entry.name, model, options.prefix) && !known.contains(entry.name)) judged.new_head = true;
  for (const std::string& head : model.heads())
    if (const SafetensorsEntry* const weight = file.find(options.prefix + head + ".weight"))
      judged.file_classes = weight->shape.front();
  return judged;
}

Differences compare(const Model& model, const SafetensorsFile& file, const LoadOptions& options) {
  Differences found;
  found.loaded = judge_head(model, file, options);
  const auto starts_anew = [&](std::string_view name) { return found.loaded.new_head && belongs_to_head(name, model); };
  std::set<std::string, std::less<>> known;
  for (const auto& [name, tensor] : state_of(model)) {
    known.insert(name);
    if (starts_anew(name)) continue;
    const SafetensorsEntry* const entry = file.find(options.prefix + name);
    if (entry == nullptr) {
      if (name.ends_with(batch_counter)) continue;
      add_line(found.missing, fmt::format("{} {}", name, tensor.shape()));
      found.only_head = false;
    } else if (!fits(*entry, tensor) && !adapts(model, name, *entry)) {
      const bool is_head = is_head_for_other_classes(model, name, *entry, tensor);
      if (is_head && tensor.shape().rank() == 2) found.head = entry;
      found.only_head = found.only_head && is_head;
      add_line(found.different, fmt::format("{}: expected {} {}, got {} {}", name, name_of(tensor.dtype()),
                                            tensor.shape(), entry->stored_dtype, entry->shape));
    }
  }
  for (const SafetensorsEntry& entry : file.entries()) {
    if (!entry.name.starts_with(options.prefix)) continue;
    const std::string_view name = std::string_view(entry.name).substr(options.prefix.size());
    if (known.contains(name) || starts_anew(name)) continue;
    add_line(found.unexpected, fmt::format("{} {}", name, entry.shape));
    found.only_head = false;
  }
  return found;
}

}  // namespace

std::vector<NamedTensor> state_of(const Module& model) {
  std::vector<NamedTensor> state;
  for (const Parameter* parameter : model.parameters()) state.emplace_back(parameter->path(), parameter->tensor());
  for (const Buffer* buffer : model.buffers()) state.emplace_back(buffer->path(), buffer->tensor());
  return state;
}

LoadedWeights check_weights(const Model& model, const SafetensorsFile& file, const LoadOptions& options) {
  const Differences found = compare(model, file, options);
  if (found.none()) return found.loaded;
  if (found.only_head && found.head != nullptr)
    reject(
        "{}: the classifier was trained for {} classes ({} {}), but the model has {}: set `num_classes: {}`, or let "
        "the classifier start anew",
        file.path().string(), found.head->shape[0], found.head->name, found.head->shape, model.num_classes(),
        found.head->shape[0]);
  std::string message = file.path().string() + " holds the weights of another model";
  if (!found.missing.empty()) message += "\n  missing in the file:" + first_lines(found.missing);
  if (!found.unexpected.empty()) message += "\n  unknown to the model:" + first_lines(found.unexpected);
  if (!found.different.empty()) message += "\n  of another shape or type:" + first_lines(found.different);
  reject("{}", message);
}

LoadedWeights load_weights(Model& model, const SafetensorsFile& file, const LoadOptions& options) {
  const LoadedWeights loaded = check_weights(model, file, options);
  std::map<std::string_view, const Parameter*> parameters;
  for (const Parameter* const parameter : model.parameters()) parameters[parameter->path()] = parameter;
  for (const auto& [name, tensor] : state_of(model)) {
    const SafetensorsEntry* const entry = file.find(options.prefix + name);
    if (entry == nullptr || (loaded.new_head && belongs_to_head(name, model))) continue;
    const Tensor stored = file.load(entry->name);
    tensor.copy_from(stored.shape() == tensor.shape() ? stored : model.adapt(*parameters.at(name), stored));
    tensor.bump_version();
  }
  return loaded;
}

void save_weights(const Module& model, const std::filesystem::path& path,
                  const std::map<std::string, std::string>& metadata) {
  write_safetensors(path, state_of(model), metadata);
}

}  // namespace lacuna
