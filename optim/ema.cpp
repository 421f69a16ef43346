#include "optim/ema.h"

#include "core/parallel.h"

#include <algorithm>

namespace lacuna {

WeightAverage::WeightAverage(const Module& model, double decay) : decay_(decay) {
  const auto add = [&](const std::string& path, const Tensor& value) {
    const AllocationScope scope({Purpose::optimizer, {}, Label(path)});
    pairs_.push_back({value, value.clone(Purpose::optimizer)});
  };
  for (const Parameter* parameter : model.parameters())
    if (parameter->trainable()) add(parameter->path(), parameter->tensor());
  for (const Buffer* buffer : model.buffers()) add(buffer->path(), buffer->tensor());
}

void WeightAverage::update() {
  const auto keep = static_cast<float>(decay_), take = static_cast<float>(1 - decay_);
  for (const Pair& pair : pairs_) {
    const Tensor &value = pair.value, &average = pair.average;
    if (value.dtype() != DType::f32) {
      average.copy_from(value);
      continue;
    }
    launch(value.device(), [&] {
      map(
          value.count(), [=](float a, float v) { return keep * a + take * v; }, average.data<float>(),
          average.data<float>(), value.data<float>());
    });
  }
}

void WeightAverage::Exchange::exchange() const {
  if (average_ == nullptr) return;
  for (const Pair& pair : average_->pairs_) {
    const Tensor &value = pair.value, &average = pair.average;
    launch(value.device(), [&] { std::swap_ranges(value.raw(), value.raw() + value.bytes(), average.raw()); });
    value.bump_version();
  }
}

}  // namespace lacuna
