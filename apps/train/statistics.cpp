#include "apps/train/statistics.h"

#include "apps/output/output.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

namespace lacuna::apps {
namespace {

/// Numbers for each channel; nothing where `json` has no such list.
std::vector<double> channels_in(const nlohmann::json& json, const char* key) {
  const nlohmann::json list = json.is_object() ? json.value(key, nlohmann::json()) : nlohmann::json();
  const bool has_numbers =
      list.is_array() && std::ranges::all_of(list, [](const auto& one) { return one.is_number(); });
  return has_numbers ? list.get<std::vector<double>>() : std::vector<double>{};
}

bool is_near(const std::vector<double>& a, const std::vector<double>& b) {
  constexpr double rounding = 2e-3;  // 0.485 and 0.4850, or 123.7 / 255
  return std::ranges::equal(a, b, [](double x, double y) { return std::abs(x - y) < rounding; });
}

}  // namespace

void warn_of_other_statistics(const Configuration& resolved) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path weights = resolved.model.from, file = weights.parent_path() / "config.json";
  if (!fs::is_regular_file(weights, ignored)) return;
  std::ifstream stream(file);
  const nlohmann::json json = nlohmann::json::parse(stream, nullptr, false);
  if (!json.is_object()) return;
  const nlohmann::json own = json.value("pretrained_cfg", json);
  const std::vector<double> mean = channels_in(own, "mean"), deviation = channels_in(own, "std");
  if (mean.empty() || mean.size() != deviation.size() || mean.size() != resolved.data.images.mean.size()) return;
  if (is_near(mean, resolved.data.images.mean) && is_near(deviation, resolved.data.images.deviation)) return;
  print_error(fmt::format(
      "lacuna: warning: {} says that its weights were trained with other statistics of the images than these get: "
      "'data.mean=[{}]' 'data.std=[{}]' would be the same\n",
      file.string(), fmt::join(mean, ", "), fmt::join(deviation, ", ")));
}

}  // namespace lacuna::apps
