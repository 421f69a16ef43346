// The names that another library gives a model's tensors: one table, by which they are read and written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// `*` stands for a number; a `.` at the end for all tensors of a module.
struct TensorNameRule {
  std::string_view theirs, ours;
  std::int64_t part = 0, parts = 1;  // theirs is this one of equal parts of ours, by rows
  std::int64_t shift = 0;            // what is added to the first number of theirs
  bool transposed = false;           // a weight, a module's or the tensor itself, is [in, out] there, [out, in] here
};

struct TensorNames {
  std::string_view base;                    // begins the names of all but the heads; a file without heads may lack it
  std::vector<TensorNameRule> body{};       // behind it
  std::vector<TensorNameRule> heads{};      // whole names
  std::vector<std::string_view> ignored{};  // behind it: tensors that no model of ours has
  std::vector<std::string_view> ignored_heads{};  // the same, whole names

  struct Place {
    std::string name;
    std::int64_t part = 0, parts = 1;
    bool transposed = false;
  };
  /// Our tensor that `theirs` is, or is a part of.
  std::optional<Place> ours(std::string_view theirs) const;
  /// The tensors that ours becomes, in order; none: they have no such tensor. Of several names for one the first
  /// rule's.
  std::vector<Place> theirs(std::string_view ours) const;
  /// The same with every name, as versions of a library differ in them.
  std::vector<Place> every_name(std::string_view ours) const;
  bool ignores(std::string_view theirs) const;
};

}  // namespace lacuna
