// Gradient space reuse (Dong and Lin 2024): the unfused optimizers of their section 3, which need a temporary of a
// parameter's size, their -R versions, which do not, and the fused kernels here have the same trajectory.
#include "optim/optimizer.h"
#include "tests/optim/two_parameters.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

using namespace lacuna;

namespace {

/// A vector of a parameter's size. Reuse avoids those that are allocated within a step.
class Values {
 public:
  explicit Values(std::size_t size) : values_(size) { ++made; }
  double& operator[](std::size_t i) { return values_[i]; }
  std::size_t size() const { return values_.size(); }
  static inline int made = 0;

 private:
  std::vector<double> values_;
};

/// values[i] ← f(i): one pass over memory, as in an unfused library.
template <class F>
void assign(Values& values, const F& f) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = f(i);
}

struct State {
  explicit State(std::size_t size) : g(size), previous(size), m(size), v(size), n(size) {}
  Values g, previous, m, v, n;
};

constexpr double lr = 0.01, decay = 0.1, eps = 1e-8;

/// A step `t`, from 1, of parameters by the gradient in `state.g`.
using Step = std::function<void(Values& p, State& s, int t)>;

namespace reference {

constexpr double beta1 = 0.9, beta2 = 0.999;

void adamw(Values& p, State& s, int t) {
  assign(s.m, [&](auto i) { return beta1 * s.m[i] + (1 - beta1) * s.g[i]; });
  assign(s.v, [&](auto i) { return beta2 * s.v[i] + (1 - beta2) * s.g[i] * s.g[i]; });
  assign(p, [&](auto i) { return p[i] - decay * lr * p[i]; });
  Values denominator(p.size());
  assign(denominator, [&](auto i) { return std::sqrt(s.v[i] / (1 - std::pow(beta2, t))) + eps; });
  assign(p, [&](auto i) { return p[i] - lr / (1 - std::pow(beta1, t)) * s.m[i] / denominator[i]; });
}

/// Algorithm 1: the denominator overwrites the gradient.
void adamw_r(Values& p, State& s, int t) {
  assign(s.m, [&](auto i) { return beta1 * s.m[i] + (1 - beta1) * s.g[i]; });
  assign(s.v, [&](auto i) { return beta2 * s.v[i] + (1 - beta2) * s.g[i] * s.g[i]; });
  assign(p, [&](auto i) { return p[i] - decay * lr * p[i]; });
  assign(s.g, [&](auto i) { return std::sqrt(s.v[i] / (1 - std::pow(beta2, t))) + eps; });
  assign(p, [&](auto i) { return p[i] - lr / (1 - std::pow(beta1, t)) * s.m[i] / s.g[i]; });
}

// The paper's β of Adan is 1 − β of its authors' code. Algorithm 2 omits the bias corrections, which both
// implementations have, and decays before the update (`no_prox`).
constexpr double share1 = 0.02, share2 = 0.08, share3 = 0.01;
double corrected(double share, int t) { return 1 - std::pow(1 - share, t); }

void adan(Values& p, State& s, int t) {
  if (t == 1) assign(s.previous, [&](auto i) { return s.g[i]; });
  assign(s.m, [&](auto i) { return (1 - share1) * s.m[i] + share1 * s.g[i]; });
  assign(s.v, [&](auto i) { return (1 - share2) * s.v[i] + share2 * (s.g[i] - s.previous[i]); });
  assign(s.n, [&](auto i) {
    const double ahead = s.g[i] + (1 - share2) * (s.g[i] - s.previous[i]);
    return (1 - share3) * s.n[i] + share3 * ahead * ahead;
  });
  Values denominator(p.size());
  assign(denominator, [&](auto i) { return std::sqrt(s.n[i] / corrected(share3, t)) + eps; });
  assign(p, [&](auto i) {
    const double update = s.m[i] / corrected(share1, t) + (1 - share2) * s.v[i] / corrected(share2, t);
    return (1 - lr * decay) * p[i] - lr * update / denominator[i];
  });
  assign(s.previous, [&](auto i) { return s.g[i]; });
}

/// Algorithm 2: difference, combination and denominator overwrite the previous gradient; then the gradient takes its
/// place.
void adan_r(Values& p, State& s, int t) {
  if (t == 1) assign(s.previous, [&](auto i) { return s.g[i]; });
  assign(s.m, [&](auto i) { return (1 - share1) * s.m[i] + share1 * s.g[i]; });
  assign(s.previous, [&](auto i) { return s.g[i] - s.previous[i]; });
  assign(s.v, [&](auto i) { return (1 - share2) * s.v[i] + share2 * s.previous[i]; });
  assign(s.previous, [&](auto i) { return s.g[i] + (1 - share2) * s.previous[i]; });
  assign(s.n, [&](auto i) { return (1 - share3) * s.n[i] + share3 * s.previous[i] * s.previous[i]; });
  assign(s.previous, [&](auto i) { return std::sqrt(s.n[i] / corrected(share3, t)) + eps; });
  assign(p, [&](auto i) { return (1 - lr * decay) * p[i] - lr / corrected(share1, t) * s.m[i] / s.previous[i]; });
  assign(p, [&](auto i) { return p[i] - (1 - share2) * lr / corrected(share2, t) * s.v[i] / s.previous[i]; });
  std::swap(s.previous, s.g);
}

constexpr double lion_beta1 = 0.9, lion_beta2 = 0.99;
double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

void lion(Values& p, State& s, int) {
  Values direction(p.size());
  assign(direction, [&](auto i) { return lion_beta1 * s.m[i] + (1 - lion_beta1) * s.g[i]; });
  assign(s.m, [&](auto i) { return lion_beta2 * s.m[i] + (1 - lion_beta2) * s.g[i]; });
  assign(p, [&](auto i) { return (1 - decay * lr) * p[i] - lr * sign(direction[i]); });
}

/// Algorithm 3: the mean is updated first; the direction, computed from it, overwrites the gradient.
void lion_r(Values& p, State& s, int) {
  assign(s.m, [&](auto i) { return lion_beta2 * s.m[i] + (1 - lion_beta2) * s.g[i]; });
  assign(s.g, [&](auto i) { return lion_beta1 / lion_beta2 * s.m[i] + (1 - lion_beta1 / lion_beta2) * s.g[i]; });
  assign(p, [&](auto i) { return (1 - decay * lr) * p[i] - lr * sign(s.g[i]); });
}

void adagrad(Values& p, State& s, int) {
  assign(s.g, [&](auto i) { return s.g[i] + decay * p[i]; });
  assign(s.v, [&](auto i) { return s.v[i] + s.g[i] * s.g[i]; });
  Values denominator(p.size());
  assign(denominator, [&](auto i) { return std::sqrt(s.v[i]) + 1e-10; });
  assign(p, [&](auto i) { return p[i] - lr * s.g[i] / denominator[i]; });
}

/// The quotient overwrites the gradient.
void adagrad_r(Values& p, State& s, int) {
  assign(s.g, [&](auto i) { return s.g[i] + decay * p[i]; });
  assign(s.v, [&](auto i) { return s.v[i] + s.g[i] * s.g[i]; });
  assign(s.g, [&](auto i) { return s.g[i] / (std::sqrt(s.v[i]) + 1e-10); });
  assign(p, [&](auto i) { return p[i] - lr * s.g[i]; });
}

}  // namespace reference

/// Parameters after 20 steps, and the number of temporaries of one step.
std::pair<std::vector<double>, int> walk(const Step& step) {
  const std::vector<float> start = drawn(100, 24);
  Values p(start.size());
  assign(p, [&](auto i) { return static_cast<double>(start[i]); });
  State state(start.size());
  int temporaries = 0;
  for (int t = 1; t <= 20; ++t) {
    const std::vector<float> gradient = drawn(2 * t, 24);
    assign(state.g, [&](auto i) { return static_cast<double>(gradient[i]); });
    const int before = Values::made;
    step(p, state, t);
    temporaries = Values::made - before;
  }
  std::vector<double> values;
  for (std::size_t i = 0; i < p.size(); ++i) values.push_back(p[i]);
  return {values, temporaries};
}

std::vector<double> fused(std::string_view name, OptionValues settings) {
  settings["weight_decay"] = decay;
  TwoParameters model(Device::cpu, 4, 6);
  const auto optimizer = make_optimizer(name, settings, model);
  for (int t = 1; t <= 20; ++t) {
    model.set_gradients(t);  // the weight's equals `gradient` in walk
    optimizer->step(lr);
  }
  return model.weight.tensor().to_vector();
}

}  // namespace

TEST_CASE("fused steps and those with gradient space reuse equal the unfused ones, without temporaries") {
  struct Case {
    std::string_view name;
    OptionValues settings;
    Step unfused, reusing;
  };
  for (const Case& one : {Case{"adamw", {}, reference::adamw, reference::adamw_r},
                          Case{"adan", {{"no_prox", true}}, reference::adan, reference::adan_r},
                          Case{"lion", {}, reference::lion, reference::lion_r},
                          Case{"adagrad", {}, reference::adagrad, reference::adagrad_r}}) {
    INFO(one.name);
    const auto [unfused, temporaries] = walk(one.unfused);
    const auto [reusing, none] = walk(one.reusing);
    CHECK(temporaries == 1);
    CHECK(none == 0);
    const std::vector<double> values = fused(one.name, one.settings);
    for (std::size_t i = 0; i < values.size(); ++i) {
      CHECK(reusing[i] == doctest::Approx(unfused[i]).epsilon(1e-12));
      CHECK(values[i] == doctest::Approx(unfused[i]).epsilon(1e-6).scale(1));
    }
  }
}
