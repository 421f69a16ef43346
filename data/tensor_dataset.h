// A data set in memory: sample i is row i of each of its tensors.
#pragma once

#include "data/dataset.h"

namespace lacuna {

/// Allocates `samples` samples of stacked fields: [samples, ...] per field, of Purpose::data. The ledger lists it under
/// the op `op`.
NamedTensors allocate_samples(const SampleFields& fields, std::int64_t samples, Device device, std::string_view op);

class TensorDataset : public Dataset {
 public:
  /// `tensors`: [info.size, ...] for each of `info.fields`, which are stacked. They are shared, not copied, so the
  /// caller can fill them later.
  TensorDataset(DatasetInfo info, NamedTensors tensors);

 private:
  void read_sample(std::int64_t index, Sample& sample) const final;

  NamedTensors tensors_;
};

}  // namespace lacuna
