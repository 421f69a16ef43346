#include "autograd/holders/holder.h"
#include "core/planned_device.h"
#include "core/random.h"
#include "ops/quantize/draws.h"
#include "ops/quantize/quantizer.h"

#include <algorithm>
#include <limits>

namespace lacuna {
namespace {

quant::Range mirrored(const quant::Range& range) {
  const float most = std::max(-range.min, range.max);
  return {-most, most};
}

}  // namespace

std::int64_t Quantized::bytes() const {
  const auto of = [](const Tensor& tensor) { return tensor.defined() ? tensor.bytes() : 0; };
  return of(values_.bytes) + of(values_.drawn) + of(signs_);
}

void Quantized::release() {
  values_ = {};
  signs_ = {};
}

quant::QuantizedTensor quantize(const Tensor& values, const std::string& key, const Hold& hold) {
  // Each tensor and step has its own random stream, independent of the step's other draws.
  const RandomStream stream = random_stream(key);
  const std::uint64_t block = hold.draw + (std::uint64_t{stream.first_sample} << 32);  // micro-batches differ
  RunningRanges* const running = hold.running;
  if (stream.clock != nullptr)
    expect(running == nullptr, "{} is quantized by ranges that the host follows: its step cannot be captured", key);
  const bool draws_there =
      computes_on_cuda(values.device()) && running == nullptr && quant::quantizer_of(hold.config).draws_in_kernels();
  if (stream.clock != nullptr || draws_there) return quant::quantize(values, hold.config, stream, block);
  const std::uint64_t seed = quant::key_of(stream.draw(block));
  if (running == nullptr || values.device() == Device::meta) return quant::quantize(values, hold.config, seed);

  const auto groups = static_cast<std::size_t>(quant::group_count(values.shape(), hold.config.grouping));
  const auto about_zero = [&](std::vector<quant::Range>& ranges) {
    if (running->symmetric) std::ranges::transform(ranges, ranges.begin(), mirrored);
  };
  std::vector<quant::Range> ranges = running->ranges;
  if (ranges.size() != groups) {  // the first step takes the ranges of its own tensor
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const std::vector<quant::Range> unknown(groups);
    ranges.assign(groups, {infinity, -infinity});
    quant::quantize(values, hold.config, seed, unknown, ranges);
    const auto is_unseen = [](const quant::Range& range) { return range.min > range.max; };
    if (std::ranges::any_of(ranges, is_unseen)) {  // the estimate starts with the first step that has finite values
      std::ranges::replace_if(ranges, is_unseen, quant::Range{});
      about_zero(ranges);
      return quant::quantize(values, hold.config, seed, ranges, {});
    }
  }
  about_zero(ranges);
  std::vector<quant::Range> seen = ranges;  // unchanged for a group without finite values
  quant::QuantizedTensor quantized = quant::quantize(values, hold.config, seed, ranges, seen);
  about_zero(seen);
  const auto keep = static_cast<float>(running->decay), take = 1 - keep;
  for (std::size_t i = 0; i < groups; ++i)
    ranges[i] = {keep * ranges[i].min + take * seen[i].min, keep * ranges[i].max + take * seen[i].max};
  running->ranges = std::move(ranges);  // last, since the same step is retried after an error
  return quantized;
}

}  // namespace lacuna
