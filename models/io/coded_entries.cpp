#include "models/io/coded_entries.h"

#include "core/coded/maps.h"
#include "models/io/json_fields.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace lacuna {
namespace {

constexpr std::string_view state_part = ".quant_state.", scales_part = ".absmax", map_part = ".quant_map",
                           nested_part = ".nested_absmax", nested_map_part = ".nested_quant_map", weight = ".weight",
                           row_scales_part = ".SCB", row_format_part = ".weight_format";

constexpr std::pair<std::string_view, WeightCode> writers[] = {
    {"bitsandbytes__nf4", WeightCode::nf4}, {"bitsandbytes__fp4", WeightCode::fp4}, {"lacuna__int4", WeightCode::int4}};
constexpr std::pair<std::string_view, DType> roundings[] = {
    {"float32", DType::f32}, {"bfloat16", DType::bf16}, {"float16", DType::f16}};

/// Bytes [begin, begin + bytes) of a coded tensor as a tensor of `shape`.
template <class T>
Tensor cut(const Tensor& coded, std::int64_t begin, const Shape& shape) {
  const Tensor part = Tensor::empty(shape, dtype_of<T>(), Device::cpu);
  std::memcpy(part.raw(), coded.as_bytes().data<const std::byte>() + begin, static_cast<std::size_t>(part.bytes()));
  return part;
}
template <class T>
Tensor tensor_of(std::span<const T> values) {
  const Tensor tensor =
      Tensor::empty({static_cast<std::int64_t>(values.size())}, dtype_of<std::remove_const_t<T>>(), Device::cpu);
  std::memcpy(tensor.raw(), values.data(), values.size_bytes());
  return tensor;
}

std::string module_with(std::string_view name) {
  return std::string(name.ends_with(weight) ? name.substr(0, name.size() - weight.size()) : name);
}

std::int64_t bytes_of(const SafetensorsEntry& entry) { return static_cast<std::int64_t>(entry.end - entry.begin); }

/// Finds and removes the entries of coded tensors.
class Joiner {
 public:
  Joiner(std::vector<SafetensorsEntry>& entries, const std::function<std::string(const SafetensorsEntry&)>& read,
         std::string_view origin)
      : read_(read), origin_(origin) {
    for (SafetensorsEntry& entry : entries) by_name_.emplace(entry.name, std::move(entry));
    entries.clear();
  }

  void join_4_bits() {
    for (const std::string& name : names_with(state_part)) {
      const std::size_t at = name.find(state_part);
      const std::string tensor = name.substr(0, at);
      const std::string_view writer = std::string_view(name).substr(at + state_part.size());
      const auto* const known = std::ranges::find(writers, writer, &std::pair<std::string_view, WeightCode>::first);
      if (known == std::end(writers)) reject("{}: {} is quantized in a way that is not known", origin_, name);
      add_4_bits(tensor, known->second, take(name, tensor));
    }
  }
  void join_8_bits() {
    for (const std::string& name : names_with(row_scales_part)) {
      if (!name.ends_with(row_scales_part)) continue;
      const std::string module = name.substr(0, name.size() - row_scales_part.size());
      const std::string tensor =
          by_name_.contains(module + std::string(weight)) ? module + std::string(weight) : module;
      CodedEntry coded{.codes = take(tensor, tensor), .scales = take(name, tensor)};
      if (const auto layout = by_name_.extract(module + std::string(row_format_part)); !layout.empty())
        if (const std::string bytes = read_short(layout.mapped()); bytes != std::string(1, '\0'))
          reject("{}: {}: expected the layout 0, by rows, which bitsandbytes saves", origin_, layout.key());
      const Shape shape = coded.codes.shape;
      if (shape.rank() == 0 || coded.codes.stored_dtype != "I8" || coded.scales.dtype != DType::f32 ||
          coded.scales.shape.count() != shape.front())
        reject("{}: expected {} in I8 with a scale in F32 for each row, got {} {} and {} {}", origin_, tensor,
               coded.codes.stored_dtype, shape, coded.scales.stored_dtype, coded.scales.shape);
      add(tensor, shape, format_in_8_bits(shape.count() / std::max<std::int64_t>(shape.front(), 1)), std::move(coded));
    }
  }
  std::vector<SafetensorsEntry> entries() && {
    std::vector<SafetensorsEntry> all = std::move(joined_);
    for (auto& [name, entry] : by_name_) all.push_back(std::move(entry));
    std::ranges::sort(all, {}, &SafetensorsEntry::name);
    return all;
  }
  std::map<std::string, CodedEntry, std::less<>> coded() && { return std::move(coded_); }

 private:
  std::vector<std::string> names_with(std::string_view part) const {
    std::vector<std::string> names;
    for (const auto& [name, entry] : by_name_)
      if (name.find(part) != std::string::npos) names.push_back(name);
    return names;
  }
  SafetensorsEntry take(const std::string& name, const std::string& tensor) {
    auto found = by_name_.extract(name);
    if (found.empty()) reject("{}: {} in few bits lacks its part {}", origin_, tensor, name);
    return std::move(found.mapped());
  }
  std::string read_short(const SafetensorsEntry& entry) const {
    constexpr std::int64_t longest = 4096;
    if (bytes_of(entry) > longest)
      reject("{}: {} has {} bytes, more than such an entry has", origin_, entry.name, bytes_of(entry));
    return read_(entry);
  }
  template <std::size_t n>
  void expect_map(const SafetensorsEntry& entry, const std::array<float, n>& values) const {
    std::array<float, n> map;
    const std::string bytes = read_short(entry);
    if (entry.dtype != DType::f32 || bytes.size() != sizeof map)
      reject("{}: expected {} values in F32 in {}, got {} {}", origin_, n, entry.name, entry.stored_dtype, entry.shape);
    std::memcpy(map.data(), bytes.data(), sizeof map);
    if (map != values) reject("{}: {} holds other values than those of its type", origin_, entry.name);
  }
  void add_4_bits(const std::string& tensor, WeightCode code, const SafetensorsEntry& state_entry) {
    const std::string state_origin = fmt::format("{}: {}", origin_, state_entry.name);
    const nlohmann::ordered_json state = nlohmann::ordered_json::parse(read_short(state_entry), nullptr, false);
    if (!state.is_object()) reject("{}: expected a JSON object", state_origin);
    WeightFormat format{.code = code, .block = count_in(state, "blocksize", state_origin)};
    const std::string type = text_in(state, "dtype", state_origin);
    const auto* const rounding = std::ranges::find(roundings, type, &std::pair<std::string_view, DType>::first);
    if (rounding == std::end(roundings)) reject("{}: the type {} is not known", state_origin, type);
    format.rounding = rounding->second;
    const Shape shape = shape_in(state, state_origin);
    CodedEntry coded{.codes = take(tensor, tensor), .scales = take(tensor + std::string(scales_part), tensor)};
    expect_map(take(tensor + std::string(map_part), tensor), values_of(code));
    if (state.contains("nested_blocksize")) {
      format.nested_block = count_in(state, "nested_blocksize", state_origin);
      coded.offset = static_cast<float>(number_in(state, "nested_offset", state_origin));
      coded.nested_scales = take(tensor + std::string(nested_part), tensor);
      expect_map(take(tensor + std::string(nested_map_part), tensor), nested_map());
    }
    constexpr std::int64_t most = 1 << 20;
    if (format.block < 1 || format.block > most || format.nested_block < 0 || format.nested_block > most ||
        (format.nested_block == 0) == coded.nested_scales.has_value())
      reject("{}: expected block sizes from 1 to {}", state_origin, most);
    const WeightLayout layout = layout_of(format, shape.count());
    const std::int64_t bytes = (shape.count() + 1) / 2, widest = 8;  // codes may be stored as any type
    const bool fits = bytes_of(coded.codes) >= bytes && bytes_of(coded.codes) < bytes + widest &&
                      coded.scales.dtype == (coded.nested_scales ? DType::u8 : DType::f32) &&
                      coded.scales.shape.count() == layout.blocks &&
                      (!coded.nested_scales || (coded.nested_scales->dtype == DType::f32 &&
                                                coded.nested_scales->shape.count() == layout.nested_blocks));
    if (!fits)
      reject("{}: the parts of {} do not fit the shape {} in blocks of {}", origin_, tensor, shape, format.block);
    add(tensor, shape, format, std::move(coded));
  }
  static Shape shape_in(const nlohmann::ordered_json& state, const std::string& origin) {
    const nlohmann::ordered_json& list = field(state, "shape", origin);
    constexpr std::size_t most_axes = 8;
    if (!list.is_array() || list.size() > most_axes) reject("{}: expected `shape` to be a list of extents", origin);
    std::vector<std::int64_t> extents;
    std::int64_t count = 1;
    for (const nlohmann::ordered_json& extent : list) {
      if (!extent.is_number_integer() || extent.get<std::int64_t>() < 1 ||
          __builtin_mul_overflow(count, extent.get<std::int64_t>(), &count) || count > std::int64_t{1} << 48)
        reject("{}: expected `shape` to be a list of extents", origin);
      extents.push_back(extent.get<std::int64_t>());
    }
    return Shape(std::span<const std::int64_t>(extents));
  }
  void add(const std::string& tensor, const Shape& shape, const WeightFormat& format, CodedEntry coded) {
    SafetensorsEntry entry = coded.codes;
    entry.name = tensor;
    entry.stored_dtype = name_of(format.code);
    entry.dtype = DType::coded;
    entry.format = format;
    entry.shape = shape;
    joined_.push_back(std::move(entry));
    coded_.emplace(tensor, std::move(coded));
  }

  const std::function<std::string(const SafetensorsEntry&)>& read_;
  std::string origin_;
  std::map<std::string, SafetensorsEntry, std::less<>> by_name_;
  std::vector<SafetensorsEntry> joined_;
  std::map<std::string, CodedEntry, std::less<>> coded_;
};

}  // namespace

std::vector<StoredPart> stored_parts(const std::string& name, const Tensor& coded) {
  const WeightFormat& format = coded.format();
  if (format.code == WeightCode::bf16) return {{name, coded.as_bf16()}};
  const std::int64_t count = coded.count();
  const WeightLayout layout = layout_of(format, count);
  if (format.code == WeightCode::int8)
    return {{name, cut<std::uint8_t>(coded, 0, coded.shape()), "I8"},
            {module_with(name) + std::string(row_scales_part), cut<float>(coded, layout.scales, {layout.blocks})}};
  const auto* const writer = std::ranges::find(writers, format.code, &std::pair<std::string_view, WeightCode>::second);
  const auto* const type = std::ranges::find(roundings, format.rounding, &std::pair<std::string_view, DType>::second);
  nlohmann::ordered_json state{{"quant_type", name_of(format.code)},
                               {"blocksize", format.block},
                               {"dtype", type->first},
                               {"shape", std::vector(coded.shape().begin(), coded.shape().end())}};
  std::vector<StoredPart> parts{
      {name, cut<std::uint8_t>(coded, 0, {(count + 1) / 2, 1})},
      {name + std::string(map_part), tensor_of(std::span<const float>(values_of(format.code)))}};
  if (format.nested_block == 0) {
    parts.push_back({name + std::string(scales_part), cut<float>(coded, layout.scales, {layout.blocks})});
  } else {
    state["nested_blocksize"] = format.nested_block;
    state["nested_dtype"] = "float32";
    state["nested_offset"] = cut<float>(coded, layout.offset, {1}).item();
    parts.push_back({name + std::string(scales_part), cut<std::uint8_t>(coded, layout.scales, {layout.blocks})});
    parts.push_back({name + std::string(nested_part), cut<float>(coded, layout.nested_scales, {layout.nested_blocks})});
    parts.push_back({name + std::string(nested_map_part), tensor_of(std::span<const float>(nested_map()))});
  }
  const std::string json = state.dump();
  parts.push_back({name + std::string(state_part) + std::string(writer->first),
                   tensor_of(std::span(reinterpret_cast<const std::uint8_t*>(json.data()), json.size()))});
  return parts;
}

std::map<std::string, CodedEntry, std::less<>> join_coded_entries(
    std::vector<SafetensorsEntry>& entries, const std::function<std::string(const SafetensorsEntry&)>& read,
    std::string_view origin) {
  const bool any = std::ranges::any_of(entries, [](const SafetensorsEntry& entry) {
    return entry.name.find(state_part) != std::string::npos || entry.name.ends_with(row_scales_part);
  });
  if (!any) return {};
  Joiner joiner(entries, read, origin);
  joiner.join_4_bits();
  joiner.join_8_bits();
  entries = std::move(joiner).entries();
  return std::move(joiner).coded();
}

}  // namespace lacuna
