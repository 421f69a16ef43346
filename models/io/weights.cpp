#include "models/io/weights.h"

#include "core/finite.h"
#include "models/image_model.h"
#include "models/language_model.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string_view>

namespace lacuna {
namespace {

constexpr std::string_view batch_counter = "num_batches_tracked";

bool holds_numbers(DType dtype) { return is_floating(dtype) || dtype == DType::coded; }

bool fits(const SafetensorsEntry& entry, const Tensor& tensor) {
  return entry.shape == tensor.shape() && entry.dtype.has_value() &&
         holds_numbers(*entry.dtype) == holds_numbers(tensor.dtype());
}

/// Whether the entry can be made a counter of batches: nothing computes with one, and halves or [1] are about.
bool fits_counter(std::string_view name, const SafetensorsEntry& entry) {
  return name.ends_with(batch_counter) && entry.shape.count() == 1;
}

bool belongs_to_head(std::string_view name, const Model& model, std::string_view prefix = {}) {
  return name.starts_with(prefix) && std::ranges::any_of(model.heads(), [&](const std::string& head) {
           return belongs_to(name.substr(prefix.size()), head);
         });
}

/// Rows of a stored head before those of the model's classes; 0: it is no such head.
std::int64_t background_rows(const Model& model, std::string_view name, const Shape& stored, const Shape& wanted,
                             const LoadOptions& options) {
  constexpr std::int64_t imagenet_classes = 1000;
  if (stored.rank() == 0 || stored.rank() != wanted.rank() || !belongs_to_head(name, model) ||
      !std::equal(stored.begin() + 1, stored.end(), wanted.begin() + 1))
    return 0;
  const std::int64_t more = stored[0] - wanted[0];
  if (options.label_offset > 0) return more == options.label_offset ? more : 0;
  return more == 1 && wanted[0] == imagenet_classes ? more : 0;
}

/// A stored tensor in the model's shape.
struct Adapted {
  Tensor tensor;         // undefined where it cannot have it
  std::string_view how;  // in words
};
/// `stored` may be on `meta`.
Adapted adapted(const Model& model, const Parameter& parameter, const Tensor& stored, const LoadOptions& options) {
  const Shape &from = stored.shape(), &to = parameter.shape();
  if (const std::int64_t rows = background_rows(model, parameter.path(), from, to, options); rows > 0)
    return {stored.leading(rows, from[0]), "without the background class"};
  constexpr int convolution_rank = 4;
  return {model.adapt(parameter, stored, options.library),
          to.rank() == convolution_rank ? "made for these channels" : "resampled"};
}

/// The way in which the entry is adapted to the model's other shape; empty if there is none.
std::string_view way_to_adapt(const Model& model, std::string_view name, const SafetensorsEntry& entry,
                              const LoadOptions& options) {
  if (options.as_saved || !entry.dtype || !is_floating(*entry.dtype)) return {};
  for (const Parameter* const parameter : model.parameters()) {
    if (parameter->path() != name) continue;
    const Adapted result = adapted(model, *parameter, Tensor::empty(entry.shape, *entry.dtype, Device::meta), options);
    return result.tensor.defined() ? result.how : std::string_view();
  }
  return {};
}

/// The part that stands before each of the file's names and not before the model's, as `module.`; where several would
/// do, the one under which most names are known.
std::string shared_prefix(const std::vector<NamedTensor>& state, const WeightFiles& file) {
  if (file.entries().empty()) return {};
  std::string_view shared = file.entries().front().name;
  for (const SafetensorsEntry& entry : file.entries())
    shared = shared.substr(0, static_cast<std::size_t>(std::ranges::mismatch(shared, entry.name).in1 - shared.begin()));
  std::string best;
  std::ptrdiff_t most = -1;
  for (std::size_t length = 0;; length = shared.find('.', length) + 1) {
    const std::string prefix(shared.substr(0, length));
    const auto known = std::ranges::count_if(state, [&](const auto& one) { return file.contains(prefix + one.first); });
    if (known > most) {
      most = known;
      best = prefix;
    }
    if (shared.find('.', length) == std::string_view::npos) return best;
  }
}

bool is_of_part(std::string_view part, std::string_view name) { return part.empty() || belongs_to(name, part); }

/// The file's name of a tensor of the model that lies in the part which the file holds.
std::string stored_name(std::string_view name, const LoadOptions& options) {
  return options.prefix + std::string(options.part.empty() ? name : name.substr(options.part.size() + 1));
}

/// The tensors of a part under the names that they have in it.
std::vector<NamedTensor> state_of_part(const Model& model, std::string_view part) {
  std::vector<NamedTensor> state;
  for (const auto& [name, tensor] : state_of(model))
    if (is_of_part(part, name)) state.emplace_back(name.substr(part.empty() ? 0 : part.size() + 1), tensor);
  return state;
}

/// The options, with the prefix that the file's names share where none is given, and the part that it holds.
LoadOptions completed(const Model& model, const WeightFiles& file, LoadOptions options) {
  if (!options.prefix.empty() || options.as_saved) return options;
  const auto known_with = [&](std::string_view part) {
    const std::vector<NamedTensor> state = state_of_part(model, part);
    const std::string prefix = shared_prefix(state, file);
    return std::pair(std::ranges::count_if(state, [&](const auto& one) { return file.contains(prefix + one.first); }),
                     prefix);
  };
  const auto [whole, prefix] = known_with({});
  options.prefix = prefix;
  const std::string_view backbone = model.backbone_path();
  if (!options.new_head || backbone.empty()) return options;
  if (const auto [of_part, other] = known_with(backbone); of_part > whole) {
    options.prefix = other;
    options.part = backbone;
  }
  return options;
}

bool lies_in(const std::vector<std::string>& paths, std::string_view name) {
  return std::ranges::any_of(paths, [&](const std::string& path) { return belongs_to(name, path); });
}

/// The outermost module of a tensor that the backbone does not lie in.
std::string module_beside(std::string_view backbone, const std::string& name) {
  std::size_t dot = name.find('.');
  while (dot != std::string::npos && backbone.starts_with(name.substr(0, dot + 1))) dot = name.find('.', dot + 1);
  return name.substr(0, dot);
}

void add_line(std::string& list, std::string_view line) { list.append("\n    ").append(line); }

/// Differences between the names and shapes of a file and those of a model.
struct Differences {
  std::string missing, unexpected, different;  // a line for each name
  const SafetensorsEntry* head = nullptr;      // a head's weight of the right width for other classes
  bool only_head = true;                       // nothing but the heads differs
  std::size_t fitting = 0, names = 0;          // of the model's names
  LoadedWeights loaded;

  bool none() const { return missing.empty() && unexpected.empty() && different.empty(); }
};

/// Whether the entry is one of the model's heads except for the number of classes.
bool is_head_for_other_classes(const Model& model, std::string_view name, const SafetensorsEntry& entry,
                               const Tensor& tensor) {
  return belongs_to_head(name, model) && entry.dtype && is_floating(*entry.dtype) && entry.shape.rank() > 0 &&
         entry.shape.rank() == tensor.shape().rank() &&
         std::equal(entry.shape.begin() + 1, entry.shape.end(), tensor.shape().begin() + 1);
}

/// Classes of a stored head. Detectors have outputs of the background too, and of each anchor.
std::int64_t classes_of(const SafetensorsEntry& weight, const Model& model, const std::string& head) {
  const std::int64_t classes = model.num_classes(), stored = weight.shape.front();
  for (const Parameter* const own : model.parameters())
    if (const std::int64_t rows = own->shape().rank() > 0 ? own->shape()[0] : 0;
        own->path() == head + ".weight" && rows > classes && rows % (classes + 1) == 0)
      return stored / (rows / (classes + 1)) - 1;
  return stored;
}

/// The heads are loaded as a whole or not at all: a weight is of no use without its bias.
LoadedWeights judge_head(const Model& model, const WeightFiles& file, const LoadOptions& options) {
  LoadedWeights judged;
  if (!options.new_head) return judged;
  judged.part = options.part;
  judged.new_head = !options.part.empty() || (options.other_classes && !model.heads().empty());
  if (!options.part.empty()) return judged;
  std::set<std::string, std::less<>> known;
  for (const auto& [name, tensor] : state_of(model)) {
    if (!belongs_to_head(name, model)) continue;
    known.insert(options.prefix + name);
    const SafetensorsEntry* const entry = file.find(options.prefix + name);
    if (entry == nullptr && lies_in(model.optional_parts(), name)) continue;
    if (entry == nullptr || (!fits(*entry, tensor) && way_to_adapt(model, name, *entry, options).empty()))
      judged.new_head = true;
  }
  for (const SafetensorsEntry& entry : file.entries())
    if (belongs_to_head(entry.name, model, options.prefix) && !known.contains(entry.name)) judged.new_head = true;
  for (const std::string& head : model.heads()) {
    if (const SafetensorsEntry* const weight = file.find(options.prefix + head + ".weight"))
      judged.file_classes = classes_of(*weight, model, head);
    else if (const SafetensorsEntry* const bias = file.find(options.prefix + head + ".bias");
             bias != nullptr && !known.contains(options.prefix + head + ".weight"))  // a head of several layers
      judged.file_classes = bias->shape.front();
  }
  return judged;
}

/// Whether the entry is a second copy of a parameter. Refuses one with other values.
bool repeats(const Model& model, const WeightFiles& file, const std::string& prefix, const SafetensorsEntry& entry) {
  const auto* const language_model = dynamic_cast<const LanguageModel*>(&model);
  if (language_model == nullptr) return false;
  const auto [name, own] = language_model->tied_head();
  const std::string first = fmt::format("{}{}", prefix, own);
  if (name.empty() || std::string_view(entry.name).substr(prefix.size()) != name || !file.contains(first)) return false;
  if (!has_same_values(file.load(first), file.load(entry.name)))
    reject(
        "{}: {} and {} differ, and the model has one table in their place (`tie_word_embeddings` true): set it false "
        "to take both",
        file.path().string(), entry.name, first);
  return true;
}

Differences compare(const Model& model, const WeightFiles& file, const LoadOptions& options) {
  Differences found;
  found.loaded = judge_head(model, file, options);
  found.loaded.prefix = options.prefix;
  found.loaded.left_out = file.left_out();
  const auto starts_anew = [&](std::string_view name) {
    return !is_of_part(options.part, name) || (found.loaded.new_head && belongs_to_head(name, model));
  };
  std::set<std::string, std::less<>> known;
  const std::vector<NamedTensor> state = state_of(model);
  const std::string_view backbone = model.backbone_path();
  const bool of_backbone = options.new_head && !backbone.empty() &&
                           (!options.part.empty() || std::ranges::none_of(state, [&](const NamedTensor& one) {
                             return !is_of_part(backbone, one.first) && file.contains(options.prefix + one.first);
                           }));
  std::map<std::string, int> anew;  // tensors that the file lacks, by module
  for (const auto& [name, tensor] : state) {
    if (of_backbone && !is_of_part(backbone, name)) ++anew[module_beside(backbone, name)];
    if (is_of_part(options.part, name)) known.insert(stored_name(name, options).substr(options.prefix.size()));
    if (starts_anew(name)) continue;
    ++found.names;
    const SafetensorsEntry* const entry = file.find(stored_name(name, options));
    const std::string_view way =
        entry == nullptr || fits(*entry, tensor) ? std::string_view() : way_to_adapt(model, name, *entry, options);
    if (!way.empty())
      found.loaded.adapted.push_back(fmt::format("{} {}, here {}, {}", name, entry->shape, tensor.shape(), way));
    else if (entry != nullptr && !fits(*entry, tensor) && fits_counter(name, *entry))
      ++found.fitting;
    else if (entry == nullptr) {
      if (name.ends_with(batch_counter)) continue;
      if (of_backbone && !is_of_part(backbone, name)) continue;
      const auto optional = std::ranges::find_if(
          model.optional_parts(), [&name = name](const std::string& path) { return belongs_to(name, path); });
      if (options.new_head && optional != model.optional_parts().end()) {
        ++anew[*optional];
        continue;
      }
      add_line(found.missing, fmt::format("{} {}", name, tensor.shape()));
      found.only_head = false;
    } else if (!fits(*entry, tensor)) {
      const bool is_head = is_head_for_other_classes(model, name, *entry, tensor);
      if (is_head && tensor.shape().rank() > 1) found.head = entry;
      found.only_head = found.only_head && is_head;
      add_line(found.different, fmt::format("{}: expected {} {}, got {} {}", name, name_of(tensor.dtype()),
                                            tensor.shape(), entry->stored_dtype, entry->shape));
    } else {
      ++found.fitting;
    }
  }
  for (const auto& [module, count] : anew)
    found.loaded.adapted.push_back(fmt::format("{} ({} tensors) is not in the file and starts anew", module, count));
  std::vector<std::string> beside;
  if (!options.part.empty()) beside = dynamic_cast<const ImageModel&>(model).beside_backbone();
  for (const SafetensorsEntry& entry : file.entries()) {
    if (!entry.name.starts_with(options.prefix)) continue;
    const std::string_view name = std::string_view(entry.name).substr(options.prefix.size());
    if (known.contains(name) || (options.part.empty() && starts_anew(name))) continue;
    const bool is_beside = !options.part.empty() && (beside.empty() || std::ranges::find(beside, name) != beside.end());
    if (is_beside || (!options.as_saved && lies_in(model.other_heads(), name))) {
      found.loaded.left_out.push_back(entry.name);
      continue;
    }
    if (repeats(model, file, options.prefix, entry)) {
      found.loaded.left_out.push_back(entry.name);
      continue;
    }
    add_line(found.unexpected, fmt::format("{} {}", name, entry.shape));
    found.only_head = false;
  }
  return found;
}

}  // namespace

bool has_same_values(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(DType::f32), y = b.to(DType::f32);
  return x.shape() == y.shape() && std::memcmp(x.raw(), y.raw(), static_cast<std::size_t>(x.bytes())) == 0;
}

std::vector<NamedTensor> state_of(const Module& model) {
  std::vector<NamedTensor> state;
  for (const Parameter* parameter : model.parameters()) state.emplace_back(parameter->path(), parameter->tensor());
  for (const Buffer* buffer : model.buffers()) state.emplace_back(buffer->path(), buffer->tensor());
  return state;
}

LoadedWeights check_weights(const Model& model, const WeightFiles& file, const LoadOptions& given) {
  const LoadOptions options = completed(model, file, given);
  const Differences found = compare(model, file, options);
  if (found.none()) return found.loaded;
  if (found.only_head && found.head != nullptr)
    reject(
        "{}: the classifier was trained for {} classes ({} {}), but the model has {}: data.labels names them all where "
        "the data has fewer, `num_classes: {}` counts them, or training starts the classifier anew",
        file.path().string(), found.head->shape[0], found.head->name, found.head->shape, model.num_classes(),
        found.head->shape[0]);
  std::string message = 2 * found.fitting > found.names
                            ? file.path().string() + " fits except for these"
                            : fmt::format("{} holds the weights of another model: of {} names {} fit",
                                          file.path().string(), found.names, found.fitting);
  if (!options.prefix.empty()) message += fmt::format(" (names without `{}`)", options.prefix);
  if (!found.different.empty()) {
    message += "\n  of another shape or type:" + first_lines(found.different);
    if (const std::string_view advice = model.advice_on_shapes(); !advice.empty())
      message += fmt::format("\n  {}", advice);
  }
  if (!found.missing.empty()) message += "\n  missing in the file:" + first_lines(found.missing);
  if (!found.unexpected.empty()) message += "\n  unknown to the model:" + first_lines(found.unexpected);
  reject("{}", message);
}

WeightFormats stored_formats(const Model& model, const WeightFiles& file, const LoadOptions& given) {
  WeightFormats formats;
  if (!file.holds_coded()) return formats;
  const LoadOptions options = completed(model, file, given);
  for (const Parameter* const parameter : model.parameters()) {
    if (!is_of_part(options.part, parameter->path())) continue;
    const SafetensorsEntry* const entry = file.find(stored_name(parameter->path(), options));
    if (entry != nullptr && entry->format && entry->shape == parameter->shape())
      formats.emplace(parameter->path(), *entry->format);
  }
  return formats;
}

LoadedWeights load_weights(Model& model, const WeightFiles& file, const LoadOptions& options) {
  const LoadedWeights loaded = check_weights(model, file, options);
  std::map<std::string_view, const Parameter*> parameters;
  for (const Parameter* const parameter : model.parameters()) parameters[parameter->path()] = parameter;
  for (const auto& [name, tensor] : state_of(model)) {
    if (!is_of_part(loaded.part, name)) continue;
    const SafetensorsEntry* const entry = file.find(stored_name(name, {.prefix = loaded.prefix, .part = loaded.part}));
    if (entry == nullptr || (loaded.new_head && belongs_to_head(name, model))) continue;
    if (!entry->dtype) continue;  // a counter
    Tensor stored = file.load(entry->name);
    const bool as_it_is = stored.shape() == tensor.shape() || fits_counter(name, *entry);
    if (!as_it_is && stored.is_coded()) stored = stored.to(DType::f32);
    tensor.copy_from(as_it_is ? stored : adapted(model, *parameters.at(name), stored, options).tensor);
    // An encoded value is finite even where the stored one is not.
    if (!options.as_saved && !is_finite(tensor.is_coded() ? stored : tensor))
      fail("{}: {} holds values that are not finite", file.path().string(), name);
  }
  return loaded;
}

PendingTensor converted(const std::string& name, const Tensor& tensor, DType type) {
  if (!holds_numbers(tensor.dtype()) || tensor.dtype() == type) return pending(name, tensor);
  return {name, type, tensor.shape(), [=] {
            Tensor made = tensor.to(Device::cpu).to(type);
            if (type != DType::f32 && !is_finite(made.to(DType::f32)))
              reject("{} has values that {} cannot hold: write f32", name, name_of(type));
            return made;
          }};
}

std::string hash_of(const std::vector<NamedTensor>& state) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(hash.get());
  for (const auto& [name, tensor] : state)
    XXH3_64bits_update(hash.get(), tensor.to(Device::cpu).data<const std::byte>(),
                       static_cast<std::size_t>(tensor.bytes()));
  return fmt::format("{:016x}", XXH3_64bits_digest(hash.get()));
}

void save_weights(const Module& model, const std::filesystem::path& path, DType type) {
  std::vector<PendingTensor> tensors;
  for (const auto& [name, tensor] : state_of(model))
    tensors.push_back(tensor.is_coded() ? pending(name, tensor) : converted(name, tensor, type));
  write_one_by_one(path, tensors, {{"format", "pt"}});
}

}  // namespace lacuna
