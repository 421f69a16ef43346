#include "data/class_names.h"

#include "core/error.h"
#include "data/files/input_file.h"
#include "data/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

namespace lacuna {

std::vector<std::string> class_names(const std::string& setting) {
  constexpr std::int64_t longest_file = 64 << 20;
  const bool is_file = setting.ends_with(".txt") && setting.find(',') == std::string::npos;
  const std::string text = is_file ? read_text(setting, longest_file) : setting;
  std::vector<std::string> classes;
  std::set<std::string> seen;
  const auto add = [&](std::string name, bool is_quoted) {
    if (!is_quoted) {
      name.erase(0, name.find_first_not_of(" \t\r"));
      name.erase(name.find_last_not_of(" \t\r") + 1);
    }
    if (name.empty() && is_file) return;
    if (name.empty()) reject("data.labels: expected names with commas between them, got `{}`", setting);
    if (!seen.insert(name).second) reject("data.labels: the class `{}` is named twice", name);
    classes.push_back(std::move(name));
  };
  const char separator = is_file ? '\n' : ',';
  for (std::size_t at = 0; at < text.size() || (at > 0 && !is_file && text.back() == ',');) {
    const std::size_t begin = text.find_first_not_of(' ', at);
    if (!is_file && begin != std::string::npos && text[begin] == '"') {
      std::string name;
      std::size_t end = begin + 1;
      for (; end < text.size() && (text[end] != '"' || text.compare(end, 2, "\"\"") == 0); ++end) {
        name += text[end];
        if (text[end] == '"') ++end;
      }
      at = text.find_first_not_of(' ', std::min(end + 1, text.size()));
      if (end >= text.size() || (at != std::string::npos && text[at] != ','))
        reject("data.labels: expected a comma behind a name in quotes, got `{}`", setting);
      add(std::move(name), true);
      if (at == std::string::npos) break;
      ++at;
      continue;
    }
    const std::size_t end = std::min(text.find(separator, at), text.size());
    add(text.substr(at, end - at), false);
    if (end == text.size()) break;
    at = end + 1;
  }
  return classes;
}

std::string class_setting(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    if (!text.empty()) text += ", ";
    const bool plain = !name.ends_with(".txt") && class_names(name) == std::vector<std::string>{name};
    if (plain) {
      text += name;
      continue;
    }
    text += '"';
    for (const char c : name) text += c == '"' ? "\"\"" : std::string(1, c);
    text += '"';
  }
  return text;
}

namespace {

/// The numbers that names are, as 3 or LABEL_3; nothing where one is a word.
std::optional<std::vector<std::int64_t>> numbers_in(const std::vector<std::string>& names) {
  std::vector<std::int64_t> numbers;
  for (std::string_view name : names) {
    if (constexpr std::string_view unnamed = "LABEL_"; name.starts_with(unnamed)) name.remove_prefix(unnamed.size());
    const std::optional<std::int64_t> number = whole_number(name);
    if (!number) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

/// The place of each of `wanted` in `all`, whose values differ from each other; nothing where one is missing.
template <class T>
std::optional<std::vector<std::int64_t>> places_of(const std::vector<T>& wanted, const std::vector<T>& all) {
  std::map<T, std::int64_t> known;
  for (const T& one : all)
    if (!known.emplace(one, std::ssize(known)).second) return {};
  std::vector<std::int64_t> places;
  for (const T& one : wanted) {
    const auto found = known.find(one);
    if (found == known.end()) return {};
    places.push_back(found->second);
  }
  if (std::set<std::int64_t>(places.begin(), places.end()).size() != places.size()) return {};
  return places;
}

}  // namespace

bool JoinedClasses::is_same(std::int64_t count) const {
  if (std::ssize(numbers) != count) return false;
  for (std::int64_t i = 0; i < count; ++i)
    if (numbers[static_cast<std::size_t>(i)] != i) return false;
  return true;
}

std::optional<JoinedClasses> join_classes(const std::vector<std::string>& model, std::int64_t count,
                                          const std::vector<std::string>& data) {
  if (auto places = places_of(data, model)) return JoinedClasses{.numbers = *places};
  std::vector<std::int64_t> in_order(static_cast<std::size_t>(count));
  std::iota(in_order.begin(), in_order.end(), 0);
  const auto of_model = model.empty() ? std::optional(in_order) : numbers_in(model), of_data = numbers_in(data);
  if (!of_model && !of_data) {
    std::vector<std::string> model_names, data_names;
    for (const std::string& name : model) model_names.push_back(folded_label(name));
    for (const std::string& name : data) data_names.push_back(folded_label(name));
    if (auto places = places_of(data_names, model_names)) return JoinedClasses{.numbers = *places};
    return {};
  }
  // Numbers of named classes that are fewer may be from 0 or from 1.
  if (of_data && (of_model || std::ranges::find(*of_data, 0) != of_data->end()))
    if (auto places = places_of(*of_data, of_model.value_or(in_order)))
      return JoinedClasses{.numbers = *places, .by_place = !of_model};
  if (std::ssize(data) == count) return JoinedClasses{.numbers = in_order, .by_place = true};
  return {};
}

std::vector<std::string> in_order_of_model(const JoinedClasses& joined, const std::vector<std::string>& model,
                                           const std::vector<std::string>& data) {
  std::vector<std::string> names = model;
  if (joined.by_place && !numbers_in(model) && numbers_in(data)) return names;
  for (std::size_t i = 0; i < data.size(); ++i) names[static_cast<std::size_t>(joined.numbers[i])] = data[i];
  return names;
}

std::string both_lists(const std::vector<std::string>& model, const std::vector<std::string>& data) {
  const auto list = [](const std::vector<std::string>& names) {
    return names.empty() ? std::string("none with a name") : some_names(names);
  };
  return fmt::format("the model's classes are {}; the data's are {}", list(model), list(data));
}

}  // namespace lacuna
