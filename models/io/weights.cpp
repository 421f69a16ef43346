#include "models/io/weights.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace lacuna {
namespace {

constexpr std::string_view batch_counter = "num_batches_tracked";

bool fits(const SafetensorsEntry& entry, const Tensor& tensor) {
  return entry.shape == tensor.shape() && entry.dtype.has_value() &&
         is_floating(*entry.dtype) == is_floating(tensor.dtype());
}

bool belongs_to(std::string_view name, std::string_view module) {
  return name.size() > module.size() && name.starts_with(module) && name[module.size()] == '.';
}

void add_line(std::string& list, std::string_view line) { list.append("\n    ").append(line); }

/// How the names and shapes of a file differ from a model's.
struct Differences {
  std::string missing, unexpected, different;  // a line a name
  const SafetensorsEntry* head = nullptr;      // a classifier's weight of the right width for other classes
  bool only_head = true;                       // nothing but the classifier differs
  LoadedWeights loaded;

  bool none() const { return missing.empty() && unexpected.empty() && different.empty(); }
};

/// Whether the entry is the model's own classifier but for the number of classes.
bool is_head_for_other_classes(const Model& model, std::string_view name, const SafetensorsEntry& entry,
                               const Tensor& tensor) {
  return belongs_to(name, model.head()) && entry.dtype && is_floating(*entry.dtype) && entry.shape.rank() > 0 &&
         entry.shape.rank() == tensor.shape().rank() &&
         std::equal(entry.shape.begin() + 1, entry.shape.end(), tensor.shape().begin() + 1);
}

/// The classifier is taken as a whole or not at all: a weight without its bias belongs to nobody.
LoadedWeights judge_head(const Model& model, const SafetensorsFile& file, const LoadOptions& options) {
  LoadedWeights judged;
  if (!options.new_head) return judged;
  std::set<std::string, std::less<>> known;
  for (const auto& [name, tensor] : state_of(model)) {
    if (!belongs_to(name, model.head())) continue;
    known.insert(options.prefix + name);
    const SafetensorsEntry* const entry = file.find(options.prefix + name);
    if (entry == nullptr || !fits(*entry, tensor)) judged.new_head = true;
  }
  for (const SafetensorsEntry& entry : file.entries())
    if (belongs_to(entry.name, options.prefix + model.head()) && !known.contains(entry.name)) judged.new_head = true;
  if (const SafetensorsEntry* const weight = file.find(options.prefix + model.head() + ".weight"))
    judged.file_classes = weight->shape.front();
  return judged;
}

Differences compare(const Model& model, const SafetensorsFile& file, const LoadOptions& options) {
  Differences found;
  found.loaded = judge_head(model, file, options);
  const auto starts_anew = [&](std::string_view name) {
    return found.loaded.new_head && belongs_to(name, model.head());
  };
  std::set<std::string, std::less<>> known;
  for (const auto& [name, tensor] : state_of(model)) {
    known.insert(name);
    if (starts_anew(name)) continue;
    const SafetensorsEntry* const entry = file.find(options.prefix + name);
    if (entry == nullptr) {
      if (name.ends_with(batch_counter)) continue;
      add_line(found.missing, fmt::format("{} {}", name, tensor.shape()));
      found.only_head = false;
    } else if (!fits(*entry, tensor)) {
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
  for (const auto& [name, tensor] : state_of(model)) {
    const SafetensorsEntry* const entry = file.find(options.prefix + name);
    if (entry == nullptr || (loaded.new_head && belongs_to(name, model.head()))) continue;
    tensor.copy_from(file.load(entry->name));
    tensor.bump_version();
  }
  return loaded;
}

void save_weights(const Module& model, const std::filesystem::path& path,
                  const std::map<std::string, std::string>& metadata) {
  write_safetensors(path, state_of(model), metadata);
}

}  // namespace lacuna
