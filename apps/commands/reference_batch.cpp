#include "apps/commands/reference_batch.h"

#include "models/folders/values.h"
#include "models/registry.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <span>

namespace lacuna {
namespace {

using nlohmann::json;

constexpr std::string_view prefix = "input/", target_name = "target", positions_name = "input/positions";

Shape with_front(std::initializer_list<std::int64_t> front, const Shape& shape, int from) {
  std::vector<std::int64_t> extents(front);
  extents.insert(extents.end(), shape.begin() + std::min(from, shape.rank()), shape.end());
  return Shape(std::span<const std::int64_t>(extents));
}

class FileBatch {
 public:
  FileBatch(const SafetensorsFile& file, const Model& model, const Task& task) : file_(file), inputs_(model.inputs()) {
    fields_ = inputs_;
    SampleFields targets = task.targets();
    const std::string label = class_field().name;
    const bool has_target = std::ranges::find(targets, label, &SampleField::name) != targets.end() ||
                            find_field(targets, FieldKind::mask) != nullptr;
    if (file.contains(target_name) && !has_target) {
      // A task that draws its labels takes those of each token in their place.
      const SampleField* const tokens = find_field(inputs_, FieldKind::tokens);
      if (tokens == nullptr) refuse("the task has no labels to take `target` for");
      targets = {*tokens};
      targets.front().name = label;
      targets.front().kind = FieldKind::label;
    }
    fields_.insert(fields_.end(), targets.begin(), targets.end());
    if (file.contains("input/ids") && !file.contains("input/types"))  // all tokens are of the first type
      std::erase_if(fields_, [&](const SampleField& field) { return alias_of(field) == "input/types"; });
    for (const SampleField& field : fields_)
      for (const std::string& name : {lengths_of(field), indexes_of(field)})
        if (!name.empty()) delimiters_.try_emplace(name);
  }

  Batch load() {
    require_names();
    Batch batch;
    for (auto& [name, delimiter] : delimiters_) {
      delimiter = load_delimiter(name);
      batch.set(name, delimiter);
    }
    for (const SampleField& field : fields_) {
      const Tensor tensor = load_field(field);
      if (field.kind == FieldKind::edges)
        batch.set_edges(field.name, tensor, lengths_of(field), indexes_of(field));
      else if (field.collation == Collation::packed)
        batch.set_packed(field.name, tensor, lengths_of(field));
      else
        batch.set(field.name, tensor);
    }
    if (samples_ < 1) refuse("there is no sample");
    batch.samples = samples_;
    return batch;
  }

 private:
  /// The name by which a file from timm or transformers has a field; empty if it has none.
  std::string alias_of(const SampleField& field) const {
    const SampleField* const tokens = find_field(inputs_, FieldKind::tokens);
    if (field.name == class_field().name || field.kind == FieldKind::mask) return std::string(target_name);
    if (std::ranges::find(inputs_, field.name, &SampleField::name) == inputs_.end()) return {};
    if (field.kind == FieldKind::pixels) return "input/image";
    if (field.kind == FieldKind::tokens) return "input/ids";
    const bool follows_tokens = tokens != nullptr && lengths_of(field) == lengths_of(*tokens);
    return follows_tokens && field.collation == tokens->collation ? "input/types" : "";
  }
  std::string source_of(const SampleField& field) const {
    const std::string name = fmt::format("{}{}", prefix, field.name), alias = alias_of(field);
    return !alias.empty() && file_.contains(alias) ? alias : name;
  }
  /// Whether the lengths `name` are given as `input/mask`.
  bool is_masked(const std::string& name) const {
    return !file_.contains(fmt::format("{}{}", prefix, name)) && file_.contains("input/mask") &&
           std::ranges::any_of(inputs_, [&](const SampleField& field) { return lengths_of(field) == name; });
  }
  std::string source_of(const std::string& delimiter) const {
    return is_masked(delimiter) ? "input/mask" : fmt::format("{}{}", prefix, delimiter);
  }

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    std::string expected, got;
    const auto list = [](std::string& all, const std::string& one) { all += (all.empty() ? "" : ", ") + one; };
    for (const SampleField& field : fields_) {
      std::string extents = field.collation == Collation::stacked  ? "N"
                            : field.collation == Collation::packed ? "rows of " + lengths_of(field)
                                                                   : "N, longest";
      std::vector<std::int64_t> axes(field.shape.begin(), field.shape.end());
      if (field.collation != Collation::stacked) axes.erase(axes.begin());
      if (source_of(field) == "input/image") std::ranges::rotate(axes, axes.end() - 1);  // channels come first
      for (const std::int64_t axis : axes) extents += fmt::format(", {}", axis);
      list(expected, fmt::format("`{}` {} [{}]", source_of(field), name_of(field.dtype), extents));
    }
    for (const auto& [name, tensor] : delimiters_) list(expected, fmt::format("`{}` i64", source_of(name)));
    for (const SafetensorsEntry& entry : file_.entries())
      if (entry.name.starts_with(prefix) || entry.name == target_name)
        list(got, fmt::format("`{}` {} {}", entry.name, entry.stored_dtype, entry.shape));
    reject("{}: {}: expected {}; got {}", file_.path().string(), fmt::format(format, std::forward<Args>(args)...),
           expected, got.empty() ? "no inputs" : got);
  }

  void require_names() const {
    std::set<std::string> declared;
    for (const SampleField& field : fields_) declared.insert(source_of(field));
    for (const auto& [name, tensor] : delimiters_) declared.insert(source_of(name));
    for (const std::string& name : declared)
      if (!file_.contains(name)) refuse("`{}` is missing", name);
    if (file_.contains(positions_name) && file_.contains("input/offsets")) {
      check_positions();
      declared.emplace(positions_name);
    }
    for (const SafetensorsEntry& entry : file_.entries())
      if ((entry.name.starts_with(prefix) || entry.name == target_name) && !declared.contains(entry.name))
        refuse("neither the model nor its task takes `{}`", entry.name);
  }

  /// Refuses positions that do not restart with each sequence: the model makes them of the offsets.
  void check_positions() const {
    const Tensor positions = load_as(std::string(positions_name), DType::i64),
                 offsets = load_as("input/offsets", DType::i64);
    const auto* const position = positions.data<const std::int64_t>();
    const auto* const offset = offsets.data<const std::int64_t>();
    for (std::int64_t row = 0, n = 0; row < positions.count(); ++row) {
      while (n + 1 < offsets.count() && row >= offset[n + 1]) ++n;
      if (offsets.count() == 0 || position[row] != row - offset[n])
        refuse("`{}` has {} in row {}, where the offsets restart them", positions_name, position[row], row);
    }
  }

  Tensor load_as(const std::string& name, DType dtype) const {
    const SafetensorsEntry& entry = *file_.find(name);
    const bool fits = entry.dtype && (*entry.dtype == dtype || (is_floating(*entry.dtype) && is_floating(dtype)));
    if (!fits) refuse("`{}` is {}", name, entry.stored_dtype);
    return file_.load(name).to(dtype);
  }

  void count_samples(std::int64_t samples, const std::string& name) {
    if (samples_ >= 0 && samples != samples_) refuse("`{}` has {} samples, others {}", name, samples, samples_);
    samples_ = samples;
  }

  Tensor load_delimiter(const std::string& name) {
    const std::string source = source_of(name);
    const Tensor stored = load_as(source, DType::i64);
    const auto* const values = stored.data<const std::int64_t>();
    if (is_masked(name)) return lengths_of_mask(stored, name);
    if (stored.shape().rank() != 1) refuse("`{}` has {} axes", source, stored.shape().rank());
    const std::span<const std::int64_t> all(values, static_cast<std::size_t>(stored.count()));
    const bool packs = packs_by(name);
    if (packs && (all.empty() || all.front() != 0 || !std::ranges::is_sorted(all)))
      refuse("`{}` does not ascend from 0", source);
    if (std::ranges::any_of(all, [](std::int64_t value) { return value < 0; })) refuse("`{}` is negative", source);
    count_samples(std::ssize(all) - (packs ? 1 : 0), source);
    return stored;
  }
  bool packs_by(const std::string& name) const {
    return std::ranges::none_of(fields_, [&](const SampleField& field) {
      return field.collation == Collation::padded && lengths_of(field) == name;
    });
  }

  /// Offsets or lengths of the sequences in `mask` [N, L].
  Tensor lengths_of_mask(const Tensor& mask, const std::string& name) {
    if (mask.shape().rank() != 2) refuse("`input/mask` has {} axes", mask.shape().rank());
    mask_ = mask;
    const bool packs = packs_by(name);
    const std::int64_t samples = mask.shape()[0], longest = mask.shape()[1];
    const auto* const values = mask.data<const std::int64_t>();
    std::vector<std::int64_t> lengths(packs ? 1 : 0);
    for (std::int64_t n = 0; n < samples; ++n) {
      const std::span<const std::int64_t> row(values + n * longest, static_cast<std::size_t>(longest));
      const auto end = std::ranges::find(row, 0);
      if (std::ranges::any_of(end, row.end(), [](std::int64_t value) { return value != 0; }))
        refuse("`input/mask` of sample {} has a gap", n);
      lengths.push_back((packs ? lengths.back() : 0) + (end - row.begin()));
    }
    count_samples(samples, "input/mask");
    return Tensor::from(std::span<const std::int64_t>(lengths), {std::ssize(lengths)});
  }

  /// The rows of `padded` [N, L, ...] that the mask has.
  Tensor packed(const Tensor& padded, std::int64_t rows) const {
    const Tensor out = Tensor::empty(with_front({rows}, padded.shape(), 2), padded.dtype(), Device::cpu, Purpose::data);
    const std::int64_t row = rows == 0 ? 0 : out.bytes() / rows;
    std::byte* to = out.raw();
    for (std::int64_t i = 0; i < mask_.count(); ++i) {
      if (mask_.data<const std::int64_t>()[i] == 0) continue;
      std::memcpy(to, padded.data<const std::byte>() + i * row, static_cast<std::size_t>(row));
      to += row;
    }
    return out;
  }

  Tensor load_field(const SampleField& field) {
    const std::string source = source_of(field);
    // Masks are written as PyTorch's losses take them.
    const bool is_mask = field.kind == FieldKind::mask && source == target_name;
    Tensor tensor = load_as(source, is_mask ? DType::i64 : field.dtype);
    if (source == "input/image") {
      if (tensor.shape().rank() != 4) refuse("`{}` has {} axes", source, tensor.shape().rank());
      tensor = channels_last(tensor);
    }
    const Shape& shape = tensor.shape();
    if (shape.rank() == 0) refuse("`{}` has no axis of samples", source);
    Shape expected = with_front({shape[0]}, field.shape, 0);
    if (field.collation == Collation::stacked) {
      count_samples(shape[0], source);
    } else {
      const Tensor& lengths = delimiters_.at(lengths_of(field));
      const std::int64_t given = lengths.count();
      const auto* const values = lengths.data<const std::int64_t>();
      if (field.collation == Collation::padded) {
        expected = with_front({samples_, shape.rank() > 1 ? shape[1] : 0}, field.shape, 1);
        if (given > 0 && std::max_element(values, values + given)[0] > (shape.rank() > 1 ? shape[1] : 0))
          refuse("`{}` is shorter than its lengths", source);
      } else {
        const std::int64_t rows = values[given - 1];
        expected = with_front({rows}, field.shape, 1);
        const bool is_padded =
            mask_.defined() && shape.rank() == expected.rank() + 1 && Shape{shape[0], shape[1]} == mask_.shape();
        if (is_padded) tensor = packed(tensor, rows);
        const bool is_one_row = !mask_.defined() && shape.rank() == expected.rank() + 1 && shape[0] == 1;
        if (is_one_row) tensor = tensor.reshape(with_front({shape[1]}, shape, 2));
      }
    }
    if (!(tensor.shape() == expected)) refuse("`{}` has the shape {}", source, shape);
    check_range(field, source, tensor);
    return tensor;
  }

  /// Numbers that index a table or rows.
  void check_range(const SampleField& field, const std::string& source, const Tensor& tensor) const {
    if (field.dtype != DType::i64) return;
    std::int64_t below = field.below;
    if (field.kind == FieldKind::edges) {
      const Tensor& rows = delimiters_.at(indexes_of(field));
      below = rows.data<const std::int64_t>()[rows.count() - 1];
    } else if (below == 0 || std::ranges::find(inputs_, field.name, &SampleField::name) == inputs_.end()) {
      return;  // the task checks its own
    }
    for (std::int64_t i = 0; i < tensor.count(); ++i)
      if (const std::int64_t value = tensor.data<const std::int64_t>()[i]; value < 0 || value >= below)
        refuse("`{}` has {}, and not below {}", source, value, below);
  }

  const SafetensorsFile& file_;
  SampleFields inputs_, fields_;  // of the model; with the task's
  std::map<std::string, Tensor> delimiters_;
  Tensor mask_;
  std::int64_t samples_ = -1;
};

}  // namespace

Tensor channels_last(const Tensor& planes) {
  const Shape& shape = planes.shape();
  const std::int64_t channels = shape[1], pixels = shape[2] * shape[3];
  const Tensor images = Tensor::empty({shape[0], shape[2], shape[3], channels}, DType::f32, Device::cpu, Purpose::data);
  const Tensor source = planes.to(DType::f32);
  const float* const in = source.data<const float>();
  float* const out = images.data<float>();
  for (std::int64_t n = 0; n < shape[0]; ++n)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t p = 0; p < pixels; ++p)
        out[(n * pixels + p) * channels + c] = in[(n * channels + c) * pixels + p];
  return images;
}

json reference_metadata(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) return nullptr;
  constexpr int deepest = 8;  // far beyond any description; copies and messages walk down by recursion
  bool too_deep = false;
  const auto watch = [&](int depth, json::parse_event_t, json&) { return !(too_deep = too_deep || depth > deepest); };
  json value = json::parse(found->second, watch, false);
  if (too_deep) reject("{}: the metadata `{}` is nested more than {} deep", file.path().string(), key, deepest);
  if (value.is_discarded()) reject("{}: the metadata `{}` is no JSON", file.path().string(), key);
  return value;
}

Tree reference_value(const std::string& key, const json& value) {
  if (const std::optional<Tree> read = hyper_value(value)) return *read;
  reject("the reference has `{}` = {}: expected a number, a word, or a list of whole numbers", key, value.dump());
}

std::unique_ptr<Task> reference_task(const SafetensorsFile& file, const Model& model) {
  const json description = reference_metadata(file, "task");
  if (!description.is_object() || !description.contains("name") || !description["name"].is_string())
    reject("{}: expected metadata `task` with a `name`, got {}", file.path().string(), description.dump());
  OptionValues options;
  for (const auto& [key, value] : description.items())
    if (key != "name") options.emplace(key, reference_value(key, value));
  return make_task(description["name"].get<std::string>(), options, model);
}

Batch load_reference_batch(const SafetensorsFile& file, const Model& model, const Task& task) {
  return FileBatch(file, model, task).load();
}

}  // namespace lacuna
