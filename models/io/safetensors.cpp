#include "models/io/safetensors.h"

#include "core/file.h"
#include "core/system_error.h"
#include "models/io/coded_entries.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

namespace lacuna {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian and is read as it lies");

constexpr std::uint64_t max_header_bytes = 100'000'000;
constexpr std::string_view metadata_key = "__metadata__";

struct StoredType {
  std::string_view name;
  std::uint64_t bits;  // of one element
  std::optional<DType> dtype;
};

constexpr StoredType stored_types[] = {
    {"F32", 32, DType::f32}, {"BF16", 16, DType::bf16}, {"F16", 16, DType::f16}, {"F64", 64, DType::f64},
    {"I64", 64, DType::i64}, {"I32", 32, DType::i32},   {"U8", 8, DType::u8},    {"BOOL", 8, {}},
    {"I8", 8, {}},           {"I16", 16, {}},           {"U16", 16, {}},         {"U32", 32, {}},
    {"U64", 64, {}},         {"C64", 64, {}},           {"F8_E4M3", 8, {}},      {"F8_E5M2", 8, {}},
    {"F8_E8M0", 8, {}},      {"F6_E2M3", 6, {}},        {"F6_E3M2", 6, {}},      {"F4", 4, {}},
};

const StoredType* find_type(std::string_view name) {
  const auto* found = std::ranges::find(stored_types, name, &StoredType::name);
  return found == std::end(stored_types) ? nullptr : found;
}

std::string_view stored_name(DType dtype) {
  return std::ranges::find(stored_types, std::optional(dtype), &StoredType::dtype)->name;
}

/// A tensor's description while its object is being read.
struct Description {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<std::uint64_t>> shape, offsets;
};

/// Receives the JSON's events. The format has three levels and no more, so nothing recurses on what a file says.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(std::string_view origin) : origin_(origin) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("true or false"); }
  bool number_integer(number_integer_t value) override { unexpected(fmt::format("the number {}", value)); }
  bool number_float(number_float_t, const string_t& text) override { unexpected("the number " + text); }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (list_ == nullptr) unexpected(fmt::format("the number {}", value));
    if (list_->size() == static_cast<std::size_t>(Shape::max_rank))
      refuse("has more than {} entries in `{}`", Shape::max_rank, key_);
    list_->push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (level_ == Level::metadata) {
      header_.metadata[key_] = value;
    } else if (level_ == Level::tensor && key_ == "dtype") {
      tensor_.dtype = value;
    } else {
      unexpected("the string \"" + value + '"');
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (level_ == Level::outside) {
      level_ = Level::file;
    } else if (level_ == Level::file && key_ == metadata_key) {
      level_ = Level::metadata;
    } else if (level_ == Level::file) {
      level_ = Level::tensor;
      tensor_ = {.name = key_, .dtype = {}, .shape = {}, .offsets = {}};
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(string_t& value) override {
    if (level_ == Level::file && !names_.insert(value).second)
      reject("{}: the key \"{}\" stands in the header twice", origin_, value);
    if (level_ == Level::metadata && header_.metadata.contains(value))
      reject("{}: the key \"{}\" stands in `{}` twice", origin_, value, metadata_key);
    if (level_ == Level::tensor) {
      const bool twice = (value == "dtype" && tensor_.dtype) || (value == "shape" && tensor_.shape) ||
                         (value == "data_offsets" && tensor_.offsets);
      if (twice) refuse("has the key `{}` twice", value);
      if (value != "dtype" && value != "shape" && value != "data_offsets") refuse("has the unknown key `{}`", value);
    }
    key_ = value;
    return true;
  }

  bool start_array(std::size_t) override {
    if (level_ != Level::tensor || list_ != nullptr || key_ == "dtype") unexpected("a list");
    list_ = &(key_ == "shape" ? tensor_.shape : tensor_.offsets).emplace();
    return true;
  }

  bool end_array() override {
    list_ = nullptr;
    return true;
  }

  bool end_object() override {
    if (level_ == Level::tensor) add_tensor();
    level_ = level_ == Level::file ? Level::outside : Level::file;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    reject("{}: the header is no valid JSON at byte {}: {}", origin_, position, error.what());
  }

 private:
  enum class Level : std::uint8_t { outside, file, metadata, tensor };

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    reject("{}: the tensor \"{}\" {}", origin_, tensor_.name, fmt::format(format, std::forward<Args>(args)...));
  }

  [[noreturn]] void unexpected(const std::string& found) const {
    switch (level_) {
      case Level::outside:
        reject("{}: expected an object as the header, got {}", origin_, found);
      case Level::file:
        reject("{}: expected an object as \"{}\", got {}", origin_, key_, found);
      case Level::metadata:
        reject("{}: expected a string as \"{}\" in `{}`, got {}", origin_, key_, metadata_key, found);
      case Level::tensor:
        break;
    }
    reject("{}: expected {} as `{}` of the tensor \"{}\", got {}", origin_,
           key_ == "dtype" ? "a string" : "a list of whole numbers from 0", key_, tensor_.name, found);
  }

  void add_tensor() {
    if (!tensor_.dtype) refuse("has no `dtype`");
    if (!tensor_.shape) refuse("has no `shape`");
    if (!tensor_.offsets) refuse("has no `data_offsets`");
    const StoredType* const type = find_type(*tensor_.dtype);
    if (type == nullptr) refuse("is of the unknown type \"{}\"", *tensor_.dtype);
    const auto& offsets = *tensor_.offsets;
    if (offsets.size() != 2 || offsets[0] > offsets[1])
      refuse("has the `data_offsets` [{}], expected [begin, end]", fmt::join(offsets, ", "));

    std::vector<std::int64_t> extents;
    std::uint64_t bits = type->bits;
    bool empty = false;
    for (const std::uint64_t extent : *tensor_.shape) {
      empty |= extent == 0;
      if (extent != 0 && __builtin_mul_overflow(bits, extent, &bits))
        refuse("of shape [{}] has more bytes than can be counted", fmt::join(*tensor_.shape, ", "));
      extents.push_back(static_cast<std::int64_t>(extent));
    }
    if (bits > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      refuse("of shape [{}] has more bytes than can be counted", fmt::join(*tensor_.shape, ", "));
    if (empty) bits = 0;
    if (bits % 8 != 0 || bits / 8 != offsets[1] - offsets[0])
      refuse("of type {} and shape [{}] needs {} bytes, but its data has {}", type->name,
             fmt::join(*tensor_.shape, ", "), bits / 8, offsets[1] - offsets[0]);
    header_.entries.push_back({tensor_.name, std::string(type->name), type->dtype,
                               Shape(std::span(std::as_const(extents))), offsets[0], offsets[1]});
  }

  std::string origin_;
  SafetensorsHeader header_;
  std::set<std::string, std::less<>> names_;
  Level level_ = Level::outside;
  std::string key_;
  Description tensor_;
  std::vector<std::uint64_t>* list_ = nullptr;
};

void check_layout(const std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes, std::string_view origin) {
  std::vector<const SafetensorsEntry*> in_order;
  for (const SafetensorsEntry& entry : entries) in_order.push_back(&entry);
  std::ranges::sort(in_order, {}, [](const SafetensorsEntry* e) { return std::pair(e->begin, e->end); });
  std::uint64_t position = 0;
  for (const SafetensorsEntry* entry : in_order) {
    if (entry->begin != position)
      reject("{}: the data of \"{}\" begins at byte {}, expected {}: {}", origin, entry->name, entry->begin, position,
             entry->begin < position ? "it overlaps another tensor's" : "there is a hole before it");
    position = entry->end;
  }
  if (position != data_bytes)
    reject("{}: the tensors need {} bytes of data, but the file has {}: {}", origin, position, data_bytes,
           position > data_bytes ? "it is truncated" : "it has something else at its end");
}

/// Reads `bytes` from `offset` on; short of that, the file has changed since it was opened.
void read_at(int descriptor, std::uint64_t offset, void* destination, std::uint64_t bytes,
             const std::filesystem::path& path) {
  auto* next = static_cast<std::byte*>(destination);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor, next, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) reject("cannot read {}: {}", path.string(), last_system_error());
    if (got == 0) reject("{}: ended at byte {} while {} more were expected", path.string(), offset, bytes);
    next += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::uint64_t>(got);
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes, std::string_view origin) {
  if (!json.starts_with('{')) reject("{}: expected the header to start with '{{'", origin);
  HeaderReader reader(origin);
  nlohmann::json::sax_parse(json, &reader);
  SafetensorsHeader header = reader.take();
  check_layout(header.entries, data_bytes, origin);
  std::ranges::sort(header.entries, {}, &SafetensorsEntry::name);
  return header;
}

// Not blocking: a pipe would wait for a writer before it could be refused.
SafetensorsFile::SafetensorsFile(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) reject("cannot open {}: {}", path_.string(), last_system_error());
  try {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) reject("cannot read {}: {}", path_.string(), last_system_error());
    if (!S_ISREG(status.st_mode)) reject("{} is no regular file", path_.string());
    const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
    std::uint64_t header_bytes = 0;
    if (file_bytes < sizeof header_bytes)
      reject("{}: {} bytes are too few for a safetensors file", path_.string(), file_bytes);
    read_at(descriptor_, 0, &header_bytes, sizeof header_bytes, path_);
    if (header_bytes > max_header_bytes)
      reject(
          "{}: says that its header has {} bytes, more than the {} that the format allows: is it a safetensors file?",
          path_.string(), header_bytes, max_header_bytes);
    if (header_bytes > file_bytes - sizeof header_bytes)
      reject("{}: says that its header has {} bytes, but only {} follow: it is truncated", path_.string(), header_bytes,
             file_bytes - sizeof header_bytes);
    std::string json(header_bytes, '\0');
    read_at(descriptor_, sizeof header_bytes, json.data(), header_bytes, path_);
    data_start_ = sizeof header_bytes + header_bytes;
    header_ = parse_safetensors_header(json, file_bytes - data_start_, path_.string());
    coded_ = join_coded_entries(
        header_.entries,
        [this](const SafetensorsEntry& entry) {
          std::string bytes(entry.end - entry.begin, '\0');
          read_at(descriptor_, data_start_ + entry.begin, bytes.data(), bytes.size(), path_);
          return bytes;
        },
        path_.string());
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      data_start_(other.data_start_),
      header_(std::move(other.header_)),
      coded_(std::move(other.coded_)) {}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(header_.entries, name, {}, &SafetensorsEntry::name);
  return found != header_.entries.end() && found->name == name ? &*found : nullptr;
}

Tensor SafetensorsFile::load(std::string_view name) const {
  const SafetensorsEntry* const entry = find(name);
  if (entry == nullptr) reject("{}: has no tensor \"{}\"", path_.string(), name);
  if (!entry->dtype)
    reject("{}: the tensor \"{}\" is of type {}, which Lacuna does not have", path_.string(), name,
           entry->stored_dtype);
  if (entry->format) {
    const Tensor tensor = Tensor::coded(entry->shape, *entry->format, Device::cpu);
    const WeightLayout layout = layout_of(*entry->format, tensor.count());
    const CodedEntry& parts = coded_.at(entry->name);
    const auto read = [&](const SafetensorsEntry& part, std::int64_t place, std::int64_t most) {
      read_at(descriptor_, data_start_ + part.begin, tensor.raw() + place,
              std::min(part.end - part.begin, static_cast<std::uint64_t>(most)), path_);
    };
    read(parts.codes, 0, layout.scales);
    read(parts.scales, layout.scales, layout.bytes - layout.scales);
    if (parts.nested_scales) read(*parts.nested_scales, layout.nested_scales, layout.offset - layout.nested_scales);
    if (parts.nested_scales) std::memcpy(tensor.raw() + layout.offset, &parts.offset, sizeof parts.offset);
    return tensor;
  }
  Tensor tensor = Tensor::empty(entry->shape, *entry->dtype, Device::cpu);
  read_at(descriptor_, data_start_ + entry->begin, tensor.raw(), entry->end - entry->begin, path_);
  return tensor;
}

Tensor transposed(const Tensor& tensor) {
  const std::int64_t rows = tensor.shape()[0], columns = tensor.shape()[1], size = size_of(tensor.dtype());
  const Tensor result = Tensor::empty({columns, rows}, tensor.dtype(), Device::cpu);
  const Tensor on_host = tensor.to(Device::cpu);
  const auto* const from = on_host.data<const std::byte>();
  std::byte* const to = result.raw();
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      std::memcpy(to + (j * rows + i) * size, from + (i * columns + j) * size, static_cast<std::size_t>(size));
  return result;
}

std::string to_json(const std::vector<TensorDescription>& tensors) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [name, dtype, shape, stored_type] : tensors)
    list.push_back({name, stored_name(dtype), std::vector(shape.begin(), shape.end())});
  return list.dump();
}

std::vector<TensorDescription> parse_descriptions(std::string_view json) {
  std::vector<TensorDescription> tensors;
  for (const nlohmann::json& one : nlohmann::json::parse(json)) {
    const auto extents = one[2].get<std::vector<std::int64_t>>();
    tensors.push_back({one[0].get<std::string>(),
                       *find_type(one[1].get<std::string>())->dtype,
                       Shape(std::span<const std::int64_t>(extents)),
                       {}});
  }
  return tensors;
}

SafetensorsLayout safetensors_layout(std::vector<TensorDescription> tensors,
                                     const std::map<std::string, std::string>& metadata) {
  // Widest types first keeps every tensor aligned, as the reference implementation does.
  std::ranges::sort(tensors, {}, [](const TensorDescription& t) { return std::pair(-size_of(t.dtype), t.name); });
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header[std::string(metadata_key)] = metadata;
  SafetensorsLayout layout;
  std::uint64_t position = 0;
  for (const auto& [name, dtype, shape, stored_type] : tensors) {
    expect(name != metadata_key && !header.contains(name), "two tensors would be written as \"{}\"", name);
    const auto bytes = static_cast<std::uint64_t>(shape.count() * size_of(dtype));
    header[name] = {{"dtype", stored_type.empty() ? stored_name(dtype) : stored_type},
                    {"shape", std::vector(shape.begin(), shape.end())},
                    {"data_offsets", {position, position + bytes}}};
    layout.order.push_back(name);
    layout.at[name] = position;
    position += bytes;
  }
  std::string json = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const std::uint64_t header_bytes = json.size();
  layout.begin = std::string(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes) + json;
  for (auto& entry : layout.at) entry.second += layout.begin.size();
  layout.bytes = layout.begin.size() + position;
  return layout;
}

void write_part(const std::filesystem::path& path, const SafetensorsLayout& layout,
                const std::vector<NamedTensor>& tensors, bool is_first) {
  const auto refuse = [&] { reject("cannot write {}: {}", path.string(), last_system_error()); };
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | (is_first ? O_CREAT | O_TRUNC : 0), 0666);
  if (descriptor < 0) refuse();
  const auto close = [](const int* open) { ::close(*open); };
  const std::unique_ptr<const int, decltype(close)> closes(&descriptor, close);
  const auto write = [&](std::uint64_t at, const void* data, std::uint64_t bytes) {
    const auto* next = static_cast<const std::byte*>(data);
    while (bytes > 0) {
      const ssize_t written = ::pwrite(descriptor, next, bytes, static_cast<off_t>(at));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) refuse();
      next += written;
      at += static_cast<std::uint64_t>(written);
      bytes -= static_cast<std::uint64_t>(written);
    }
  };
  if (is_first) {
    if (::ftruncate(descriptor, static_cast<off_t>(layout.bytes)) != 0) refuse();
    write(0, layout.begin.data(), layout.begin.size());
  }
  for (const auto& [name, tensor] : tensors)
    write(layout.at.at(name), tensor.to(Device::cpu).data<const std::byte>(),
          static_cast<std::uint64_t>(tensor.bytes()));
  if (::fsync(descriptor) != 0) refuse();
}

PendingTensor pending(std::string name, Tensor tensor) {
  expect(tensor.defined() && tensor.device() != Device::meta, "a tensor without values cannot be written: \"{}\"",
         name);
  const DType dtype = tensor.dtype();
  const Shape shape = tensor.shape();
  return {std::move(name), dtype, shape, [tensor = std::move(tensor)] { return tensor; }};
}

void write_one_by_one(const std::filesystem::path& path, const std::vector<PendingTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::vector<TensorDescription> descriptions;
  std::map<std::string, std::function<Tensor()>, std::less<>> makers;
  for (const PendingTensor& one : tensors) {
    if (one.dtype != DType::coded) {
      descriptions.push_back({one.name, one.dtype, one.shape, {}});
      makers.emplace(one.name, one.make);
      continue;
    }
    const auto parts_of = [&one] { return stored_parts(one.name, one.make().to(Device::cpu)); };
    const std::vector<StoredPart> parts = parts_of();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const StoredPart& part = parts[i];
      descriptions.push_back({part.name, part.tensor.dtype(), part.tensor.shape(), part.stored_type});
      makers.emplace(part.name, [parts_of, i] { return parts_of()[i].tensor; });
    }
  }
  const SafetensorsLayout layout = safetensors_layout(std::move(descriptions), metadata);
  AtomicFile file(path);
  file.write(layout.begin);
  for (const std::string& name : layout.order) {
    const Tensor tensor = makers.at(name)().to(Device::cpu);
    file.write(tensor.data<const std::byte>(), static_cast<std::size_t>(tensor.bytes()));
  }
  file.commit();
}

void write_safetensors(const std::filesystem::path& path, std::vector<NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<PendingTensor> ready;
  for (auto& [name, tensor] : tensors) ready.push_back(pending(std::move(name), std::move(tensor)));
  write_one_by_one(path, ready, metadata);
}

}  // namespace lacuna
