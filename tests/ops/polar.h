// An op with two outputs, for tests.
#pragma once

#include "core/op.h"
#include "core/parallel.h"
#include "ops/operand.h"

#include <cmath>

namespace lacuna {

/// u = radius · cos(angle), v = radius · sin(angle), element-wise, all of one shape and type.
struct PolarToCartesian {
  enum Input { radius, angle };
  enum Output { u, v };
  static constexpr std::string_view name = "polar_to_cartesian";
  static constexpr int outputs = 2;
  static constexpr std::array saves{Save{.from = input(angle), .need = Need::value, .for_grad_of = {radius}},
                                    Save{.from = nth_output(u), .need = Need::exact, .for_grad_of = {angle}},
                                    Save{.from = nth_output(v), .need = Need::exact, .for_grad_of = {angle}}};

  std::vector<Tensor> forward(std::span<const Tensor> inputs) const {
    std::vector<Tensor> results{empty_like(inputs[radius]), empty_like(inputs[radius])};
    write(
        results[u], [](auto r, auto a) { return r * std::cos(a); }, inputs[radius], inputs[angle]);
    write(
        results[v], [](auto r, auto a) { return r * std::sin(a); }, inputs[radius], inputs[angle]);
    return results;
  }
  // dradius = du · cos + dv · sin, dangle = dv · u − du · v
  void backward(std::vector<Tensor> dy, const Saved<PolarToCartesian>& saved, Grads& grads) const {
    const auto combine = [&](const auto& f, const Tensor& of_u, const auto& g, const Tensor& of_v) {
      const Tensor to = empty_like(dy[u].defined() ? dy[u] : dy[v]);
      if (dy[u].defined() && dy[v].defined())
        write(
            to, [&](auto du, auto x, auto dv, auto y) { return du * f(x) + dv * g(y); }, dy[u], of_u, dy[v], of_v);
      else if (dy[u].defined())
        write(
            to, [&](auto du, auto x) { return du * f(x); }, dy[u], of_u);
      else
        write(
            to, [&](auto dv, auto y) { return dv * g(y); }, dy[v], of_v);
      return to;
    };
    if (grads.wanted(radius)) {
      const Tensor at = saved.get<input(angle)>().whole();
      grads[radius] = combine([](auto a) { return std::cos(a); }, at, [](auto a) { return std::sin(a); }, at);
    }
    if (grads.wanted(angle))
      grads[angle] = combine([](auto y) { return -y; }, saved.get<nth_output(v)>().whole(), [](auto x) { return x; },
                             saved.get<nth_output(u)>().whole());
  }

 private:
  template <class F, class... In>
  static void write(const Tensor& to, const F& f, const In&... in) {
    if (to.device() == Device::meta) return;
    with_float_type(to.dtype(), [&]<class T>(Type<T>) { map(to.count(), f, to.data<T>(), in.template data<T>()...); });
  }
};

}  // namespace lacuna
