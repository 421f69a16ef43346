// Hyper-parameters of models: keys and values from a configuration, a preset or a reference file.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lacuna {

using HyperValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;

/// As a configuration would say it: `true`, `12`, `0.1`, `avg`, `[3, 4, 6, 3]`.
std::string to_string(const HyperValue& value);

struct HyperParameter {
  std::string key;
  HyperValue value;
};

/// In pixels.
struct ImageSize {
  std::int64_t height, width;
  ImageSize(std::int64_t side = 224) : ImageSize(side, side) {}  // NOLINT(google-explicit-constructor): a square
  ImageSize(std::int64_t h, std::int64_t w) : height(h), width(w) {}
  bool operator==(const ImageSize&) const = default;
};

/// Reads given values under the names, types and limits that a model family asks for, and notes every key it was asked
/// for. What is wrong is gathered, not thrown, so that the user sees all of it at once: a getter that finds a value
/// unfit answers with the default.
class HyperParameters {
 public:
  struct Problem {
    std::string key;  // whose value, or which unknown key
    std::string message;
  };

  /// `given` wins over `preset`.
  HyperParameters(const std::vector<HyperParameter>& preset, const std::vector<HyperParameter>& given);

  /// A whole number in [least, most]; 3.0 counts as one.
  std::int64_t integer(std::string_view key, std::int64_t otherwise, std::int64_t least = 1,
                       std::int64_t most = std::numeric_limits<std::int32_t>::max());
  /// A number in [least, below).
  double real(std::string_view key, double otherwise, double least = 0,
              double below = std::numeric_limits<double>::infinity());
  bool flag(std::string_view key, bool otherwise);
  /// One of `allowed`, by name.
  std::string choice(std::string_view key, std::string_view otherwise, const std::vector<std::string>& allowed);
  /// A list of whole numbers, none below `least`, of at least one and at most 64 entries.
  std::vector<std::int64_t> integers(std::string_view key, const std::vector<std::int64_t>& otherwise,
                                     std::int64_t least = 1);
  /// Two whole numbers from 1 to `most`, [height, width], or one for both.
  std::pair<std::int64_t, std::int64_t> pair(std::string_view key, std::int64_t otherwise, std::int64_t most);
  /// `image_size`: a side of a square, or [height, width].
  ImageSize image_size(std::int64_t otherwise = 224);

  /// Notes what only the family can know: values that do not go together. `key` is the one to blame.
  void add_problem(std::string_view key, std::string message);
  /// Notes the keys nobody asked for. To be called when all were asked.
  void reject_unknown_keys();

  const std::vector<Problem>& problems() const { return problems_; }
  /// Every key that was asked for with the value it has, in the order of asking: the whole description.
  const std::vector<HyperParameter>& resolved() const { return resolved_; }

 private:
  /// The value of `key`, or null where none is given.
  const HyperValue* find(std::string_view key);
  template <class T>
  T resolve(std::string_view key, T value);
  template <class T>
  T refuse(std::string_view key, std::string_view expected, T otherwise);

  std::map<std::string, HyperValue, std::less<>> values_;
  std::vector<HyperParameter> resolved_;
  std::vector<Problem> problems_;
};

}  // namespace lacuna
