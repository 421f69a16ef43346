#include "models/tasks/detection/average_precision.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>

namespace lacuna {
namespace {

constexpr int recall_points = 101;

struct AreaRange {
  double least, most;
  bool has(double area) const { return area >= least && area <= most; }
};
constexpr std::array<AreaRange, AveragePrecision::sizes> area_ranges{
    {{0, 1e10}, {0, 32 * 32}, {32 * 32, 96 * 96}, {96 * 96, 1e10}}};  // all, small, medium, large

/// The values of numpy.linspace, whose last one is exact.
double spaced(double first, double last, int count, int i) {
  return i + 1 == count ? last : i * ((last - first) / (count - 1)) + first;
}
double threshold_of(int t) { return spaced(0.5, 0.95, AveragePrecision::thresholds, t); }

/// Intersection over union; over the found box alone where the true one is a crowd.
double overlap(const CornerBox& found, const TrueBox& truth) {
  const CornerBox& box = truth.box;
  const double width = std::min(found[0] + found[2], box[0] + box[2]) - std::max(found[0], box[0]);
  const double height = std::min(found[1] + found[3], box[1] + box[3]) - std::max(found[1], box[1]);
  if (width <= 0 || height <= 0) return 0;
  const double common = width * height, own = found[2] * found[3];
  return common / (truth.crowd ? own : own + box[2] * box[3] - common);
}

/// The mean of what is there; -1 without any.
class Mean {
 public:
  void add(std::span<const double> values) {
    sum_ = std::accumulate(values.begin(), values.end(), sum_);
    count_ += values.size();
  }
  double value() const { return count_ == 0 ? -1 : sum_ / static_cast<double>(count_); }

 private:
  double sum_ = 0;
  std::size_t count_ = 0;
};

}  // namespace

void AveragePrecision::match(std::span<const TrueBox* const> truth, std::span<const FoundBox* const> found, int size,
                             std::span<Counted> counted) {
  const auto at = static_cast<std::size_t>(size);
  const auto counts_for_nothing = [&](const TrueBox* box) {
    return box->crowd || box->ignored || !area_ranges[at].has(box->area);
  };
  std::vector<const TrueBox*> order(truth.begin(), truth.end());  // those that count come first
  const auto counting =
      std::ranges::stable_partition(order, [&](const TrueBox* box) { return !counts_for_nothing(box); });
  const auto first_ignored = static_cast<std::size_t>(counting.begin() - order.begin());
  std::vector<double> overlaps;  // [found, truth]
  for (const FoundBox* const one : found)
    for (const TrueBox* const box : order) overlaps.push_back(overlap(one->box, *box));
  for (int t = 0; t < thresholds; ++t) {
    const auto bit = static_cast<std::uint16_t>(1U << t);
    std::vector<bool> taken(order.size());
    for (std::size_t d = 0; d < found.size(); ++d) {
      double best = std::min(threshold_of(t), 1 - 1e-10);
      std::size_t chosen = order.size();
      for (std::size_t g = 0; g < order.size(); ++g) {
        if (taken[g] && !order[g]->crowd) continue;
        if (chosen < first_ignored && g >= first_ignored) break;
        if (overlaps[d * order.size() + g] < best) continue;
        best = overlaps[d * order.size() + g];
        chosen = g;
      }
      const bool is_matched = chosen < order.size();
      if (is_matched) {
        taken[chosen] = true;
        counted[d].matched[at] |= bit;
      }
      const double area = found[d]->box[2] * found[d]->box[3];
      if (is_matched ? chosen >= first_ignored : !area_ranges[at].has(area)) counted[d].ignored[at] |= bit;
    }
  }
}

void AveragePrecision::add(std::span<const TrueBox> truth, std::span<const FoundBox> found) {
  struct OfCategory {
    std::vector<const TrueBox*> truth;
    std::vector<const FoundBox*> found;
  };
  std::map<std::int64_t, OfCategory> boxes;
  for (const TrueBox& box : truth) boxes[box.category].truth.push_back(&box);
  for (const FoundBox& box : found) boxes[box.category].found.push_back(&box);
  for (auto& [id, own] : boxes) {
    std::ranges::stable_sort(own.found, std::greater(), [](const FoundBox* box) { return box->score; });
    if (own.found.size() > most_of_image) own.found.resize(most_of_image);
    std::vector<Counted> counted;
    for (const FoundBox* const box : own.found)
      counted.push_back({.score = box->score, .rank = static_cast<int>(counted.size()), .matched = {}, .ignored = {}});
    Category& category = categories_[id];
    for (int size = 0; size < sizes; ++size) {
      match(own.truth, own.found, size, counted);
      for (const TrueBox* const box : own.truth)
        if (!box->crowd && !box->ignored && area_ranges[static_cast<std::size_t>(size)].has(box->area))
          ++category.wanted[static_cast<std::size_t>(size)];
    }
    category.found.insert(category.found.end(), counted.begin(), counted.end());
  }
}

AveragePrecision::Curves AveragePrecision::curves(const Category& category, int size, int most) {
  const auto at = static_cast<std::size_t>(size);
  if (category.wanted[at] == 0) return {};
  std::vector<const Counted*> order;
  for (const Counted& one : category.found)
    if (one.rank < most) order.push_back(&one);
  std::ranges::stable_sort(order, std::greater(), [](const Counted* one) { return one->score; });
  Curves curves;
  for (int t = 0; t < thresholds; ++t) {
    std::vector<double> recalls, precisions;
    std::int64_t right = 0, wrong = 0;
    for (const Counted* const one : order) {
      if ((one->ignored[at] >> t & 1) == 0) ++((one->matched[at] >> t & 1) != 0 ? right : wrong);
      recalls.push_back(static_cast<double>(right) / static_cast<double>(category.wanted[at]));
      precisions.push_back(static_cast<double>(right) /
                           (static_cast<double>(right + wrong) + std::numeric_limits<double>::epsilon()));
    }
    for (std::size_t i = precisions.size(); i > 1; --i)
      precisions[i - 2] = std::max(precisions[i - 2], precisions[i - 1]);
    for (int r = 0; r < recall_points; ++r) {
      const auto reached = std::ranges::lower_bound(recalls, spaced(0, 1, recall_points, r)) - recalls.begin();
      curves.precisions.push_back(reached < std::ssize(precisions) ? precisions[static_cast<std::size_t>(reached)] : 0);
    }
    curves.recalls.push_back(recalls.empty() ? 0 : recalls.back());
  }
  return curves;
}

DetectionFigures AveragePrecision::figures() const {
  enum Size { all, small, medium, large };
  const auto means = [&](int size, int most) {
    std::pair<Mean, Mean> both;
    for (const auto& [id, category] : categories_) {
      const Curves own = curves(category, size, most);
      both.first.add(own.precisions);
      both.second.add(own.recalls);
    }
    return std::pair(both.first.value(), both.second.value());
  };
  DetectionFigures made;
  std::tie(made.ap, made.ar_100) = means(all, most_of_image);
  std::tie(made.ap_small, made.ar_small) = means(small, most_of_image);
  std::tie(made.ap_medium, made.ar_medium) = means(medium, most_of_image);
  std::tie(made.ap_large, made.ar_large) = means(large, most_of_image);
  made.ar_1 = means(all, 1).second;
  made.ar_10 = means(all, 10).second;
  Mean at_50, at_75;
  for (const auto& [id, category] : categories_) {
    const Curves own = curves(category, all, most_of_image);
    Mean of_category;
    of_category.add(own.precisions);
    made.ap_of_category[id] = of_category.value();
    if (own.precisions.empty()) continue;
    const std::span precisions(own.precisions);
    at_50.add(precisions.first(recall_points));
    at_75.add(precisions.subspan(5 * recall_points, recall_points));
  }
  made.ap_50 = at_50.value();
  made.ap_75 = at_75.value();
  return made;
}

}  // namespace lacuna
