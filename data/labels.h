// Labels as files have them, and the classes that they name.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// A text without blanks around it.
std::string_view without_blanks(std::string_view text);
/// A label without blanks around it; a whole number without a fraction, as 1 for 1.0.
std::string plain_label(std::string_view written);
/// The whole number that a label is, as 3 or 3.0; nothing for names, and for numbers as 007.
std::optional<std::int64_t> whole_number(std::string_view label);
/// The label in lower case and one Unicode form: labels that look the same to a reader become equal.
std::string folded_label(std::string_view label);
/// Up to twelve names, for messages.
std::string some_names(const std::vector<std::string>& names);

/// Finds classes by name: as it is written, or folded where only one class then fits.
class ClassIndex {
 public:
  explicit ClassIndex(const std::vector<std::string>& classes);
  std::optional<std::int32_t> find(std::string_view name) const;

 private:
  std::map<std::string, std::int32_t, std::less<>> exact_, folded_;  // folded: -1 for several
};

/// The different labels of a file, and the first sample of each.
using WrittenLabels = std::map<std::string, std::int64_t, std::less<>>;

struct KnownClasses {
  std::vector<std::string> names{};     // in order; empty: the labels tell
  std::optional<std::int64_t> first{};  // the first class where labels are numbers of classes; not set: they tell
};

/// For messages.
struct LabelSource {
  std::string file;
  std::function<std::string(std::int64_t sample)> where;
  std::string column{};    // a phrase, as " in `label`"
  bool may_lack = false;   // -100 stands for no label
  std::string from_one{};  // a phrase for labels from 1 where the first class is 0
};

/// The classes that the labels of a file name. Without known ones, whole numbers are classes from the least to the
/// greatest, and others are sorted by the bytes of their names. With known ones, all labels are names of them or all
/// are their numbers, where no name is one: from 0, or from 1 if the last one occurs. Rejects labels that stand for
/// missing ones (nan), fractions, numbers with gaps, names that differ by case or blanks alone, and labels of none of
/// the known classes.
class LabelClasses {
 public:
  static constexpr std::int32_t none = -100;

  LabelClasses(const KnownClasses& known, const WrittenLabels& labels, const LabelSource& source);

  const std::vector<std::string>& names() const { return known_.names; }
  /// As it was known, or with the first number that the labels told.
  const KnownClasses& known() const { return known_; }
  /// The class of one of the labels; `none` where it has none.
  std::int32_t operator[](std::string_view written) const { return numbers_.find(written)->second; }

 private:
  void number_by_place(const WrittenLabels& labels, const LabelSource& source);

  KnownClasses known_;
  std::map<std::string, std::int32_t, std::less<>> numbers_;
};

/// Rejects two names of more than a letter that differ by case, blanks or Unicode form alone.
void refuse_lookalikes(const std::vector<std::string>& names, const std::string& source);

}  // namespace lacuna
