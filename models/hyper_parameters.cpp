#include "models/hyper_parameters.h"

#include "core/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

namespace lacuna {
namespace {

std::optional<std::int64_t> whole_number(const HyperValue& value) {
  if (const auto* const integer = std::get_if<std::int64_t>(&value)) return *integer;
  const auto* const real = std::get_if<double>(&value);
  if (real == nullptr || std::abs(*real) > 1e15 || *real != std::floor(*real)) return std::nullopt;
  return static_cast<std::int64_t>(*real);
}

/// A value in quotes, which YAML reads as a text, is told from the same one without.
std::string shown(const HyperValue& value) {
  const auto* const text = std::get_if<std::string>(&value);
  if (text == nullptr) return fmt::format("`{}`", to_string(value));
  char* end = nullptr;
  std::strtod(text->c_str(), &end);
  const bool is_number = !text->empty() && *end == '\0';
  if (!is_number && *text != "true" && *text != "false") return fmt::format("`{}`", *text);
  return fmt::format("the text \"{0}\": write {0} without quotes", *text);
}

}  // namespace

std::string to_string(const HyperValue& value) {
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

HyperParameters::HyperParameters(const std::vector<HyperParameter>& preset, const std::vector<HyperParameter>& given) {
  for (const auto* const list : {&preset, &given})
    for (const HyperParameter& entry : *list) values_.insert_or_assign(entry.key, entry.value);
}

const HyperValue* HyperParameters::find(std::string_view key) {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

template <class T>
T HyperParameters::resolve(std::string_view key, T value) {
  resolved_.push_back({std::string(key), value});
  return value;
}

template <class T>
T HyperParameters::refuse(std::string_view key, std::string_view expected, T otherwise) {
  add_problem(key, fmt::format("`{}` should be {}, got {}", key, expected, shown(*find(key))));
  return resolve(key, std::move(otherwise));
}

std::int64_t HyperParameters::integer(std::string_view key, std::int64_t otherwise, std::int64_t least,
                                      std::int64_t most) {
  const HyperValue* const value = find(key);
  if (value == nullptr) return resolve(key, otherwise);
  const std::optional<std::int64_t> number = whole_number(*value);
  if (number && *number >= least && *number <= most) return resolve(key, *number);
  return refuse(key, fmt::format("a whole number from {} to {}", least, most), otherwise);
}

double HyperParameters::real(std::string_view key, double otherwise, double least, double below) {
  const HyperValue* const value = find(key);
  if (value == nullptr) return resolve(key, otherwise);
  double number = std::numeric_limits<double>::quiet_NaN();
  if (const auto* const integer = std::get_if<std::int64_t>(value)) number = static_cast<double>(*integer);
  if (const auto* const real = std::get_if<double>(value)) number = *real;
  if (number >= least && number < below) return resolve(key, number);
  const std::string expected = std::isinf(below) ? fmt::format("a number from {}", least)
                                                 : fmt::format("a number from {} to below {}", least, below);
  return refuse(key, expected, otherwise);
}

bool HyperParameters::flag(std::string_view key, bool otherwise) {
  const HyperValue* const value = find(key);
  if (value == nullptr) return resolve(key, otherwise);
  if (const auto* const set = std::get_if<bool>(value)) return resolve(key, *set);
  return refuse(key, "true or false", otherwise);
}

std::string HyperParameters::choice(std::string_view key, std::string_view otherwise,
                                    const std::vector<std::string>& allowed) {
  const HyperValue* const value = find(key);
  if (value == nullptr) return resolve(key, std::string(otherwise));
  const auto* const text = std::get_if<std::string>(value);
  if (text != nullptr && std::find(allowed.begin(), allowed.end(), *text) != allowed.end()) return resolve(key, *text);
  return refuse(key, fmt::format("one of {}", fmt::join(allowed, ", ")), std::string(otherwise));
}

std::vector<std::int64_t> HyperParameters::integers(std::string_view key, const std::vector<std::int64_t>& otherwise,
                                                    std::int64_t least) {
  constexpr std::size_t longest = 64;
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const HyperValue* const value = find(key);
  if (value == nullptr) return resolve(key, otherwise);
  const auto* const list = std::get_if<std::vector<std::int64_t>>(value);
  if (list != nullptr && !list->empty() && list->size() <= longest &&
      std::all_of(list->begin(), list->end(), [&](std::int64_t n) { return n >= least && n <= most; }))
    return resolve(key, *list);
  return refuse(key, fmt::format("a list of 1 to {} whole numbers from {} to {}", longest, least, most), otherwise);
}

std::pair<std::int64_t, std::int64_t> HyperParameters::pair(std::string_view key, std::int64_t otherwise,
                                                            std::int64_t most) {
  const HyperValue* const value = find(key);
  const auto* const list = value == nullptr ? nullptr : std::get_if<std::vector<std::int64_t>>(value);
  if (list == nullptr) {
    const std::int64_t both = integer(key, otherwise, 1, most);
    return {both, both};
  }
  const auto fits = [&](std::int64_t n) { return n >= 1 && n <= most; };
  if (list->size() == 2 && std::ranges::all_of(*list, fits)) {
    resolve(key, *list);
    return {list->front(), list->back()};
  }
  refuse(key, fmt::format("a whole number from 1 to {}, or two", most), otherwise);
  return {otherwise, otherwise};
}

ImageSize HyperParameters::image_size(std::int64_t otherwise) {
  constexpr std::int64_t most = 1 << 16;
  const auto [height, width] = pair("image_size", otherwise, most);
  return {height, width};
}

void HyperParameters::add_problem(std::string_view key, std::string message) {
  problems_.push_back({std::string(key), std::move(message)});
}

void HyperParameters::reject_unknown_keys() {
  std::vector<std::string> known;
  for (const HyperParameter& entry : resolved_) known.push_back(entry.key);
  for (const auto& [key, value] : values_) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string near = nearest_name(key, known);
    add_problem(key, near.empty()
                         ? fmt::format("unknown hyper-parameter `{}`; known are {}", key, fmt::join(known, ", "))
                         : fmt::format("unknown hyper-parameter `{}`: did you mean `{}`?", key, near));
  }
}

}  // namespace lacuna
