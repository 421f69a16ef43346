#include "models/tasks/metrics.h"

#include "ops/arithmetic/reduce_kernels.h"
#include "ops/losses/top_k.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace lacuna {
namespace {

using Numbers = std::span<const double>;

/// Rows are labels, columns predictions: [C, C], one row after another.
struct Confusion {
  Numbers counts;
  std::size_t classes = static_cast<std::size_t>(std::llround(std::sqrt(static_cast<double>(counts.size()))));

  double at(std::size_t label, std::size_t predicted) const { return counts[label * classes + predicted]; }
  double labelled(std::size_t c) const {
    double sum = 0;
    for (std::size_t i = 0; i < classes; ++i) sum += at(c, i);
    return sum;
  }
  double predicted(std::size_t c) const {
    double sum = 0;
    for (std::size_t i = 0; i < classes; ++i) sum += at(i, c);
    return sum;
  }
  /// 2 TP / (2 TP + FP + FN); 0 where the class neither is nor is predicted.
  double f1(std::size_t c) const {
    const double all = labelled(c) + predicted(c);
    return all == 0 ? 0 : 2 * at(c, c) / all;
  }
};

double f1(Numbers counts) { return Confusion{counts}.f1(1); }

/// Over the classes that are or are predicted.
double macro_f1(Numbers counts) {
  const Confusion confusion{counts};
  double sum = 0, classes = 0;
  for (std::size_t c = 0; c < confusion.classes; ++c)
    if (confusion.labelled(c) + confusion.predicted(c) > 0) {
      sum += confusion.f1(c);
      ++classes;
    }
  return classes == 0 ? 0 : sum / classes;
}

/// Gorodkin, "Comparing two K-category assignments by a K-category correlation coefficient" (2004); 0 where all labels
/// or all predictions are one class.
double matthews(Numbers counts) {
  const Confusion confusion{counts};
  double right = 0, all = 0, both = 0, labels = 0, predictions = 0;
  for (std::size_t c = 0; c < confusion.classes; ++c) {
    const double labelled = confusion.labelled(c), predicted = confusion.predicted(c);
    right += confusion.at(c, c);
    all += labelled;
    both += labelled * predicted;
    labels += labelled * labelled;
    predictions += predicted * predicted;
  }
  const double spread = (all * all - labels) * (all * all - predictions);
  return spread <= 0 ? 0 : (right * all - both) / std::sqrt(spread);
}

/// Pearson's correlation of interleaved pairs x, y; 0 if all x or all y are equal.
double pearson(Numbers pairs) {
  const auto count = static_cast<double>(pairs.size() / 2);
  double x = 0, y = 0;
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    x += pairs[i];
    y += pairs[i + 1];
  }
  x /= count;
  y /= count;
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    const double dx = pairs[i] - x, dy = pairs[i + 1] - y;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  return xx == 0 || yy == 0 ? 0 : xy / std::sqrt(xx * yy);
}

/// The ranks of x (`first` 0) or y (`first` 1), written to the same places; equal numbers have their mean rank.
void rank(Numbers pairs, std::size_t first, std::vector<double>& ranks) {
  std::vector<std::size_t> order(pairs.size() / 2);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto value = [&](std::size_t i) { return pairs[2 * i + first]; };
  std::ranges::sort(order, {}, value);
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && !(value(order[begin]) < value(order[end]))) ++end;
    for (std::size_t i = begin; i < end; ++i) ranks[2 * order[i] + first] = static_cast<double>(begin + end + 1) / 2;
  }
}

double spearman(Numbers pairs) {
  if (!std::ranges::all_of(pairs, [](double value) { return std::isfinite(value); }))
    return std::numeric_limits<double>::quiet_NaN();  // such values have no ranks
  std::vector<double> ranks(pairs.size());
  rank(pairs, 0, ranks);
  rank(pairs, 1, ranks);
  return pearson(ranks);
}

constexpr std::int64_t most_classes = 1000;  // of a confusion matrix

}  // namespace

std::vector<std::string> metric_names(std::string_view text, std::string_view absent) {
  if (text.empty()) text = absent;
  std::vector<std::string> names;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string name(text.substr(0, comma));
    std::erase(name, ' ');
    if (!name.empty()) names.push_back(std::move(name));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return names;
}

Metric class_metric(const std::string& name, std::int64_t classes) {
  if (name == "accuracy" || name == "top5_accuracy") return {.name = name, .sums = 2, .value = ratio_of_sums};
  if (name != "f1" && name != "macro_f1" && name != "matthews")
    reject("task.metrics: expected some of accuracy, top5_accuracy, f1, macro_f1 and matthews, got {}", name);
  if (classes > most_classes || (name == "f1" && classes != 2))
    reject("task.metrics: {} is of {} classes, got {}", name, name == "f1" ? "2 (macro_f1 of more)" : "1000 at most",
           classes);
  return {.name = name,
          .sums = classes * classes,
          .value = name == "f1"         ? f1
                   : name == "macro_f1" ? macro_f1
                                        : matthews};
}

bool counts_on_device(const Metric& metric) { return metric.name == "accuracy" || metric.name == "top5_accuracy"; }

Tensor class_sums(const Metric& metric, const Tensor& logits, const Tensor& labels) {
  const Device device = logits.device();
  const Tensor sums = Tensor::zeros({metric.sums}, DType::f64, device);
  if (counts_on_device(metric)) {
    const std::int64_t k = metric.name == "accuracy" ? 1 : 5;
    count_top_k(device, logits, labels, std::span(&k, 1), sums.leading(0, 1));
    sums.leading(1, 2).fill(static_cast<double>(logits.rows()));
    return sums;
  }
  const Tensor predicted = Tensor::empty({logits.rows()}, DType::i64, device);
  find_largest(device, logits, predicted);
  Tensor truth = labels;
  if (labels.dtype() != DType::i64) {
    truth = Tensor::empty({logits.rows()}, DType::i64, device);
    find_largest(device, labels, truth);
  }
  if (device == Device::meta) return sums;
  const Tensor found = predicted.to(Device::cpu), wanted = truth.to(Device::cpu);
  const std::int64_t classes = logits.shape().back();
  std::vector<double> counts(static_cast<std::size_t>(metric.sums));
  for (std::int64_t i = 0; i < logits.rows(); ++i) {
    const std::int64_t label = wanted.data<const std::int64_t>()[i];
    if (label < 0 || label >= classes) reject("{}: label {} is none of the {} classes", metric.name, label, classes);
    ++counts[static_cast<std::size_t>(label * classes + found.data<const std::int64_t>()[i])];
  }
  sums.copy_from(Tensor::from(std::span<const double>(counts), sums.shape()));
  return sums;
}

namespace {

Metric number_metric(const std::string& name) {
  if (name == "mse") return {.name = name, .higher_is_better = false, .sums = 2, .value = ratio_of_sums};
  if (name == "pearson") return {.name = name, .value = pearson, .keeps = true};
  if (name == "spearman") return {.name = name, .value = spearman, .keeps = true};
  reject("task.metrics: expected some of mse, pearson and spearman, got {}", name);
}

Tensor number_sums(const Metric& metric, const Tensor& predictions, const Tensor& labels) {
  const std::int64_t count = labels.count();
  const Tensor sums = Tensor::zeros({metric.keeps ? 2 * count : 2}, DType::f64, predictions.device());
  if (predictions.device() == Device::meta) return sums;
  const std::vector<double> x = predictions.to_vector(), y = labels.to_vector();
  std::vector<double> out(static_cast<std::size_t>(sums.count()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (metric.keeps) {
      out[2 * i] = x[i];
      out[2 * i + 1] = y[i];
    } else {
      out[0] += (x[i] - y[i]) * (x[i] - y[i]);
    }
  }
  if (!metric.keeps) out[1] = static_cast<double>(count);
  sums.copy_from(Tensor::from(std::span<const double>(out), sums.shape()));
  return sums;
}

}  // namespace

std::vector<Metric> number_metrics(std::string_view names) {
  std::vector<Metric> metrics;
  for (const std::string& name : metric_names(names, "mse")) metrics.push_back(number_metric(name));
  return metrics;
}

std::vector<Tensor> number_sums(const std::vector<Metric>& metrics, const Tensor& predictions, const Tensor& labels) {
  std::vector<Tensor> sums;
  for (const Metric& metric : metrics) sums.push_back(number_sums(metric, predictions, labels));
  return sums;
}

Metric perplexity_metric() {
  return {.name = "perplexity", .higher_is_better = false, .sums = 2, .value = [](std::span<const double> sums) {
            return std::exp(sums[0] / sums[1]);
          }};
}

Tensor sum_and_count(const Tensor& mean, double count) {
  const Tensor sums = Tensor::zeros({2}, DType::f64, mean.device());
  add_to_sums(mean.device(), count, mean, sums.leading(0, 1));
  sums.leading(1, 2).fill(count);
  return sums;
}

}  // namespace lacuna
