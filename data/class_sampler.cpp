#include "data/class_sampler.h"

#include "core/error.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lacuna {
namespace {

/// The class of each sample: [size].
std::vector<std::int32_t> labels_of(const Dataset& samples, std::int64_t classes) {
  std::vector<std::int32_t> labels(static_cast<std::size_t>(samples.size()));
  for (std::int64_t i = 0; i < samples.size(); ++i) {
    const std::int64_t label = samples.label(i);
    if (label < 0 || label >= classes)
      reject("{}: the label of sample {} is {}: with {} classes it has to lie in 0 to {}", samples.info().name, i,
             label, classes, classes - 1);
    labels[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(label);
  }
  return labels;
}

std::vector<std::int64_t> count_labels(std::span<const std::int32_t> labels, std::int64_t classes) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes));
  for (const std::int32_t label : labels) ++counts[static_cast<std::size_t>(label)];
  return counts;
}

class SampledByClass final : public Dataset {
 public:
  SampledByClass(DatasetPtr source, const std::vector<std::int32_t>& labels, const std::vector<std::int64_t>& counts,
                 std::span<const double> weights, std::uint64_t seed)
      : Dataset(source->info()), source_(std::move(source)), seed_(seed), by_class_(labels.size()) {
    begins_.push_back(0);
    for (const std::int64_t count : counts) begins_.push_back(begins_.back() + count);
    std::vector<std::int64_t> next(begins_.begin(), begins_.end() - 1);
    for (std::size_t i = 0; i < labels.size(); ++i)
      by_class_[static_cast<std::size_t>(next[static_cast<std::size_t>(labels[i])]++)] = static_cast<std::int32_t>(i);
    double sum = 0;
    for (std::size_t c = 0; c < counts.size(); ++c)
      up_to_.push_back(sum += weights[c] * static_cast<double>(counts[c]));
    if (!(sum > 0)) reject("{}: all classes that have samples have the weight 0", info().name);
  }

  std::int64_t length(std::int64_t index) const override { return source_->length(index); }

 private:
  void read_sample(std::int64_t place, Sample& sample) const override {
    const RandomStream stream{seed_, static_cast<std::uint32_t>(sample.epoch), random_site("data/classes")};
    const auto draws = stream.draw(static_cast<std::uint64_t>(place));
    const double drawn = static_cast<double>(draws[0]) * 0x1p-32 * up_to_.back();
    const auto c = static_cast<std::size_t>(std::ranges::upper_bound(up_to_, drawn) - up_to_.begin());
    const auto of_class = static_cast<std::uint64_t>(begins_[c + 1] - begins_[c]);
    const auto within = static_cast<std::int64_t>((std::uint64_t{draws[1]} * of_class) >> 32);
    // Each occurrence of a sample is augmented differently, even if `repeat` repeats positions as well.
    sample.copy = sample.copy * size() + place;
    source_->read(by_class_[static_cast<std::size_t>(begins_[c] + within)], sample);
  }

  DatasetPtr source_;
  std::uint64_t seed_;
  std::vector<std::int32_t> by_class_;  // [size]: sample indices, grouped by class
  std::vector<std::int64_t> begins_;    // [classes + 1]: start of each class in by_class_
  std::vector<double> up_to_;           // [classes]: cumulative weight of all samples up to and including a class
};

}  // namespace

std::vector<std::int64_t> count_classes(const Dataset& samples, std::int64_t classes) {
  return count_labels(labels_of(samples, classes), classes);
}

DatasetPtr sample_by_weight(DatasetPtr source, std::span<const double> weights, std::uint64_t seed) {
  const auto classes = std::ssize(weights);
  const std::vector<std::int32_t> labels = labels_of(*source, classes);
  const std::vector<std::int64_t> counts = count_labels(labels, classes);
  return std::make_shared<SampledByClass>(std::move(source), labels, counts, weights, seed);
}

DatasetPtr sample_balanced(DatasetPtr source, std::int64_t classes, std::uint64_t seed) {
  const std::vector<std::int32_t> labels = labels_of(*source, classes);
  const std::vector<std::int64_t> counts = count_labels(labels, classes);
  std::vector<double> weights;
  for (const std::int64_t count : counts) weights.push_back(count > 0 ? 1 / static_cast<double>(count) : 0);
  return std::make_shared<SampledByClass>(std::move(source), labels, counts, weights, seed);
}

}  // namespace lacuna
