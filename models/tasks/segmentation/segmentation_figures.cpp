#include "models/tasks/segmentation/segmentation_figures.h"

#include "core/collectives.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace lacuna {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t most_listed = 20;  // images
constexpr double uncounted = -1;         // of an image without pixels that count

ordered_json number_or_null(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

}  // namespace

void SegmentationFigures::add(const Tensor& predictions, const Tensor& labels) {
  for (std::int64_t i = 0; i < labels.shape().front(); ++i) {
    Confusion one(all_.classes());
    one.add(predictions.leading(i, i + 1), labels.leading(i, i + 1), ignored_);
    of_images_.push_back(one.pixels() > 0 ? one.mean_iou() : uncounted);
    all_.add(one);
  }
  batches_.push_back(labels.shape().front());
}

void SegmentationFigures::gather(Communicator& ranks) {
  if (ranks.size() == 1) return;
  const std::vector<double> lengths(batches_.begin(), batches_.end());
  const std::vector<std::vector<double>> images = all_gather_numbers(ranks, of_images_),
                                         lengths_of = all_gather_numbers(ranks, lengths),
                                         counts = all_gather_numbers(ranks, all_.numbers());
  all_ = Confusion(all_.classes());
  for (const std::vector<double>& of_rank : counts) all_.add(of_rank);
  std::size_t most = 0;
  for (const std::vector<double>& of_rank : lengths_of) most = std::max(most, of_rank.size());
  of_images_.clear();
  std::vector<std::size_t> next(images.size());
  for (std::size_t batch = 0; batch < most; ++batch)
    for (std::size_t rank = 0; rank < images.size(); ++rank) {
      const auto count = batch < lengths_of[rank].size() ? static_cast<std::size_t>(lengths_of[rank][batch]) : 0;
      for (std::size_t i = 0; i < count; ++i) of_images_.push_back(images[rank][next[rank]++]);
    }
}

std::vector<std::int64_t> SegmentationFigures::worst() const {
  const auto iou = [&](std::int64_t i) { return of_images_[static_cast<std::size_t>(i)]; };
  std::vector<std::int64_t> order(of_images_.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](std::int64_t i) { return iou(i) == uncounted; });
  std::ranges::stable_sort(order, {}, iou);
  order.resize(std::min(order.size(), most_listed));
  return order;
}

double SegmentationFigures::value_of(std::size_t metric) const {
  return segmentation_metrics(all_.classes())[metric].value(segmentation_sums(all_)[metric].to_vector());
}

ordered_json SegmentationFigures::json(const SampleName& origin) const {
  ordered_json json{{"miou", value_of(0)}, {"pixel_accuracy", value_of(1)}, {"mean_accuracy", value_of(2)}};
  ordered_json& per_class = json["per_class"] = ordered_json::array();
  for (std::int64_t c = 0; c < all_.classes(); ++c)
    per_class.push_back({{"class", name(c)},
                         {"pixels", all_.labelled(c)},
                         {"iou", number_or_null(all_.iou(c))},
                         {"accuracy", number_or_null(all_.accuracy(c))}});
  if (all_.has_matrix()) {
    ordered_json& matrix = json["confusion"] = ordered_json::array();
    for (std::int64_t c = 0; c < all_.classes(); ++c) {
      std::vector<std::int64_t> row;
      for (std::int64_t p = 0; p < all_.classes(); ++p) row.push_back(all_.count(c, p));
      matrix.push_back(row);
    }
  }
  ordered_json& list = json["worst"] = ordered_json::array();
  for (const std::int64_t i : worst())
    list.push_back({{"sample", origin(i)}, {"miou", of_images_[static_cast<std::size_t>(i)]}});
  return json;
}

std::string SegmentationFigures::text(const SampleName& origin) const {
  std::string text = fmt::format("mIoU {:.2f} %, pixel accuracy {:.2f} %, mean accuracy {:.2f} %\n", 100 * value_of(0),
                                 100 * value_of(1), 100 * value_of(2));
  std::size_t width = 5;
  for (std::int64_t c = 0; c < all_.classes(); ++c) width = std::max(width, name(c).size());
  const auto percent = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.2f} %", 100 * *value) : std::string("not present");
  };
  text += fmt::format("{:>{}}  {:>11}  {:>11}\n", "class", width, "IoU", "accuracy");
  for (std::int64_t c = 0; c < all_.classes(); ++c)
    text += fmt::format("{:>{}}  {:>11}  {:>11}\n", name(c), width, percent(all_.iou(c)), percent(all_.accuracy(c)));
  constexpr std::size_t most = 5;
  const std::vector<std::int64_t> order = worst();
  for (std::size_t i = 0; i < std::min(most, order.size()); ++i)
    text += fmt::format("worst: {} has mIoU {:.2f} %\n", origin(order[i]),
                        100 * of_images_[static_cast<std::size_t>(order[i])]);
  return text;
}

}  // namespace lacuna
