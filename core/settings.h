// Settings of optimizers, schedules and memory policies as tables of names, types and ranges. Validating a
// configuration needs only the tables.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lacuna {

/// A flag, a number, a list of numbers or a text.
using SettingValue = std::variant<bool, double, std::vector<double>, std::string>;
using SettingValues = std::map<std::string, SettingValue, std::less<>>;

/// Numbers in [low, high], or in [low, high) if `below_high`; `whole`: integers only.
struct SettingRange {
  double low = 0;
  double high = std::numeric_limits<double>::infinity();
  bool below_high = true;
  bool whole = false;

  bool contains(double number) const;
};
/// The range as text, such as `a whole number in [1, 8]`.
std::string to_string(const SettingRange& range);
inline constexpr SettingRange not_negative{};
inline constexpr SettingRange below_one{.low = 0, .high = 1, .below_high = true};
inline constexpr SettingRange up_to_one{.low = 0, .high = 1, .below_high = false};

struct Setting {
  std::string_view name;
  SettingValue initial;  // default value; its type is the setting's
  SettingRange range;    // range of each number
  std::string_view meaning;
};

/// Problems of `given`, one line each: unknown names (with the nearest known one), wrong types, numbers out of range.
/// Each line begins with `owner`: `optimizer adamw`.
std::vector<std::string> setting_problems(std::string_view owner, std::span<const Setting> known,
                                          const SettingValues& given);

/// Validated settings: the given values, and defaults for the others.
class Settings {
 public:
  /// Throws an input error that lists all problems.
  Settings(std::string_view owner, std::span<const Setting> known, const SettingValues& given);

  double number(std::string_view name) const { return get<double>(name); }
  /// Value of a setting whose range is `whole`.
  std::int64_t whole_number(std::string_view name) const { return static_cast<std::int64_t>(number(name)); }
  bool flag(std::string_view name) const { return get<bool>(name); }
  const std::string& text(std::string_view name) const { return get<std::string>(name); }
  const std::vector<double>& numbers(std::string_view name) const { return get<std::vector<double>>(name); }

 private:
  template <class T>
  const T& get(std::string_view name) const {
    return std::get<T>(values_.find(name)->second);
  }
  SettingValues values_;
};

}  // namespace lacuna
