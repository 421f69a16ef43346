// Weights as they are handed on: a file, a folder with one, or several files with their index.
#pragma once

#include "models/io/safetensors.h"
#include "models/io/tensor_names.h"

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// Tensors by name, from one safetensors file or several. Nothing but headers is in memory. Weights in bf16 whose low
/// halves lie beside them (models/io/halves.h) are f32.
class WeightFiles {
 public:
  /// `path`: a safetensors file, the index of shards (`model.safetensors.index.json`), or a folder that holds
  /// `model.safetensors`, such an index, all shards of one set, or one safetensors file by another name. A file of
  /// another format is refused with the command that converts it, where there is one.
  explicit WeightFiles(const std::filesystem::path& path);
  /// Tensors of another program, each made when it is loaded. `name` stands in messages in place of a path.
  WeightFiles(std::string name, std::vector<PendingTensor> tensors);
  WeightFiles(SafetensorsFile file);  // NOLINT(google-explicit-constructor): a file is the common case

  /// From here on only the tensors whose names begin with `prefix` are there, without it. Before `rename`.
  void take_from(const std::string& prefix);

  /// From here on the tensors have our names: those of several parts are joined, and those that no model of ours has
  /// are left out. What all stored names begin with, as `module.`, is no part of them. Names that are in no table stay.
  void rename(const TensorNames& names);

  const std::filesystem::path& path() const { return path_; }
  /// Stored names of what was left out.
  const std::vector<std::string>& left_out() const { return left_out_; }
  /// Ordered by name. Where parts were joined, `begin` and `end` say nothing.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  /// Null where there is none.
  const SafetensorsEntry* find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// Whether a tensor is in few bits, as bitsandbytes writes it.
  bool holds_coded() const;
  /// One tensor in memory of the CPU, in its stored type.
  Tensor load(std::string_view name) const;

 private:
  void add(SafetensorsFile file);
  void add_shards(const std::filesystem::path& index);
  void sort();
  Tensor load_stored(const std::string& name) const;

  std::filesystem::path path_;
  std::shared_ptr<const SafetensorsFile> low_halves_;  // null where there are none
  std::vector<SafetensorsFile> files_;
  std::map<std::string, PendingTensor, std::less<>> pending_;  // by stored name, in place of files
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, std::size_t, std::less<>> file_of_;                  // by stored name
  std::map<std::string, std::vector<std::string>, std::less<>> parts_of_{};  // stored names, by ours
  std::set<std::string, std::less<>> transposed_;                            // stored names
  std::vector<std::string> left_out_;
  std::string prefix_;  // of the stored names
};

}  // namespace lacuna
