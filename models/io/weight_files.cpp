#include "models/io/weight_files.h"

#include "core/coded/codec.h"
#include "core/error.h"
#include "core/text.h"
#include "models/io/halves.h"
#include "models/io/json_fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace lacuna {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view extension = ".safetensors", index_ending = ".index.json";
constexpr std::uintmax_t max_index_bytes = 100'000'000;

/// Refuses what begins as another format does. A pipe, which would wait for a writer, is left for SafetensorsFile to
/// refuse.
void refuse_other_formats(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return;
  std::array<char, 16> bytes{};
  std::ifstream stream(path, std::ios::binary);
  stream.read(bytes.data(), bytes.size());
  const std::string_view begin(bytes.data(), static_cast<std::size_t>(stream.gcount()));
  constexpr std::size_t header_begin = sizeof(std::uint64_t);
  if (begin.size() > header_begin && begin[header_begin] == '{') return;  // it is a safetensors file
  if (begin.starts_with("PK\x03\x04") || begin.starts_with("\x80\x02") || begin.starts_with("\x80\x03") ||
      begin.starts_with("\x80\x04")) {
    fs::path converted = path;
    converted.replace_extension(extension);
    reject(
        "{}: expected a safetensors file, got one that `torch.save` wrote. Convert it (torch and safetensors are "
        "needed):\n  FROM='{}' TO='{}' python3 -c '\n"
        "import os, torch, safetensors.torch\n"
        "state = torch.load(os.environ[\"FROM\"], map_location=\"cpu\", weights_only=True)\n"
        "while not any(hasattr(v, \"contiguous\") for v in state.values()):\n"
        "    state = state.get(\"state_dict\") or state.get(\"model\") or next(v for v in state.values() if "
        "isinstance(v, dict))\n"
        "safetensors.torch.save_file({{k: v.contiguous().clone() for k, v in state.items() if hasattr(v, "
        "\"contiguous\")}}, os.environ[\"TO\"])'",
        path.string(), for_single_quotes(path.string()), for_single_quotes(converted.string()));
  }
  if (begin.starts_with("version https://"))
    reject("{}: expected a safetensors file, got a Git LFS pointer to one: `git lfs pull` fetches it", path.string());
  if (begin.starts_with("\x89HDF") || begin.starts_with("GGUF") || begin.starts_with("<"))
    reject("{}: expected a safetensors file, got {}", path.string(),
           begin.starts_with("GGUF") ? "one of the format GGUF"
           : begin.starts_with("<")  ? "a page of a web site, as a download that failed leaves"
                                     : "one of the format HDF5");
}

/// `model-00001-of-00003.safetensors`: the text before the number, and the one from `-of-` on.
std::pair<std::string, std::string> shard_parts(const std::string& name) {
  const std::size_t of = name.rfind("-of-"), dash = of == std::string::npos ? of : name.rfind('-', of - 1);
  if (of == std::string::npos || of == 0 || dash == std::string::npos) return {};
  return {name.substr(0, dash), name.substr(of)};
}

/// The one file of a folder that is meant, or its shards.
std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> weights, indices;
  std::vector<std::string> others;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(extension)) weights.push_back(entry->path());
    if (name.ends_with(".safetensors.index.json")) indices.push_back(entry->path());
    for (const std::string_view other : {".pth", ".pt", ".bin", ".ckpt", ".tar"})
      if (name.ends_with(other)) others.push_back(name);
  }
  if (failed) reject("cannot read {}: {}", folder.string(), failed.message());
  for (std::vector<fs::path>* const found : {&weights, &indices}) {
    std::ranges::sort(*found);
    const fs::path usual = found == &indices ? "model.safetensors.index.json" : "model.safetensors";
    const auto model = std::ranges::find(*found, folder / usual);
    if (model != found->end()) return {*model};
  }
  if (indices.size() == 1) return indices;
  if (weights.size() == 1) return weights;
  if (weights.empty() && others.size() == 1) refuse_other_formats(folder / others.front());
  if (weights.empty())
    reject("{}: expected a folder with model.safetensors, got one without safetensors files{}", folder.string(),
           others.empty() ? "" : fmt::format("; it has {}", fmt::join(others, ", ")));
  const auto parts = shard_parts(weights.front().filename().string());
  if (!parts.first.empty() &&
      std::ranges::all_of(weights, [&](const fs::path& one) { return shard_parts(one.filename().string()) == parts; }))
    return weights;
  std::vector<std::string> names;
  for (const fs::path& one : weights) names.push_back(one.filename().string());
  reject("{}: expected one file of weights, got {}: name one of them", folder.string(), fmt::join(names, ", "));
}

/// The files that an index names, each in its folder.
std::set<std::string> shards_in(const fs::path& index) {
  const std::optional<nlohmann::ordered_json> read = read_json_object(index, max_index_bytes);
  if (!read || !read->contains("weight_map") || !read->at("weight_map").is_object())
    reject("{}: expected the index of shards, a JSON object with `weight_map`", index.string());
  const nlohmann::ordered_json& json = *read;
  std::set<std::string> names;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    if (!file.is_string()) reject("{}: expected a file's name for \"{}\" in `weight_map`", index.string(), tensor);
    const std::string name = file.get<std::string>();
    if (fs::path(name).has_parent_path())
      reject("{}: expected a file beside the index for \"{}\", got {}", index.string(), tensor, name);
    names.insert(name);
  }
  return names;
}

/// The prefixes that all names share up to a dot, such as `module.`, the empty one first.
std::vector<std::string> shared_beginnings(const std::vector<SafetensorsEntry>& entries) {
  std::vector<std::string> beginnings{""};
  if (entries.empty()) return beginnings;
  // They are ordered: what the first and the last share, all do.
  const std::string &first = entries.front().name, &last = entries.back().name;
  const auto shared = static_cast<std::size_t>(std::ranges::mismatch(first, last).in1 - first.begin());
  for (std::size_t dot = first.find('.'); dot < shared; dot = first.find('.', dot + 1))
    beginnings.push_back(first.substr(0, dot + 1));
  return beginnings;
}

/// The tensor `name` made of its parts, by rows.
SafetensorsEntry join(const std::string& name, const std::vector<const SafetensorsEntry*>& parts,
                      const fs::path& path) {
  const auto present = std::ranges::find_if(parts, [](const auto* part) { return part != nullptr; });
  SafetensorsEntry whole = **present;
  whole.name = name;
  if (parts.size() == 1) return whole;
  std::int64_t rows = 0;
  std::vector<std::int64_t> counts;
  for (const SafetensorsEntry* const part : parts) {
    if (part == nullptr)
      reject("{}: {} is one of {} parts of {}, and another is missing", path.string(), (*present)->name, parts.size(),
             name);
    const Shape &shape = part->shape, &first = (*present)->shape;
    const auto holds_numbers = [](const SafetensorsEntry& entry) {
      return entry.dtype && (is_floating(*entry.dtype) || entry.format);
    };
    const bool alike = part->dtype == (*present)->dtype || (holds_numbers(*part) && holds_numbers(**present));
    if (shape.rank() == 0 || shape.rank() != first.rank() || !alike || !part->dtype ||
        !std::equal(shape.begin() + 1, shape.end(), first.begin() + 1))
      reject("{}: expected {} {} {} and {} {} {} to be parts of one tensor", path.string(), (*present)->name,
             (*present)->stored_dtype, first, part->name, part->stored_dtype, shape);
    rows += shape[0];
    counts.push_back(shape.count());
    if (part->format != whole.format || part->dtype != whole.dtype) whole.dtype = DType::f32;
  }
  if (whole.format && (whole.dtype == DType::f32 || !can_join(*whole.format, counts))) {  // decoded by load
    whole.dtype = DType::f32;
    whole.format.reset();
  }
  if (whole.format) whole.format->nested_block = 0;
  std::vector<std::int64_t> extents(whole.shape.begin(), whole.shape.end());
  extents.front() = rows;
  whole.shape = Shape(extents);
  return whole;
}

/// `low`, which must be written with `high`.
std::shared_ptr<const SafetensorsFile> low_halves_of(const SafetensorsFile& high, const fs::path& low) {
  auto halves = std::make_shared<const SafetensorsFile>(low);
  const auto hash = [](const SafetensorsFile& file) {
    const auto found = file.metadata().find(exact_hash_key);
    return found == file.metadata().end() ? std::string() : found->second;
  };
  if (hash(high) != hash(*halves))
    reject(
        "{} holds the low halves of other weights than {}, which was replaced: remove it to take the weights in bf16",
        low.string(), high.path().string());
  return halves;
}

}  // namespace

WeightFiles::WeightFiles(std::string name, std::vector<PendingTensor> tensors) : path_(std::move(name)) {
  for (PendingTensor& tensor : tensors) {
    entries_.push_back({.name = tensor.name,
                        .stored_dtype = std::string(name_of(tensor.dtype)),
                        .dtype = tensor.dtype,
                        .shape = tensor.shape});
    const std::string stored = tensor.name;
    pending_.emplace(stored, std::move(tensor));
  }
  sort();
}

WeightFiles::WeightFiles(SafetensorsFile file) : path_(file.path()) {
  add(std::move(file));
  sort();
}

WeightFiles::WeightFiles(const fs::path& path) : path_(path) {
  std::error_code ignored;
  for (const fs::path& file : fs::is_directory(path, ignored) ? files_in(path) : std::vector{path}) {
    if (file.string().ends_with(index_ending)) {
      add_shards(file);
    } else {
      refuse_other_formats(file);
      add(SafetensorsFile(file));
    }
  }
  sort();
}

void WeightFiles::add_shards(const fs::path& index) {
  for (const std::string& name : shards_in(index)) {
    const fs::path file = index.parent_path() / name;
    std::error_code ignored;
    if (!fs::exists(file, ignored)) reject("{} names {}, which is not beside it", index.string(), name);
    refuse_other_formats(file);
    add(SafetensorsFile(file));
  }
}

void WeightFiles::add(SafetensorsFile file) {
  const fs::path low = file.path().parent_path() / low_halves_file;
  std::error_code ignored;
  if (file.path().filename() == "model.safetensors" && fs::exists(low, ignored)) low_halves_ = low_halves_of(file, low);
  for (SafetensorsEntry entry : file.entries()) {
    if (low_halves_ && entry.dtype == DType::bf16) {
      const SafetensorsEntry* const half = low_halves_->find(entry.name);
      if (half == nullptr || half->dtype != DType::u8 || !(half->shape == Shape{entry.shape.count(), 2}))
        reject("{}: expected the low halves of {} {} as U8 [{}, 2]", low.string(), entry.name, entry.shape,
               entry.shape.count());
      entry.dtype = DType::f32;
    }
    const auto [other, is_new] = file_of_.emplace(entry.name, files_.size());
    if (!is_new)
      reject("{} and {} both hold \"{}\"", files_[other->second].path().string(), file.path().string(), entry.name);
    entries_.push_back(entry);
  }
  files_.push_back(std::move(file));
}

void WeightFiles::sort() { std::ranges::sort(entries_, {}, &SafetensorsEntry::name); }

const SafetensorsEntry* WeightFiles::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(entries_, name, {}, &SafetensorsEntry::name);
  return found != entries_.end() && found->name == name ? &*found : nullptr;
}

bool WeightFiles::holds_coded() const {
  return std::ranges::any_of(entries_, [](const SafetensorsEntry& entry) { return entry.format.has_value(); });
}

void WeightFiles::take_from(const std::string& prefix) {
  prefix_ = prefix;
  std::erase_if(entries_, [&](const SafetensorsEntry& entry) { return !entry.name.starts_with(prefix); });
  for (SafetensorsEntry& entry : entries_) entry.name.erase(0, prefix.size());
}

void WeightFiles::rename(const TensorNames& names) {
  const auto known = [&](std::string_view name) { return names.ours(name) || names.ignores(name); };
  std::string best_begin, best_base;
  std::ptrdiff_t most = -1;
  for (const std::string& begin : shared_beginnings(entries_))
    for (const std::string& base : {std::string(), std::string(names.base)}) {
      const auto count = std::ranges::count_if(
          entries_, [&](const SafetensorsEntry& entry) { return known(base + entry.name.substr(begin.size())); });
      if (count <= most) continue;
      most = count;
      best_begin = begin;
      best_base = base;
    }
  std::vector<SafetensorsEntry> renamed;
  std::map<std::string, std::vector<const SafetensorsEntry*>> joined;
  for (const SafetensorsEntry& entry : entries_) {
    const std::string theirs = best_base + entry.name.substr(best_begin.size());
    if (names.ignores(theirs)) {
      left_out_.push_back(entry.name);
    } else if (const auto place = names.ours(theirs)) {
      std::vector<const SafetensorsEntry*>& parts = joined[place->name];
      parts.resize(static_cast<std::size_t>(place->parts));
      parts[static_cast<std::size_t>(place->part)] = &entry;
      // transformers turns a weight before it quantizes it.
      if (place->transposed && entry.shape.rank() == 2 && !entry.format) transposed_.insert(entry.name);
    } else {
      renamed.push_back(entry);
      parts_of_[entry.name] = {entry.name};
    }
  }
  for (const auto& [name, parts] : joined) {
    renamed.push_back(join(name, parts, path_));
    if (SafetensorsEntry& whole = renamed.back(); transposed_.contains(parts.front()->name))
      whole.shape = Shape{whole.shape[1], whole.shape[0]};
    for (const SafetensorsEntry* const part : parts) parts_of_[name].push_back(part->name);
  }
  entries_ = std::move(renamed);
  sort();
}

Tensor WeightFiles::load_stored(const std::string& name) const {
  Tensor stored;
  if (const auto made = pending_.find(prefix_ + name); made != pending_.end()) {
    stored = made->second.make();
  } else {
    const auto found = file_of_.find(prefix_ + name);
    expect(found != file_of_.end(), "{} holds no tensor \"{}\"", path_.string(), name);
    stored = files_[found->second].load(prefix_ + name);
  }
  if (low_halves_ && stored.dtype() == DType::bf16) stored = join_halves(stored, low_halves_->load(prefix_ + name));
  return transposed_.contains(name) ? transposed(stored) : stored;
}

Tensor WeightFiles::load(std::string_view name) const {
  const auto found = parts_of_.find(name);
  if (found == parts_of_.end()) return load_stored(std::string(name));
  if (found->second.size() == 1) return load_stored(found->second.front());
  const SafetensorsEntry& entry = *find(name);
  if (entry.format) {
    Tensor whole = Tensor::coded(entry.shape, *entry.format, Device::cpu);
    std::int64_t first = 0;
    for (const std::string& stored : found->second) {
      const Tensor part = load_stored(stored);
      copy_part(part, first, whole);
      first += part.count();
    }
    return whole;
  }
  Tensor whole = Tensor::empty(entry.shape, *entry.dtype, Device::cpu);
  std::int64_t row = 0;
  for (const std::string& stored : found->second) {
    const Tensor part = load_stored(stored);
    whole.leading(row, row + part.shape()[0]).copy_from(part);
    row += part.shape()[0];
  }
  return whole;
}

}  // namespace lacuna
