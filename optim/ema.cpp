#include "optim/ema.h"

#include "core/error.h"
#include "core/parallel.h"
#include "optim/formulas.h"
#include "optim/kernels.h"
#include "optim/optimizer.h"
#include "optim/shard.h"

#include <algorithm>
#include <cmath>

namespace lacuna {
namespace {

void average_on_cpu(double decay, std::span<const AveragedTensor> tensors) {
  for (const auto& [value, average] : tensors) {
    auto* const a = average.data<float>();
    map(value.count(), formula::average_step(decay), a, a, value.data<float>());
  }
}

const RegisterKernel cpu_average{average_weights, DeviceKind::cpu, average_on_cpu};
const RegisterKernel cpu_swap{swap_contents, DeviceKind::cpu, [](const Tensor& a, const Tensor& b) {
                                std::swap_ranges(a.raw(), a.raw() + a.bytes(), b.raw());
                              }};

}  // namespace

double decay_at(std::int64_t step, double decay, AverageWarmup warmup) {
  const auto s = static_cast<double>(step);
  switch (warmup) {
    case AverageWarmup::none:
      return decay;
    case AverageWarmup::tensorflow:
      return std::min(decay, (1 + s) / (10 + s));
    case AverageWarmup::timm:
      return std::min(decay, 1 - std::pow(1 + s, -2.0 / 3));
  }
  fail("there is no such warm-up of an average");
}

WeightAverage::WeightAverage(const Module& model, double decay, AverageWarmup warmup) : decay_(decay), warmup_(warmup) {
  add_pairs(model);
}

WeightAverage::WeightAverage(const Module& model, const Optimizer& owners, Communicator& ranks, double decay,
                             AverageWarmup warmup)
    : decay_(decay), warmup_(warmup), parameters_(model.parameters()), owners_(&owners), ranks_(&ranks) {
  add_pairs(model);
}

void WeightAverage::add_pairs(const Module& model) {
  const auto add = [&](const std::string& path, const Tensor& value) {
    const AllocationScope scope({Purpose::optimizer, {}, Label(path)});
    pairs_.push_back({value, value.clone(Purpose::optimizer)});
  };
  for (const Parameter* parameter : model.parameters())
    if (parameter->trainable() && (owners_ == nullptr || owners_->holds(*parameter)))
      add(parameter->path(), parameter->tensor());
  for (const Buffer* buffer : model.buffers()) add(buffer->path(), buffer->tensor());
}

void WeightAverage::restart() {
  for (const Pair& pair : pairs_) pair.average.copy_from(pair.value);
}

void WeightAverage::update(std::int64_t step) {
  std::vector<AveragedTensor> averaged;
  for (const Pair& pair : pairs_) {
    if (pair.value.dtype() == DType::f32)
      averaged.push_back({pair.value, pair.average});
    else
      pair.average.copy_from(pair.value);
  }
  if (!averaged.empty()) average_weights(averaged.front().value.device(), decay_at(step, decay_, warmup_), averaged);
}

void WeightAverage::Exchange::exchange(bool with_ranks) const {
  if (average_ == nullptr) return;
  for (const Pair& pair : average_->pairs_) {
    swap_contents(pair.value.device(), pair.value, pair.average);
    pair.value.bump_version();
    pair.average.bump_version();
  }
  if (!average_->is_sharded() || average_->ranks_->size() == 1 || !with_ranks) return;
  share_updates(*average_->owners_, average_->parameters_, *average_->ranks_);
}

}  // namespace lacuna
