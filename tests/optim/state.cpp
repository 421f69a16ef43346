// Optimizer state in 16 and 8 bits.
#include "optim/state.h"

#include "optim/optimizer.h"
#include "tests/optim/two_parameters.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <random>

using namespace lacuna;

namespace {

constexpr std::int64_t block = OptimizerState::block, count = 4096 + 100;  // the last block is short

std::vector<float> read(const OptimizerState& state) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; i += block) {
    std::array<float, block> scratch;
    const std::int64_t end = std::min(count, i + block);
    const float* const from = state.open(i, end, scratch.data());
    values.insert(values.end(), from, from + (end - i));
  }
  return values;
}

void write(const OptimizerState& state, const std::vector<float>& values, std::uint64_t key) {
  for (std::int64_t i = 0; i < count; i += block) state.close(i, std::min(count, i + block), values.data() + i, key);
}

OptimizerState coded(StateValues values, StatePrecision precision = StatePrecision::int8) {
  return {Shape{count}, Device::cpu, {"state", values}, precision};
}

/// Magnitudes over many powers of two, as those of gradients.
std::vector<float> spread(StateValues values) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> all;
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = normal(random) * std::exp2(2 * normal(random) - 20);
    all.push_back(values == StateValues::no_sign ? value * value : value);
  }
  return all;
}

float most_around(const std::vector<float>& values, std::size_t i) {
  const std::size_t first = i / block * block, last = std::min(values.size(), first + block);
  float most = 0;
  for (std::size_t k = first; k < last; ++k) most = std::max(most, std::abs(values[k]));
  return most;
}

/// Whether the value is clamped to 32 octaves below the largest of its block.
bool held(StateValues kind, StatePrecision precision, const std::vector<float>& values, std::size_t i) {
  return kind == StateValues::no_sign && precision == StatePrecision::int8 &&
         values[i] < most_around(values, i) * 0x1p-32F;
}

/// Bound on the error of a stored value.
std::vector<float> gaps(StateValues kind, StatePrecision precision, const std::vector<float>& values) {
  std::vector<float> all;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float magnitude = std::abs(values[i]), most = most_around(values, i);
    if (precision == StatePrecision::bf16) {
      all.push_back(magnitude * 0x1p-7F);
    } else if (kind ==
               StateValues::no_sign) {  // an eighth of an octave, across a power of two; or up to the smallest value
      const float least = most * 0x1p-32F;
      all.push_back(magnitude < least ? 1.19F * least : 0.19F * magnitude);
    } else {  // roots within ±√most: 255 steps, each at most 1.4 % longer than necessary
      const float step = 2 * std::sqrt(most) / 254 * 1.014F, root = std::sqrt(magnitude);
      all.push_back(std::max((root + step) * (root + step) - magnitude, step * step));
    }
  }
  return all;
}

}  // namespace

TEST_CASE("a new state of any type is zero") {
  for (const StatePrecision precision : {StatePrecision::f32, StatePrecision::bf16, StatePrecision::int8})
    for (const StateValues values : {StateValues::any_sign, StateValues::no_sign})
      CHECK(read(coded(values, precision)) == std::vector<float>(static_cast<std::size_t>(count)));
}

TEST_CASE("bytes of a state") {
  const auto bytes = [](std::int64_t n, StatePrecision precision) {
    return OptimizerState({n}, Device::meta, {"s"}, precision).tensor().bytes();
  };
  CHECK(bytes(1 << 20, StatePrecision::f32) == 4 << 20);
  CHECK(bytes(1 << 20, StatePrecision::bf16) == 2 << 20);
  CHECK(bytes(1 << 20, StatePrecision::int8) == (1 << 20) + 4 * (1 << 12));
  CHECK(bytes(4095, StatePrecision::int8) == 4 * 4095);  // too small to be quantized
  CHECK(bytes(4096 + 1, StatePrecision::int8) == 4097 + 4 * 17);
}

TEST_CASE("quantization errors are bounded, and zero is exact") {
  for (const StateValues kind : {StateValues::any_sign, StateValues::no_sign}) {
    const OptimizerState state = coded(kind);
    std::vector<float> values = spread(kind);
    for (std::size_t i = 0; i < values.size(); i += 3) values[i] = 0;
    write(state, values, 1);
    const std::vector<float> back = read(state), bound = gaps(kind, StatePrecision::int8, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (kind == StateValues::any_sign && values[i] == 0)
        CHECK(back[i] == 0);
      else
        CHECK(std::abs(back[i] - values[i]) <= bound[i]);
      if (kind == StateValues::no_sign) CHECK(back[i] > 0);  // no divisor becomes zero
    }
  }
}

TEST_CASE("stored values are unbiased, also those of a slowly moving average") {
  for (const StatePrecision precision : {StatePrecision::bf16, StatePrecision::int8}) {
    for (const StateValues kind : {StateValues::any_sign, StateValues::no_sign}) {
      const OptimizerState state = coded(kind, precision);
      const std::vector<float> values = spread(kind), gap = gaps(kind, precision, values);
      constexpr int draws = 1000;
      std::vector<double> sum(values.size());
      for (int draw = 0; draw < draws; ++draw) {
        write(state, values, static_cast<std::uint64_t>(draw) << 32);
        const std::vector<float> back = read(state);
        for (std::size_t i = 0; i < back.size(); ++i)
          sum[i] += static_cast<double>(back[i]) - static_cast<double>(values[i]);
      }
      // One of two neighbours, a gap apart, is drawn: the variance is at most a quarter of the squared gap.
      double largest = 0;
      for (std::size_t i = 0; i < values.size(); ++i)
        if (!held(kind, precision, values, i))
          largest = std::max(largest, std::abs(sum[i]) / (std::sqrt(draws) * 0.5 * static_cast<double>(gap[i])));
      CHECK(largest < 5);
      // 0.999·v over 2000 steps falls to 0.135 of its start, although no single step is as large as a code.
      std::vector<float> moving = values;
      write(state, moving, 0);
      for (std::uint64_t step = 1; step <= 2000; ++step) {
        moving = read(state);
        for (float& value : moving) value *= 0.999F;
        write(state, moving, step << 32);
      }
      double before = 0, after = 0;
      moving = read(state);
      for (std::size_t i = 0; i < values.size(); ++i) {
        before += std::abs(static_cast<double>(values[i]));
        after += std::abs(static_cast<double>(moving[i]));
      }
      CHECK(after / before == doctest::Approx(std::pow(0.999, 2001)).epsilon(0.05));
    }
  }
}

TEST_CASE("a block of equal values decays, and a block with a single element") {
  for (const StateValues kind : {StateValues::any_sign, StateValues::no_sign}) {
    for (const std::int64_t n : {std::int64_t{4096}, std::int64_t{4097}}) {
      const OptimizerState state({n}, Device::cpu, {"state", kind}, StatePrecision::int8);
      const std::int64_t last = (n - 1) / block * block;
      std::vector<float> values(block, 1e-6F);
      state.close(last, n, values.data(), 0);
      for (std::uint64_t step = 1; step <= 2000; ++step) {
        std::array<float, block> scratch;
        const float* const read_back = state.open(last, n, scratch.data());
        for (std::int64_t i = 0; i < n - last; ++i) values[static_cast<std::size_t>(i)] = 0.999F * read_back[i];
        state.close(last, n, values.data(), step << 32);
      }
      double mean = 0;
      for (std::int64_t i = 0; i < n - last; ++i) mean += static_cast<double>(values[static_cast<std::size_t>(i)]);
      CHECK(mean / static_cast<double>(n - last) == doctest::Approx(1e-6 * std::pow(0.999, 2000)).epsilon(0.1));
    }
  }
}

TEST_CASE("a value that is not finite stays not finite") {
  for (const StatePrecision precision : {StatePrecision::bf16, StatePrecision::int8}) {
    for (const StateValues kind : {StateValues::any_sign, StateValues::no_sign}) {
      for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
                              -std::numeric_limits<float>::quiet_NaN()}) {
        const OptimizerState state = coded(kind, precision);
        std::vector<float> values = spread(kind);
        values[300] = bad;
        write(state, values, 3);
        CHECK_FALSE(std::isfinite(read(state)[300]));
        CHECK(std::isfinite(read(state)[0]));
      }
    }
  }
}

// Gradients here range over many powers of two, unlike those of TwoParameters.
TEST_CASE("every optimizer with 16 or 8 bits of state stays near its f32 trajectory") {
  const std::vector<float> scales = spread(StateValues::any_sign);
  for (const std::string& name : optimizers().names()) {
    CAPTURE(name);
    const auto walk = [&](StatePrecision precision) {
      TwoParameters model(Device::cpu, 64, 128);
      const auto optimizer = make_optimizer(name, {}, model, {.precision = precision});
      const std::vector<double> start = model.values();
      for (int step = 0; step < 100; ++step) {
        model.set_gradients(step % 7);
        for (const Parameter* parameter : model.parameters())
          for (std::int64_t i = 0; i < parameter->grad().count(); ++i)
            parameter->grad().data<float>()[i] *= scales[static_cast<std::size_t>(i) % scales.size()];
        optimizer->step(1e-3);
      }
      std::vector<double> way = model.values();
      for (std::size_t i = 0; i < way.size(); ++i) way[i] -= start[i];
      return way;
    };
    const std::vector<double> exact = walk(StatePrecision::f32);
    const auto error = [&](StatePrecision precision) {
      const std::vector<double> way = walk(precision);
      double difference = 0, length = 0;
      for (std::size_t i = 0; i < way.size(); ++i) {
        difference += (way[i] - exact[i]) * (way[i] - exact[i]);
        length += exact[i] * exact[i];
      }
      return std::sqrt(difference / length);
    };
    CHECK(error(StatePrecision::bf16) < 0.02);
    // Lion takes signs, and Adan differences: their error is large where a value is small within its block.
    CHECK(error(StatePrecision::int8) < (name == "lion" || name == "adan" ? 0.25 : 0.1));
  }
}
