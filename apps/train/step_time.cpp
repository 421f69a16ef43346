#include "apps/train/step_time.h"

#include "apps/train/crowding.h"
#include "autograd/plan/bit_allocation.h"
#include "autograd/policies/rules.h"
#include "core/parallel.h"
#include "core/random.h"
#include "ops/linear.h"
#include "ops/quantize/quantize.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>

namespace lacuna::apps {
namespace {

/// Adds up what ops would take.
class PredictedTime final : public Observer {
 public:
  explicit PredictedTime(const Rates& rates) : rates_(rates) {}
  void before(Phase, const Operation&, Label) override {}
  void after(Phase, const Operation&, Label, const Work& work, std::span<const Tensor>) override {
    seconds_ += std::max(static_cast<double>(work.macs) / rates_.macs, static_cast<double>(work.bytes) / rates_.bytes);
  }
  double seconds() const { return seconds_; }

 private:
  const Rates& rates_;
  double seconds_ = 0;
};

/// The shortest time of each of several works, seconds: by turns, so that what slows the machine slows them alike, and
/// often, each for a part of a millisecond, so that in one of them no other program had the processor.
template <std::size_t count>
std::array<double, count> shortest_by_turns(const std::array<std::function<void()>, count>& works) {
  constexpr int rounds = 20;
  using Clock = std::chrono::steady_clock;
  std::array<double, count> shortest;
  shortest.fill(std::numeric_limits<double>::infinity());
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < count; ++i) {
      const auto begin = Clock::now();
      works[i]();
      constexpr double least = 1e-9;  // a clock may stand still
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      shortest[i] = std::min(shortest[i], std::max(least, seconds));
    }
  return shortest;
}

/// `nominal` times the power of √2 that lies nearest to `measured / nominal`; at most four times as much or as little,
/// since no machine is so unlike and a disturbed one seems so.
double rounded(double measured, double nominal) {
  return nominal * std::exp2(std::clamp(std::round(2 * std::log2(measured / nominal)), -4.0, 4.0) / 2);
}

constexpr std::int64_t positions = 256, channels = 512;  // of one part of what is worked on
/// In all more than caches hold.
std::int64_t parts() { return std::max(32, threads()); }

}  // namespace

double Rates::coding_seconds(std::int64_t bytes_of_tensor, int bits) const {
  if (bits == exact_bits) return 0;
  return (quant::uses_hadamard(bits) ? rotated : dithered) * static_cast<double>(bytes_of_tensor);
}

std::int64_t bytes_to_measure_rates() {
  constexpr std::int64_t others = 4;  // products, codes and what they decode to: of each thread's part
  return (2 * parts() + others * threads()) * positions * channels * 4 + channels * channels * 4;
}

Rates measure_rates() {
  warn_if_crowded();
  const Tensor x = Tensor::empty({parts(), positions, channels}, DType::f32, Device::cpu), y = empty_like(x);
  const Tensor weight = Tensor::empty({channels, channels}, DType::f32, Device::cpu);
  const RandomStream draws{1, 0, random_site("rates")};
  for (const Tensor& drawn : {x, weight})
    for (std::int64_t i = 0; i < drawn.count(); ++i)
      drawn.data<float>()[i] = draws.uniform(static_cast<std::uint64_t>(i)) - 0.5F;
  constexpr int widths[] = {2, 3, 4, 8};  // of either kind two: their mean is less noisy
  constexpr std::size_t count = 2 + 2 * std::size(widths);

  // Each thread does all of it by itself, at the same time as the others: they share what memory gives, as in a step,
  // but none waits for another, which on a busy machine would be all that is measured.
  const std::int64_t workers = threads(), all_parts = parts();  // within, it is one
  std::vector<std::array<double, count>> of_thread(static_cast<std::size_t>(workers));
  parallel_tasks(workers, [&](std::int64_t task, int) {
    const Tensor part = x.leading(task, task + 1), out = empty_like(part);
    const Bound<Linear> linear({});
    const std::vector<Tensor> operands{part.reshape({positions, channels}), weight, Tensor()};
    // A pass is over another of the thread's parts every time: from memory, and to it.
    const std::int64_t first = all_parts * task / workers, own = all_parts * (task + 1) / workers - first;
    std::int64_t passes = 0;
    std::array<quant::QuantizedTensor, std::size(widths)> codes;
    std::array<std::function<void()>, count> works;
    works[0] = [&] {
      std::vector<Tensor> extra_outputs;
      linear.forward(operands, extra_outputs);
    };
    works[1] = [&] {
      const std::int64_t at = first + passes++ % own;
      map(
          part.count(), [](float value) { return 0.5F * value + 1.0F; }, y.leading(at, at + 1).data<float>(),
          x.leading(at, at + 1).data<float>());
    };
    for (std::size_t i = 0; i < std::size(widths); ++i) {
      const std::int64_t group =
          HoldRule{}.group_size * (quant::uses_hadamard(widths[i]) ? 4 : 1);  // as policies have it
      const quant::QuantConfig coding = quant::min_error_config(widths[i], {.size = group});
      works.at(2 + 2 * i) = [&, i, coding] {
        codes.at(i) = {};  // the memory of the codes before is taken again, as in training
        codes.at(i) = quant::quantize(part, coding, 1);
      };
      works.at(3 + 2 * i) = [&, i] { quant::dequantize(codes.at(i), 0, part.count(), out); };
    }
    of_thread[static_cast<std::size_t>(task)] = shortest_by_turns(works);
  });
  std::array<double, count> seconds{};  // for a part
  for (const std::array<double, count>& own : of_thread)
    for (std::size_t i = 0; i < count; ++i) seconds[i] += own[i] / static_cast<double>(of_thread.size());

  const Rates nominal;
  Rates rates;
  constexpr double elements = positions * channels, bytes = elements * sizeof(float);
  // How much longer than by the nominal rate products take here: the unit of all the others.
  const double slower = seconds[0] * nominal.macs / (elements * channels);
  rates.bytes = rounded(2 * bytes / seconds[1] * slower, nominal.bytes);
  double coding[2] = {};  // dithered, rotated
  for (std::size_t i = 0; i < std::size(widths); ++i)
    coding[quant::uses_hadamard(widths[i]) ? 1 : 0] += (seconds[2 + 2 * i] + 2 * seconds[3 + 2 * i]) / 2;
  rates.dithered = rounded(coding[0] / bytes / slower, nominal.dithered);
  rates.rotated = rounded(coding[1] / bytes / slower, nominal.rotated);
  return rates;
}

PredictedStep predict_step(const Configuration& configuration, const Rates& rates) {
  PredictedTime time(rates);
  Measurement measured = measure(configuration, Device::meta, {.observer = &time});
  return {std::move(measured), time.seconds()};
}

}  // namespace lacuna::apps
