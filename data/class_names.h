// Class names: given by a setting, and joined between two sides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lacuna {

/// The class names in `data.labels`: separated by commas, or one per line of a file `*.txt`; none if it is empty.
/// A name with commas stands in double quotes. Rejects empty and duplicate names.
std::vector<std::string> class_names(const std::string& setting);
/// The same names as text for that setting.
std::string class_setting(const std::vector<std::string>& names);

/// The classes of data in those of a model. A class is a name; its place counts where a side has numbers alone.
struct JoinedClasses {
  std::vector<std::int64_t> numbers{};  // of each of the data's classes in the model
  bool by_place = false;

  /// Whether both sides have the same classes at the same places.
  bool is_same(std::int64_t count) const;
};
/// Joins the classes of data to the `count` classes of a model, which may have no names. Upper and lower case, and ways
/// to write an accent, make no difference where names stay distinct. Nothing where the model lacks one of the data's.
std::optional<JoinedClasses> join_classes(const std::vector<std::string>& model, std::int64_t count,
                                          const std::vector<std::string>& data);
/// The data's names in the model's order; a class that the data lacks, or has a number for, has the model's name.
std::vector<std::string> in_order_of_model(const JoinedClasses& joined, const std::vector<std::string>& model,
                                           const std::vector<std::string>& data);
/// Both lists, for messages.
std::string both_lists(const std::vector<std::string>& model, const std::vector<std::string>& data);

}  // namespace lacuna
