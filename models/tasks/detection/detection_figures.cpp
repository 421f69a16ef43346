#include "models/tasks/detection/detection_figures.h"

#include "core/collectives.h"
#include "models/prediction.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace lacuna {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t most_listed = 20;  // images

DetectionFigures figures_of(std::span<const ComparedImage> images) {
  AveragePrecision precision;
  for (const ComparedImage& image : images) precision.add(image.truth, image.found);
  return precision.figures();
}

template <double DetectionFigures::*figure>
double metric_of(std::span<const double> numbers) {
  return std::max(figures_of(images_of(numbers)).*figure, 0.0);
}

ordered_json number_or_null(double figure) { return figure < 0 ? ordered_json(nullptr) : ordered_json(figure); }

/// The figures with their names in COCO's order.
std::vector<std::pair<std::string_view, double>> rows_of(const DetectionFigures& all) {
  return {{"ap", all.ap},
          {"ap_50", all.ap_50},
          {"ap_75", all.ap_75},
          {"ap_small", all.ap_small},
          {"ap_medium", all.ap_medium},
          {"ap_large", all.ap_large},
          {"ar_1", all.ar_1},
          {"ar_10", all.ar_10},
          {"ar_100", all.ar_100},
          {"ar_small", all.ar_small},
          {"ar_medium", all.ar_medium},
          {"ar_large", all.ar_large}};
}

}  // namespace

Tensor numbers_of(std::span<const ComparedImage> images) {
  std::vector<double> numbers;
  for (const ComparedImage& image : images) {
    numbers.push_back(static_cast<double>(image.truth.size()));
    numbers.push_back(static_cast<double>(image.found.size()));
    for (const TrueBox& box : image.truth) {
      numbers.push_back(static_cast<double>(box.category));
      numbers.insert(numbers.end(), box.box.begin(), box.box.end());
      numbers.insert(numbers.end(), {box.area, box.crowd ? 1.0 : 0.0, box.ignored ? 1.0 : 0.0});
    }
    for (const FoundBox& box : image.found) {
      numbers.push_back(static_cast<double>(box.category));
      numbers.insert(numbers.end(), box.box.begin(), box.box.end());
      numbers.push_back(box.score);
    }
  }
  return Tensor::from(std::span<const double>(numbers), {std::ssize(numbers)});
}

std::vector<ComparedImage> images_of(std::span<const double> numbers) {
  std::vector<ComparedImage> images;
  std::size_t at = 0;
  const auto next = [&] { return numbers[at++]; };
  const auto next_box = [&] {
    CornerBox box;
    for (double& side : box) side = next();
    return box;
  };
  while (at < numbers.size()) {
    ComparedImage& image = images.emplace_back();
    image.truth.resize(static_cast<std::size_t>(next()));
    image.found.resize(static_cast<std::size_t>(next()));
    for (TrueBox& box : image.truth) {
      box.category = static_cast<std::int64_t>(next());
      box.box = next_box();
      box.area = next();
      box.crowd = next() != 0;
      box.ignored = next() != 0;
    }
    for (FoundBox& box : image.found) {
      box.category = static_cast<std::int64_t>(next());
      box.box = next_box();
      box.score = next();
    }
  }
  return images;
}

std::vector<Metric> detection_metrics() {
  return {{.name = "ap", .value = metric_of<&DetectionFigures::ap>, .keeps = true},
          {.name = "ap_50", .value = metric_of<&DetectionFigures::ap_50>, .keeps = true},
          {.name = "ap_75", .value = metric_of<&DetectionFigures::ap_75>, .keeps = true}};
}

void DetectionTable::add(const Tensor& numbers, const Tensor&) {
  const std::vector<double> values = numbers.to_vector();
  const std::vector<ComparedImage> more = images_of(values);
  images_.insert(images_.end(), more.begin(), more.end());
  batches_.push_back(std::ssize(more));
}

void DetectionTable::gather(Communicator& ranks) {
  if (ranks.size() == 1) return;
  const std::vector<double> lengths(batches_.begin(), batches_.end());
  const std::vector<std::vector<double>> lengths_of = all_gather_numbers(ranks, lengths),
                                         numbers = all_gather_numbers(ranks, numbers_of(images_).to_vector());
  std::vector<std::vector<ComparedImage>> images;
  std::size_t most = 0;
  for (std::size_t rank = 0; rank < numbers.size(); ++rank) {
    images.push_back(images_of(numbers[rank]));
    most = std::max(most, lengths_of[rank].size());
  }
  images_.clear();
  std::vector<std::size_t> next(images.size());
  for (std::size_t batch = 0; batch < most; ++batch)
    for (std::size_t rank = 0; rank < images.size(); ++rank) {
      const auto count = batch < lengths_of[rank].size() ? static_cast<std::size_t>(lengths_of[rank][batch]) : 0;
      for (std::size_t i = 0; i < count; ++i) images_.push_back(std::move(images[rank][next[rank]++]));
    }
}

DetectionFigures DetectionTable::figures() const { return figures_of(images_); }
std::string DetectionTable::name(std::int64_t label) const { return class_name(classes_, label); }

std::vector<std::int64_t> DetectionTable::worst() const {
  std::vector<std::pair<double, std::int64_t>> order;
  for (std::size_t i = 0; i < images_.size(); ++i)
    if (const double ap = figures_of(std::span(images_).subspan(i, 1)).ap; ap >= 0)
      order.emplace_back(ap, static_cast<std::int64_t>(i));
  std::ranges::stable_sort(order, {}, &std::pair<double, std::int64_t>::first);
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < std::min(order.size(), most_listed); ++i) numbers.push_back(order[i].second);
  return numbers;
}

ordered_json DetectionTable::json(const SampleName& origin) const {
  const DetectionFigures all = figures();
  ordered_json json;
  for (const auto& [key, figure] : rows_of(all)) json[key] = number_or_null(figure);
  ordered_json& per_class = json["per_class"] = ordered_json::array();
  for (const auto& [label, ap] : all.ap_of_category)
    per_class.push_back({{"class", name(label)}, {"boxes", boxes_of(label)}, {"ap", number_or_null(ap)}});
  ordered_json& list = json["worst"] = ordered_json::array();
  for (const std::int64_t i : worst())
    list.push_back(
        {{"sample", origin(i)}, {"ap", figures_of(std::span(images_).subspan(static_cast<std::size_t>(i), 1)).ap}});
  return json;
}

std::string DetectionTable::text(const SampleName&) const {
  const DetectionFigures all = figures();
  const auto percent = [](double figure) {
    return figure < 0 ? std::string("none") : fmt::format("{:.2f} %", 100 * figure);
  };
  std::string text = "COCO's figures of boxes:\n";
  for (const auto& [key, figure] : rows_of(all)) text += fmt::format("{:>10}  {:>9}\n", key, percent(figure));
  std::size_t width = 5;
  for (const auto& [label, ap] : all.ap_of_category) width = std::max(width, name(label).size());
  text += fmt::format("{:>{}}  {:>7}  {:>9}\n", "class", width, "boxes", "AP");
  for (const auto& [label, ap] : all.ap_of_category)
    text += fmt::format("{:>{}}  {:>7}  {:>9}\n", name(label), width, boxes_of(label), percent(ap));
  return text;
}

std::int64_t DetectionTable::boxes_of(std::int64_t label) const {
  std::int64_t count = 0;
  for (const ComparedImage& image : images_)
    count += std::ranges::count_if(
        image.truth, [&](const TrueBox& box) { return box.category == label && !box.crowd && !box.ignored; });
  return count;
}

}  // namespace lacuna
