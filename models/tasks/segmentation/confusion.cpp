#include "models/tasks/segmentation/confusion.h"

#include <numeric>

namespace lacuna {
namespace {

std::optional<double> quotient(double part, double whole) {
  return whole > 0 ? std::optional(part / whole) : std::nullopt;
}

/// The mean of those that are defined; 0 where none is.
template <class F>
double mean_of(std::int64_t classes, const F& value) {
  double sum = 0;
  std::int64_t count = 0;
  for (std::int64_t c = 0; c < classes; ++c)
    if (const std::optional<double> one = value(static_cast<std::size_t>(c))) {
      sum += *one;
      ++count;
    }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

// Sums of the metrics: hits, labelled and predicted pixels of each class; of mean_accuracy the first two.

double mean_iou_of(std::span<const double> sums) {
  const std::size_t classes = sums.size() / 3;
  return mean_of(static_cast<std::int64_t>(classes),
                 [=](std::size_t c) { return quotient(sums[c], sums[classes + c] + sums[2 * classes + c] - sums[c]); });
}
double mean_accuracy_of(std::span<const double> sums) {
  const std::size_t classes = sums.size() / 2;
  return mean_of(static_cast<std::int64_t>(classes),
                 [=](std::size_t c) { return quotient(sums[c], sums[classes + c]); });
}
double pixel_accuracy_of(std::span<const double> sums) { return quotient(sums[0], sums[1]).value_or(0); }

}  // namespace

void Confusion::add(const Tensor& predictions, const Tensor& labels, std::int64_t ignored) {
  expect(predictions.shape() == labels.shape(), "predictions {} and labels {} of pixels differ in shape",
         predictions.shape(), labels.shape());
  const auto count_all = [&](const auto* predicted, const auto* label) {
    for (std::int64_t i = 0; i < labels.count(); ++i) {
      const auto of = static_cast<std::int64_t>(label[i]);
      if (of == ignored) continue;
      const auto at = static_cast<std::int64_t>(predicted[i]);
      expect(of >= 0 && of < classes_ && at >= 0 && at < classes_, "a pixel of class {} was predicted as {} of {}", of,
             at, classes_);
      if (of == at) ++counts_[static_cast<std::size_t>(at)];
      ++counts_[static_cast<std::size_t>(classes_ + of)];
      ++counts_[static_cast<std::size_t>(2 * classes_ + at)];
      if (has_matrix()) ++counts_[static_cast<std::size_t>((3 + of) * classes_ + at)];
    }
  };
  const auto with_labels = [&](const auto* predicted) {
    if (labels.dtype() == DType::u8)
      count_all(predicted, labels.data<const std::uint8_t>());
    else
      count_all(predicted, labels.data<const std::int64_t>());
  };
  if (predictions.dtype() == DType::u8)
    with_labels(predictions.data<const std::uint8_t>());
  else
    with_labels(predictions.data<const std::int32_t>());
}

void Confusion::add(const Confusion& other) {
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

void Confusion::add(const std::vector<double>& numbers) {
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += static_cast<std::int64_t>(numbers[i]);
}

std::int64_t Confusion::pixels() const {
  const auto row = counts_.begin() + classes_;
  return std::reduce(row, row + classes_);
}

std::optional<double> Confusion::iou(std::int64_t c) const {
  return quotient(static_cast<double>(hits(c)), static_cast<double>(labelled(c) + predicted(c) - hits(c)));
}

std::optional<double> Confusion::accuracy(std::int64_t c) const {
  return quotient(static_cast<double>(hits(c)), static_cast<double>(labelled(c)));
}

double Confusion::mean_iou() const {
  return mean_of(classes_, [&](std::size_t c) { return iou(static_cast<std::int64_t>(c)); });
}

std::vector<Metric> segmentation_metrics(std::int64_t classes) {
  return {{.name = "miou", .sums = 3 * classes, .value = mean_iou_of},
          {.name = "pixel_accuracy", .sums = 2, .value = pixel_accuracy_of},
          {.name = "mean_accuracy", .sums = 2 * classes, .value = mean_accuracy_of}};
}

std::vector<Tensor> segmentation_sums(const Confusion& confusion) {
  const std::int64_t classes = confusion.classes();
  std::vector<double> sums;
  for (std::int64_t c = 0; c < classes; ++c) sums.push_back(static_cast<double>(confusion.hits(c)));
  const double hits = std::reduce(sums.begin(), sums.end());
  for (std::int64_t c = 0; c < classes; ++c) sums.push_back(static_cast<double>(confusion.labelled(c)));
  const Tensor accuracy = Tensor::from(std::span<const double>(sums), {2 * classes}, DType::f64);
  for (std::int64_t c = 0; c < classes; ++c) sums.push_back(static_cast<double>(confusion.predicted(c)));
  const double all[] = {hits, static_cast<double>(confusion.pixels())};
  return {Tensor::from(std::span<const double>(sums), {3 * classes}, DType::f64),
          Tensor::from(std::span<const double>(all), {2}, DType::f64), accuracy};
}

}  // namespace lacuna
