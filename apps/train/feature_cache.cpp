#include "apps/train/feature_cache.h"

#include "apps/config/resolve.h"
#include "data/tensor_dataset.h"

#include <utility>

namespace lacuna::apps {
namespace {

/// Knows the classes of its samples, by which they may be drawn, before it has their features.
class Features final : public TensorDataset {
 public:
  Features(DatasetInfo info, NamedTensors tensors, DatasetPtr samples)
      : TensorDataset(std::move(info), std::move(tensors)), samples_(std::move(samples)) {}
  std::int64_t label(std::int64_t index) const override { return samples_->label(index); }

 private:
  DatasetPtr samples_;
};

}  // namespace

FeatureCache::FeatureCache(const Setup& setup, DatasetPtr training_samples, DatasetPtr validation_samples)
    : training_(part_of(setup, std::move(training_samples))),
      validation_(part_of(setup, std::move(validation_samples))) {}

FeatureCache::Part FeatureCache::part_of(const Setup& setup, DatasetPtr samples) {
  NamedTensors tensors = setup.allocate_features(samples->size());
  DatasetInfo info = samples->info();
  info.fields = setup.model().inputs();
  for (const SampleField& target : setup.task().targets()) info.fields.push_back(target);
  return {.samples = samples,
          .tensors = tensors,
          .features = std::make_shared<const Features>(std::move(info), tensors, samples)};
}

std::int64_t FeatureCache::samples() const { return training_.samples->size() + validation_.samples->size(); }

std::int64_t FeatureCache::bytes() const {
  std::int64_t bytes = 0;
  for (const Part* const part : {&training_, &validation_})
    for (const auto& [name, tensor] : part->tensors) bytes += tensor.bytes();
  return bytes;
}

bool FeatureCache::compute(const Experiment& experiment, Model& classifier,
                           const std::function<bool(std::int64_t done)>& go_on) {
  std::int64_t before = 0;
  for (const Part* const part : {&training_, &validation_}) {
    // Both splits are read as in evaluation: in order, without augmentation.
    const bool whole = compute_features(classifier, batches_of(experiment, part->samples, Split::validation),
                                        part->tensors, static_cast<int>(experiment.data.workers),
                                        [&](std::int64_t done) { return go_on(before + done); });
    if (!whole) return false;
    before += part->samples->size();
  }
  return true;
}

}  // namespace lacuna::apps
