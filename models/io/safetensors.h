// The file format in which the field shares weights: https://github.com/huggingface/safetensors#format.
#pragma once

#include "core/tensor.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna {

/// One tensor of a file.
struct SafetensorsEntry {
  std::string name;
  std::string stored_dtype;    // as the file says it: `F32`, `BF16`, `BOOL`, …
  std::optional<DType> dtype;  // absent where Lacuna has no such type: listed, but not loadable
  Shape shape;
  std::uint64_t begin = 0, end = 0;      // bytes, from the end of the header
  std::optional<WeightFormat> format{};  // of a tensor in few bits, which lies in several (coded_entries.h)
};
struct CodedEntry;

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;        // ordered by name
  std::map<std::string, std::string> metadata;  // `__metadata__`
};

/// Checks all that the format demands: one JSON object, no key twice, known types, shapes whose size is the length of
/// their data, data without holes or overlaps that fills `data_bytes`. `origin` names the source in errors.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes, std::string_view origin);

/// A file open for reading. Nothing but its header is in memory.
class SafetensorsFile {
 public:
  /// Refuses a malformed file before anything is allocated for its tensors.
  explicit SafetensorsFile(std::filesystem::path path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// A tensor in few bits is one entry, of type `coded`.
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  /// Null where there is none.
  const SafetensorsEntry* find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }

  /// Reads one tensor into memory of the CPU, as the file holds it: in the ecosystem's layout and in its stored type.
  Tensor load(std::string_view name) const;

 private:
  std::filesystem::path path_;
  int descriptor_;
  std::uint64_t data_start_ = 0;  // bytes from the start of the file
  SafetensorsHeader header_;
  std::map<std::string, CodedEntry, std::less<>> coded_;
};

/// [m, n] to [n, m], of any type that is not coded, on the CPU.
Tensor transposed(const Tensor& tensor);

using NamedTensor = std::pair<std::string, Tensor>;

/// A tensor that is made when its turn to be written comes, as a converted one of which only one is held at a time.
struct PendingTensor {
  std::string name;
  DType dtype;
  Shape shape;
  std::function<Tensor()> make;
};
PendingTensor pending(std::string name, Tensor tensor);

struct TensorDescription {
  std::string name;
  DType dtype;
  Shape shape;
  std::string_view stored_type{};  // empty: that of dtype
};
/// As JSON, for another rank, and back.
std::string to_json(const std::vector<TensorDescription>& tensors);
std::vector<TensorDescription> parse_descriptions(std::string_view json);

/// The layout of a file: the place of each tensor.
struct SafetensorsLayout {
  std::string begin;                          // the first bytes of the file: the header's length and the header
  std::vector<std::string> order{};           // names, as their data follow each other
  std::map<std::string, std::uint64_t> at{};  // where the data of each tensor begin in the file
  std::uint64_t bytes = 0;                    // of the file
};
/// The layout of tensors with different names.
SafetensorsLayout safetensors_layout(std::vector<TensorDescription> tensors,
                                     const std::map<std::string, std::string>& metadata = {});
/// Writes some of the tensors of a file that several processes write; the first of them makes it and writes its
/// beginning. It is whole, and on the disk, when all have written theirs.
void write_part(const std::filesystem::path& path, const SafetensorsLayout& layout,
                const std::vector<NamedTensor>& tensors, bool is_first);

/// Writes `tensors` (on the CPU, names all different) ordered by name. The file appears whole or not at all; one that
/// was there before stays as it was when the disk is full.
void write_safetensors(const std::filesystem::path& path, std::vector<NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});
/// The same of tensors that are made one after another.
void write_one_by_one(const std::filesystem::path& path, const std::vector<PendingTensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace lacuna
