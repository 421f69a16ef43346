#include "apps/report/curves.h"

#include "apps/output/rounded.h"
#include "apps/train/run_folder.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lacuna::apps {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t most_points = 400;  // a chart has hardly more columns of pixels

struct Point {
  double step = 0, epoch = 0, time = 0;
  std::vector<std::pair<std::string, double>> values;
};

double for_chart(double value) {
  constexpr int digits = 6;
  return rounded(value, digits);
}

ordered_json to_json(const std::vector<Point>& points) {
  const std::size_t run = std::max<std::size_t>(1, (points.size() + most_points - 1) / most_points);
  ordered_json json{{"step", ordered_json::array()},
                    {"epoch", ordered_json::array()},
                    {"time", ordered_json::array()},
                    {"values", ordered_json::object()}};
  for (const Point& point : points)
    for (const auto& value : point.values) json["values"][value.first] = ordered_json::array();
  for (std::size_t begin = 0; begin < points.size(); begin += run) {
    const std::size_t end = std::min(begin + run, points.size());
    const Point& last = points[end - 1];
    json["step"].push_back(last.step);
    json["epoch"].push_back(for_chart(last.epoch));
    json["time"].push_back(for_chart(last.time));
    std::map<std::string, std::pair<double, double>> sums;  // with counts
    for (std::size_t i = begin; i < end; ++i)
      for (const auto& [key, value] : points[i].values) {
        sums[key].first += value;
        ++sums[key].second;
      }
    for (auto& [key, values] : json["values"].items()) {
      const auto sum = sums.find(key);
      values.push_back(sum == sums.end() ? ordered_json()
                                         : ordered_json(for_chart(sum->second.first / sum->second.second)));
    }
  }
  return json;
}

/// Sets the epoch of each point. An epoch lasts as many steps as the longest before it if it is not over.
void set_epochs(std::vector<Point>& training, std::vector<Point>& validation) {
  std::map<double, std::pair<double, double>> spans;  // by the epoch's number: the step before it, its last step
  for (const Point& point : training) {
    const auto [span, is_new] = spans.try_emplace(point.epoch, point.step - 1, point.step);
    if (!is_new) span->second.second = point.step;
  }
  double longest = 0;
  for (const auto& [epoch, span] : spans) longest = std::max(longest, span.second - span.first);
  const auto epoch_of = [&](double step) -> std::optional<double> {
    for (const auto& [epoch, span] : spans) {
      const bool is_last = epoch == spans.rbegin()->first;
      const double length = is_last ? longest : span.second - span.first;
      if (step > span.first && step <= span.second) return epoch - 1 + (step - span.first) / length;
    }
    return {};
  };
  for (std::vector<Point>* const points : {&training, &validation})
    for (Point& point : *points) point.epoch = epoch_of(point.step).value_or(point.epoch);
}

}  // namespace

ordered_json curves_of(const std::filesystem::path& run) {
  static const std::set<std::string> no_curves{"step", "epoch", "seconds", "memory", "peak", "measuring", "samples"};
  std::vector<Point> training, validation;
  double time = 0;
  read_metrics(run, [&](const ordered_json& line) {
    const auto number = [&](const char* key) { return line.contains(key) ? line[key].get<double>() : 0; };
    time += number("seconds");
    Point point{.step = line["step"], .epoch = number("epoch"), .time = time, .values = {}};
    const bool is_validation = line.contains("val_loss");
    for (const auto& [key, value] : line.items()) {
      if (is_validation && key.starts_with("val_")) point.values.emplace_back(key.substr(4), value);
      if (!is_validation && !no_curves.contains(key)) point.values.emplace_back(key, value);
    }
    if (const double seconds = number("seconds"); !is_validation && line.contains("samples") && seconds > 0)
      point.values.emplace_back("samples_per_second", number("samples") / seconds);
    (is_validation ? validation : training).push_back(std::move(point));
  });
  set_epochs(training, validation);
  return {{"train", to_json(training)}, {"val", to_json(validation)}};
}

ordered_json tensor_curves_of(const std::filesystem::path& run) {
  constexpr std::size_t most_lines = 60;  // a page of hundreds of tensors stays small
  std::vector<std::pair<double, ordered_json>> lines;
  read_tensor_figures(run, [&](double step, const ordered_json& tensors) { lines.emplace_back(step, tensors); });
  const std::size_t every = std::max<std::size_t>(1, (lines.size() + most_lines - 1) / most_lines);
  ordered_json json{{"step", ordered_json::array()}, {"values", ordered_json::object()}};
  for (std::size_t i = (lines.size() + every - 1) % every; i < lines.size(); i += every) {  // the last is one of them
    const std::size_t before = json["step"].size();
    json["step"].push_back(lines[i].first);
    for (const auto& [tensor, figures] : lines[i].second.items())
      for (const auto& [name, value] : figures.items()) {
        ordered_json& list = json["values"][tensor][name];
        while (list.size() < before) list.push_back(nullptr);
        list.push_back(for_chart(value));
      }
    for (auto& [tensor, figures] : json["values"].items())
      for (auto& [name, list] : figures.items())
        if (list.size() == before) list.push_back(nullptr);
  }
  return json;
}

}  // namespace lacuna::apps
