// What curves yield at points that are off by errors of a known variance.
#include "ops/activation.h"
#include "tests/ops/one_tensor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace lacuna {
namespace {

/// Values of the curve at `x` [rows, C] as a slot derives them, or its slopes as backward reads them.
std::vector<double> curve(const Operation& op, bool slope, const Tensor& x, const Tensor& variance) {
  if (slope) {
    Grads grads(1, {0});
    op.backward(Tensor::full(x.shape(), 1, x.dtype(), x.device()), OneTensor(x, variance), grads);
    return grads[0].to_vector();
  }
  const Tensor y = empty_like(x);
  op.rematerialize({&x, 1}, {&variance, 1}, x.shape(), 0, {}, y);
  return y.to_vector();
}

/// The greatest distance on [-5, 5] between the curve and its mean over errors spread evenly over `step`.
double bias(const Operation& op, bool slope, double step, bool told) {
  constexpr std::int64_t points = 101, errors = 64;
  std::vector<double> at, off;  // [points], [points, errors]
  for (std::int64_t i = 0; i < points; ++i) {
    at.push_back(-5 + 0.1 * static_cast<double>(i));
    for (std::int64_t j = 0; j < errors; ++j)
      off.push_back(at.back() + step * ((static_cast<double>(j) + 0.5) / static_cast<double>(errors) - 0.5));
  }
  const Tensor x = Tensor::from(std::span<const double>(at), {points, 1});
  const Tensor near = Tensor::from(std::span<const double>(off), {points, errors});
  const Tensor variance = told ? Tensor::full(near.shape(), step * step / 12, DType::f32, Device::cpu) : Tensor();
  const std::vector<double> exact = curve(op, slope, x, {}), means = curve(op, slope, near, variance);
  double worst = 0;
  for (std::size_t i = 0; i < points; ++i) {
    double mean = 0;
    for (std::size_t j = 0; j < errors; ++j) mean += means[i * errors + j] / static_cast<double>(errors);
    worst = std::max(worst, std::abs(mean - exact[i]));
  }
  return worst;
}

}  // namespace

TEST_CASE("curves of codes: told the variance of the errors, they have no bias of second order") {
  const Bound<Gelu> erf{Gelu{}}, tanh{Gelu{.form = Gelu::Form::tanh}};
  const Bound<Silu> silu{Silu{}};
  for (const Operation* op : std::vector<const Operation*>{&erf, &tanh, &silu})
    for (const bool slope : {false, true}) {
      CAPTURE(op->name());
      CAPTURE(slope);
      const double untold[] = {bias(*op, slope, 1, false), bias(*op, slope, 0.5, false)};
      const double told[] = {bias(*op, slope, 1, true), bias(*op, slope, 0.5, true)};
      CHECK(untold[0] > 0.01);  // step² / 24 times the second derivative
      CHECK(untold[0] > 3.5 * untold[1]);
      CHECK(untold[0] > 8 * told[0]);
      CHECK(untold[1] > 25 * told[1]);
    }
}

TEST_CASE("curves of codes: errors wider than the bend leave finite values, and those of no width what there was") {
  const Bound<Gelu> gelu{Gelu{}};
  const Bound<Silu> silu{Silu{}};
  const Tensor x = Tensor::from(std::vector<float>{-1e30F, -40, -3, -1, 0, 0.5F, 2, 40, 1e30F}, {1, 9});
  const Tensor wide = Tensor::full(x.shape(), 1e30, DType::f32, Device::cpu);
  for (const Operation* op : std::vector<const Operation*>{&gelu, &silu})
    for (const bool slope : {false, true}) {
      const std::vector<double> exact = curve(*op, slope, x, {}), far = curve(*op, slope, x, wide),
                                none = curve(*op, slope, x, Tensor::zeros(x.shape(), DType::f32, Device::cpu));
      for (std::size_t i = 0; i < exact.size(); ++i) {
        CHECK(std::abs(none[i] - exact[i]) <= 1e-6 * std::abs(exact[i]));
        CHECK(std::abs(far[i] - exact[i]) < 0.5);
      }
    }
}

TEST_CASE("curves of codes: halves differ from f32 by their rounding") {
  const Bound<Gelu> gelu{Gelu{}};
  const Tensor x = Tensor::from(std::vector<float>{-3, -1, -0.5F, 0, 0.25F, 1, 2}, {1, 7});
  const Tensor variance = Tensor::full(x.shape(), 0.125, DType::f32, Device::cpu);
  for (const bool slope : {false, true}) {
    const std::vector<double> half = curve(gelu, slope, x.to(DType::bf16), variance),
                              exact = curve(gelu, slope, x, variance);
    for (std::size_t i = 0; i < exact.size(); ++i) CHECK(std::abs(half[i] - exact[i]) <= 0x1p-8 * std::abs(exact[i]));
  }
}

TEST_CASE("curves of codes: slopes that are read off the output are quadratic, and have no bias at all") {
  const Bound<Tanh> tanh{Tanh{}};
  const Bound<Sigmoid> sigmoid{Sigmoid{}};
  for (const Operation* op : std::vector<const Operation*>{&tanh, &sigmoid})
    CHECK(bias(*op, true, 1, true) < 1e-3 * bias(*op, true, 1, false));  // 64 errors in place of all
}

}  // namespace lacuna
