#include "models/tasks/class_figures.h"

#include "core/collectives.h"
#include "core/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace lacuna {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t most_in_matrix = 100;  // classes of a confusion matrix in JSON
constexpr std::int64_t most_printed = 12;     // the same for people
constexpr std::size_t most_listed = 20;       // pairs and samples

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

void ClassFigures::add(const Tensor& logits, const Tensor& labels) {
  expect(logits.shape().rank() == 2 && labels.shape().rank() == 1 && labels.count() == logits.shape()[0],
         "expected logits [N, C] and labels [N], got {} and {}", logits.shape(), labels.shape());
  classes_ = logits.shape().back();
  of_class_.resize(static_cast<std::size_t>(classes_));
  const std::vector<double> all = logits.to_vector(), numbers = labels.to_vector();
  for (std::int64_t i = 0; i < logits.rows(); ++i) {
    const auto row = all.begin() + i * classes_;
    const auto label = static_cast<std::int64_t>(numbers[static_cast<std::size_t>(i)]);
    const auto best = std::max_element(row, row + classes_);
    const double of_label = row[label];
    double sum = 0;
    std::int64_t higher = 0;
    for (auto logit = row; logit != row + classes_; ++logit) {
      sum += std::exp(*logit - *best);
      higher += *logit > of_label ? 1 : 0;
    }
    add_result({static_cast<std::int32_t>(label), static_cast<std::int32_t>(best - row),
                static_cast<float>(std::exp(of_label - *best) / sum), higher < 5});
  }
  batches_.push_back(logits.rows());
}

void ClassFigures::add_result(const Result& result) {
  in_top5_ += result.in_top5 ? 1 : 0;
  ++of_class_[static_cast<std::size_t>(result.label)];
  ++confusion_[{result.label, result.predicted}];
  results_.push_back(result);
}

void ClassFigures::gather(Communicator& ranks) {
  if (ranks.size() == 1) return;
  std::vector<double> mine, lengths(batches_.begin(), batches_.end());
  for (const Result& result : results_)
    mine.insert(mine.end(), {static_cast<double>(result.label), static_cast<double>(result.predicted),
                             static_cast<double>(result.probability), result.in_top5 ? 1.0 : 0.0});
  const std::vector<std::vector<double>> all = all_gather_numbers(ranks, mine);
  const std::vector<std::vector<double>> lengths_of = all_gather_numbers(ranks, lengths);
  classes_ = largest_of_ranks(ranks, classes_);
  std::size_t most = 0;
  for (const std::vector<double>& of_rank : lengths_of) most = std::max(most, of_rank.size());
  in_top5_ = 0;
  of_class_.assign(static_cast<std::size_t>(classes_), 0);
  confusion_.clear();
  results_.clear();
  std::vector<std::size_t> next(all.size());
  for (std::size_t batch = 0; batch < most; ++batch)
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const auto samples = batch < lengths_of[rank].size() ? static_cast<std::int64_t>(lengths_of[rank][batch]) : 0;
      for (std::int64_t i = 0; i < samples; ++i, next[rank] += 4) {
        const double* const numbers = all[rank].data() + next[rank];
        add_result({static_cast<std::int32_t>(numbers[0]), static_cast<std::int32_t>(numbers[1]),
                    static_cast<float>(numbers[2]), numbers[3] > 0});
      }
    }
}

double ClassFigures::top1() const {
  std::int64_t right = 0;
  for (std::int64_t c = 0; c < classes_; ++c) right += count(c, c);
  return share(right, samples());
}

std::vector<ClassFigures::Pair> ClassFigures::most_confused() const {
  std::vector<Pair> pairs;
  for (const auto& [key, samples] : confusion_)
    if (key.first != key.second) pairs.push_back({key.first, key.second, samples});
  std::ranges::stable_sort(pairs, std::greater{}, &Pair::samples);
  pairs.resize(std::min(pairs.size(), most_listed));
  return pairs;
}

std::vector<std::int64_t> ClassFigures::worst() const {
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < samples(); ++i)
    if (const Result& result = results_[static_cast<std::size_t>(i)]; result.label != result.predicted)
      order.push_back(i);
  std::ranges::stable_sort(order, {},
                           [&](std::int64_t i) { return results_[static_cast<std::size_t>(i)].probability; });
  order.resize(std::min(order.size(), most_listed));
  return order;
}

ordered_json ClassFigures::json(const SampleName& origin) const {
  ordered_json json{{"top1", top1()}};
  if (classes_ > 5) json["top5"] = share(in_top5_, samples());
  ordered_json& per_class = json["per_class"] = ordered_json::array();
  std::vector<std::int64_t> predicted(static_cast<std::size_t>(classes_));
  for (const auto& [key, samples] : confusion_) predicted[static_cast<std::size_t>(key.second)] += samples;
  const auto quotient = [](std::int64_t part, std::int64_t whole) {
    return whole == 0 ? ordered_json(nullptr) : ordered_json(share(part, whole));
  };
  for (std::int64_t c = 0; c < classes_; ++c) {
    const std::int64_t all = samples_of(c), found = predicted[static_cast<std::size_t>(c)], right = count(c, c);
    per_class.push_back({{"class", name(c)},
                         {"samples", all},
                         {"accuracy", quotient(right, all)},
                         {"precision", quotient(right, found)},
                         {"f1", quotient(2 * right, all + found)}});
  }
  if (classes_ <= most_in_matrix) {
    ordered_json& matrix = json["confusion"] = ordered_json::array();
    for (std::int64_t c = 0; c < classes_; ++c) {
      std::vector<std::int64_t> row;
      for (std::int64_t p = 0; p < classes_; ++p) row.push_back(count(c, p));
      matrix.push_back(row);
    }
  }
  ordered_json& pairs = json["most_confused"] = ordered_json::array();
  for (const Pair& pair : most_confused())
    pairs.push_back({{"class", name(pair.label)}, {"predicted", name(pair.predicted)}, {"samples", pair.samples}});
  ordered_json& list = json["worst"] = ordered_json::array();
  for (const std::int64_t i : worst()) {
    const Result& result = results_[static_cast<std::size_t>(i)];
    list.push_back({{"sample", origin(i)},
                    {"class", name(result.label)},
                    {"predicted", name(result.predicted)},
                    {"probability", result.probability}});
  }
  return json;
}

std::string ClassFigures::text(const SampleName& origin) const {
  std::string text = fmt::format("top-1 {:.2f} %", 100 * top1());
  if (classes_ > 5) text += fmt::format(", top-5 {:.2f} %", 100 * share(in_top5_, samples()));
  text += '\n';
  if (classes_ <= most_printed) {
    std::size_t width = 6;
    for (std::int64_t c = 0; c < classes_; ++c) width = std::max(width, name(c).size());
    text += fmt::format("{:>{}}  accuracy  predicted as", "class", width);
    for (std::int64_t c = 0; c < classes_; ++c) text += fmt::format(" {:>7}", name(c).substr(0, 7));
    text += '\n';
    for (std::int64_t c = 0; c < classes_; ++c) {
      const std::string accuracy =
          samples_of(c) == 0 ? "none" : fmt::format("{:.1f} %", 100 * share(count(c, c), samples_of(c)));
      text += fmt::format("{:>{}}  {:>8}              ", name(c), width, accuracy);
      for (std::int64_t p = 0; p < classes_; ++p) text += fmt::format(" {:>7}", count(c, p));
      text += '\n';
    }
  } else {
    for (const Pair& pair : most_confused())
      text += fmt::format("{} of {} {} were taken for {}\n", pair.samples, samples_of(pair.label), name(pair.label),
                          name(pair.predicted));
  }
  constexpr std::size_t most = 5;
  const std::vector<std::int64_t> order = worst();
  for (std::size_t i = 0; i < std::min(most, order.size()); ++i) {
    const Result& result = results_[static_cast<std::size_t>(order[i])];
    text += fmt::format("worst: {} is {} ({:.2g}), taken for {}\n", origin(order[i]), name(result.label),
                        result.probability, name(result.predicted));
  }
  return text;
}

}  // namespace lacuna
