// JSON as the tables of the families read and write it.
#pragma once

#include "models/hyper_parameters.h"
#include "models/io/json_fields.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// Values of a config.json; what is of another type than expected is refused with the file's name.
class ConfigReader {
 public:
  ConfigReader(const nlohmann::ordered_json& json, std::filesystem::path file) : json_(json), file_(std::move(file)) {}

  bool says(const char* key) const;
  std::int64_t integer(const char* key, std::int64_t otherwise) const;
  double real(const char* key, double otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key, const std::string& otherwise) const;
  std::vector<std::int64_t> integers(const char* key, const std::vector<std::int64_t>& otherwise) const;
  std::vector<double> numbers(const char* key) const;
  std::vector<std::string> texts(const char* key) const;
  /// A whole number, or a list of two that are alike.
  std::int64_t side(const char* key, std::int64_t otherwise) const;
  const nlohmann::ordered_json& json() const { return json_; }
  const std::filesystem::path& file() const { return file_; }
  /// Refuses the value of `key`.
  [[noreturn]] void refuse(const char* key, std::string_view expected) const;

 private:
  const nlohmann::ordered_json* find(const char* key) const;
  const nlohmann::ordered_json& json_;
  std::filesystem::path file_;
};

/// A value of a config.json as a hyper-parameter; nothing where it is none.
std::optional<Tree> hyper_value(const nlohmann::ordered_json& json);
nlohmann::ordered_json to_json(const Tree& value);

/// The ratio whose product with `width`, cut to a whole number, is `hidden`.
double ratio_of(std::int64_t hidden, std::int64_t width);

}  // namespace lacuna
