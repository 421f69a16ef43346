#include "data/labels.h"

#include "core/error.h"
#include "core/text.h"
#include "data/text/utf8.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

namespace lacuna {
namespace {

std::optional<double> number_of_label(std::string_view label) {
  double value = 0;
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), value);
  const bool is_number = error == std::errc{} && end == label.data() + label.size() && std::isfinite(value);
  return is_number ? std::optional(value) : std::nullopt;
}

bool stands_for_none(const std::string& label) { return label == "-100"; }

/// Whether a label stands for a missing one, as programs write it.
bool is_missing(const std::string& label, bool among_numbers) {
  const std::string name = lower_case(label);
  return name.empty() || name == "nan" || name == "null" || name == "<na>" || name == "#n/a" ||
         (among_numbers && (name == "none" || name == "na" || name == "n/a" || stands_for_none(name)));
}

/// Names of classes in order, as labels tell.
std::vector<std::string> find_classes(const WrittenLabels& written, const LabelSource& source) {
  WrittenLabels labels;
  for (const auto& [label, sample] : written)
    if (std::string plain = plain_label(label); !source.may_lack || !stands_for_none(plain))
      labels.emplace(std::move(plain), sample);
  if (labels.empty()) reject("{}: expected labels, got {} for all", source.file, LabelClasses::none);
  const bool among_numbers = std::ranges::any_of(
      labels, [](const auto& one) { return number_of_label(one.first).has_value() && !stands_for_none(one.first); });
  std::vector<std::string> names;
  for (const auto& [label, sample] : labels) {
    if (is_missing(label, among_numbers))
      reject("{}: expected a label{}, got {}: leave it out, or name it among the classes in data.labels",
             source.where(sample), source.column, label.empty() ? "none" : label);
    names.push_back(label);
  }
  refuse_lookalikes(names, source.file);
  if (std::ranges::all_of(names, [](const std::string& name) { return number_of_label(name).has_value(); }))
    for (const auto& [label, sample] : labels)
      if (std::floor(*number_of_label(label)) != *number_of_label(label))
        reject("{}: expected a name or a whole number{}, got {}: data.labels with the names of all takes them as names",
               source.where(sample), source.column, label);
  constexpr std::int64_t most = 1'000'000;
  std::set<std::int64_t> numbers;
  for (const std::string& name : names)
    if (const auto number = whole_number(name); number && *number >= 0 && *number < most) numbers.insert(*number);
  if (numbers.size() < names.size()) return names;
  const std::int64_t lowest = *numbers.begin(), highest = *numbers.rbegin();
  if (highest - lowest >= 2 * std::ssize(names) + 8)
    reject(
        "{}: expected labels{} from {} to {}, as {} different ones should be, got {}: data.labels with the names of "
        "all classes takes them as names, and data.labels=numbers predicts numbers, where a table has the labels",
        source.file, source.column, lowest, lowest + std::ssize(names) - 1, names.size(), highest);
  names.clear();
  for (std::int64_t i = lowest; i <= highest; ++i) names.push_back(std::to_string(i));
  return names;
}

}  // namespace

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  return text.substr(0, text.find_last_not_of(blanks) + 1);
}

std::string plain_label(std::string_view written) {
  const std::string_view label = without_blanks(written);
  if (label.find('.') == std::string_view::npos) return std::string(label);
  const std::optional<double> number = number_of_label(label);
  if (!number || std::floor(*number) != *number || std::abs(*number) > 0x1p53) return std::string(label);
  return std::to_string(static_cast<std::int64_t>(*number));
}

std::optional<std::int64_t> whole_number(std::string_view label) {
  const std::string plain = plain_label(label);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), number);
  if (error != std::errc{} || std::to_string(number) != plain) return std::nullopt;
  return number;
}

std::string folded_label(std::string_view label) {
  const std::string plain = plain_label(label);
  std::string_view rest = plain;
  std::string out;
  while (!rest.empty()) {
    const Character character = first_character(rest);
    if (character.bytes == 0) return out.append(rest);  // not UTF-8
    std::int32_t parts[longest_decomposition];
    const int count = decompose(character.code, parts);
    for (int i = 0; i < count; ++i) {
      std::int32_t cased[2];
      const int letters = lower_case(parts[i], cased);
      for (int letter = 0; letter < letters; ++letter) {
        char bytes[4];
        out.append(bytes, static_cast<std::size_t>(write_utf8(cased[letter], bytes)));
      }
    }
    rest.remove_prefix(character.bytes);
  }
  return out;
}

std::string some_names(const std::vector<std::string>& names) {
  constexpr std::size_t most = 12;
  if (names.size() <= most) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{}, ... ({} in all)", fmt::join(names.begin(), names.begin() + most, ", "), names.size());
}

void refuse_lookalikes(const std::vector<std::string>& names, const std::string& source) {
  std::map<std::string, std::string> seen;
  for (const std::string& name : names) {
    if (first_character(name).bytes == name.size()) continue;  // letters are classes of their own
    const auto [entry, fresh] = seen.emplace(folded_label(name), name);
    if (fresh || entry->second == name) continue;
    const bool looks_alike = composed(entry->second) == composed(name);
    reject(
        "{}: the classes `{}` and `{}` differ by {} alone: data.labels with the names of all classes takes them as one "
        "if it has one of the two, and keeps them apart if it has both",
        source, entry->second, name,
        looks_alike ? "their Unicode forms (NFC and NFD)" : "upper and lower case or by blanks");
  }
}

ClassIndex::ClassIndex(const std::vector<std::string>& classes) {
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const auto number = static_cast<std::int32_t>(i);
    exact_.try_emplace(composed(classes[i]), number);
    const auto [entry, fresh] = folded_.try_emplace(folded_label(classes[i]), number);
    if (!fresh) entry->second = -1;
  }
}

std::optional<std::int32_t> ClassIndex::find(std::string_view name) const {
  if (const auto found = exact_.find(composed(name)); found != exact_.end()) return found->second;
  const auto found = folded_.find(folded_label(name));
  return found == folded_.end() || found->second < 0 ? std::nullopt : std::optional(found->second);
}

LabelClasses::LabelClasses(const KnownClasses& known, const WrittenLabels& labels, const LabelSource& source)
    : known_(known) {
  if (known_.names.empty()) known_.names = find_classes(labels, source);
  const ClassIndex index(known_.names);
  const WrittenLabels::value_type* unknown = nullptr;
  bool has_names = false;
  for (const auto& label : labels) {
    const std::optional<std::int32_t> found = index.find(label.first);
    const bool has_none = !found && source.may_lack && stands_for_none(plain_label(label.first));
    if (!found && !has_none && (unknown == nullptr || label.second < unknown->second)) unknown = &label;
    has_names = has_names || found;
    numbers_.emplace(label.first, found.value_or(none));
  }
  if (unknown == nullptr) return;
  const auto is_class_number = [&](const auto& label) {
    const std::optional<std::int64_t> number = whole_number(label.first);
    return number && (*number >= 0 || (source.may_lack && *number == none));
  };
  const auto is_number = [](const auto& name) { return number_of_label(name).has_value(); };
  const bool have_places =
      std::ranges::none_of(known_.names, is_number) || (!has_names && !std::ranges::all_of(known_.names, is_number));
  if (have_places && std::ranges::all_of(labels, is_class_number)) {
    number_by_place(labels, source);
    return;
  }
  reject("{}: expected one of the labels {}{}, got `{}`; data.labels names all classes", source.where(unknown->second),
         some_names(known_.names), source.column, unknown->first);
}

void LabelClasses::number_by_place(const WrittenLabels& labels, const LabelSource& source) {
  std::map<std::int64_t, std::int64_t> samples;  // by number
  for (const auto& [label, sample] : labels)
    if (const std::int64_t number = *whole_number(label); number >= 0) samples.emplace(number, sample);
  const std::int64_t lowest = samples.begin()->first, count = std::ssize(known_.names);
  const auto [highest, sample] = *samples.rbegin();
  if (!known_.first && lowest > 0 && highest < count)
    reject(
        "{}: expected names of classes, or numbers with the first (0) or the last ({}) among them, which tells whether "
        "they are from 0 or from 1, got {} to {} for {}: data.labels takes the numbers themselves, as `0, 1, 2`",
        source.file, count, lowest, highest, some_names(known_.names));
  if (!known_.first) known_.first = lowest > 0 && highest == count ? 1 : 0;
  if (lowest < *known_.first || highest - *known_.first >= count)
    reject("{}: expected one of the labels {}{}, or their numbers from {} to {}, got `{}`{}",
           source.where(lowest < *known_.first ? samples.begin()->second : sample), some_names(known_.names),
           source.column, *known_.first, *known_.first + count - 1, lowest < *known_.first ? lowest : highest,
           lowest > 0 && highest == count ? source.from_one : "");
  for (auto& [label, number] : numbers_)
    if (const std::int64_t place = *whole_number(label); place >= 0)
      number = static_cast<std::int32_t>(place - *known_.first);
}

}  // namespace lacuna
