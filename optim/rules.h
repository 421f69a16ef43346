// Settings of the optimizers, and the formulas of their updates: the same on every device.
#pragma once

#include "optim/formulas.h"
#include "optim/rate.h"

#include <cmath>
#include <cstdint>

// LACUNA_RULE(R) registers the kernels of a rule. rules.cpp, rules.cu and rules_cuda.cpp define it before they include
// this file.
#ifndef LACUNA_RULE
#define LACUNA_RULE(...)
#endif

namespace lacuna {

struct SgdSettings {
  float momentum = 0;
  bool nesterov = false;
};
struct AdamSettings {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  bool decoupled = false;  // AdamW
};
struct AdanSettings {
  double beta1 = 0.98, beta2 = 0.92, beta3 = 0.99, eps = 1e-8;
  bool no_prox = false;
};
struct LionSettings {
  double beta1 = 0.9, beta2 = 0.99;
};
struct AdagradSettings {
  double lr_decay = 0, eps = 1e-10;
};
struct LambSettings {
  AdamSettings adam{};
  bool trust_clip = false, always_adapt = false;
};

// A rule makes the formula of update number `step`, from 1, of a parameter: a functor on one element,
// as a rule its `Step`. `states` is the number of states that the formula takes. `writes_gradient`, `continues` and `of`
// are explained in optim/rate.h.

struct SgdRule {
  static constexpr int states = 0;
  /// torch.optim.SGD without momentum: p ← p − lr·(g + λp).
  struct Step {
    formula::CountedGradient counted;
    float lr, weight_decay;
    LACUNA_HOST_DEVICE void operator()(float& parameter, float gradient) const {
      parameter -= lr * (counted(gradient) + weight_decay * parameter);
    }
  };
  LACUNA_HOST_DEVICE Step operator()(const Rate& rate, formula::CountedGradient counted, std::int64_t) const {
    return {counted, static_cast<float>(rate.lr), static_cast<float>(rate.weight_decay)};
  }
};
LACUNA_RULE(SgdRule)

template <bool nesterov>
struct SgdMomentumRule {
  static constexpr int states = 1;
  /// torch.optim.SGD with momentum μ and dampening 0: b ← μb + d with d = g + λp,
  /// then p ← p − lr·b, or p ← p − lr·(d + μb) in Nesterov's form.
  struct Step {
    formula::CountedGradient counted;
    float lr, weight_decay, momentum;
    LACUNA_HOST_DEVICE void operator()(float& parameter, float gradient, float& buffer) const {
      const float direction = counted(gradient) + weight_decay * parameter;
      const float moved = momentum * buffer + direction;
      buffer = moved;
      parameter -= lr * (nesterov ? direction + momentum * moved : moved);
    }
  };
  float momentum;
  LACUNA_HOST_DEVICE Step operator()(const Rate& rate, formula::CountedGradient counted, std::int64_t) const {
    return {counted, static_cast<float>(rate.lr), static_cast<float>(rate.weight_decay), momentum};
  }
};
LACUNA_RULE(SgdMomentumRule<false>)
LACUNA_RULE(SgdMomentumRule<true>)

/// Calls `f(rule)`.
template <class F>
void with_sgd_rule(const SgdSettings& settings, const F& f) {
  if (settings.momentum == 0)
    f(SgdRule{});
  else if (settings.nesterov)
    f(SgdMomentumRule<true>{settings.momentum});
  else
    f(SgdMomentumRule<false>{settings.momentum});
}

LACUNA_HOST_DEVICE inline formula::AdamMoments adam_moments(const AdamSettings& settings, std::int64_t step) {
  const auto t = static_cast<double>(step);
  return {.take1 = static_cast<float>(1 - settings.beta1),
          .beta2 = static_cast<float>(settings.beta2),
          .take2 = static_cast<float>(1 - settings.beta2),
          .eps = static_cast<float>(settings.eps),
          .correction = static_cast<float>(1 / (1 - std::pow(settings.beta1, t))),
          .root_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(settings.beta2, t)))};
}

struct AdamRule {
  static constexpr int states = 2;
  /// torch.optim.Adam with λ in the gradient; torch.optim.AdamW (Loshchilov and
  /// Hutter 2019, algorithm 2) with the decoupled decay 1 − lr·λ.
  struct Step {
    formula::CountedGradient counted;
    formula::AdamMoments moments;
    float lr;
    float coupled_decay;  // λ of Adam, 0 of AdamW
    float decay;          // 1 of Adam, 1 − lr·λ of AdamW
    LACUNA_HOST_DEVICE void operator()(float& parameter, float gradient, float& average, float& square_average) const {
      const float g = counted(gradient) + coupled_decay * parameter;
      parameter = decay * parameter - lr * moments(g, average, square_average);
    }
  };
  AdamSettings settings;
  LACUNA_HOST_DEVICE Step operator()(const Rate& rate, formula::CountedGradient counted, std::int64_t step) const {
    return {.counted = counted,
            .moments = adam_moments(settings, step),
            .lr = static_cast<float>(rate.lr),
            .coupled_decay = settings.decoupled ? 0 : static_cast<float>(rate.weight_decay),
            .decay = settings.decoupled ? static_cast<float>(1 - rate.lr * rate.weight_decay) : 1};
  }
};
LACUNA_RULE(AdamRule)

struct AdanRule {
  static constexpr int states = 4;
  /// Adan (Xie et al. 2022, algorithm 1) as implemented by its authors and timm:
  /// β is the share that is kept; decay by division, or with `no_prox` by 1 −
  /// lr·λ beforehand.
  struct Step {
    formula::CountedGradient counted;
    float take1, beta2, take2, beta3, take3, eps;  // take: 1 − β
    float mean_size;                               // lr / (1 − β1^t)
    float difference_size;                         // lr·β2 / (1 − β2^t)
    float root_correction;                         // 1 / √(1 − β3^t)
    float decay_before, decay_after;
    float has_previous;  // 0 in the first step, where the difference of gradients
                         // counts as 0
    LACUNA_HOST_DEVICE void operator()(float& parameter, float gradient, float& average, float& difference_average,
                                       float& square_average, float& previous) const {
      const float g = counted(gradient);
      const float difference = has_previous * (g - previous);
      const float ahead = g + beta2 * difference;
      const float m = average + take1 * (g - average);
      const float v = beta2 * difference_average + take2 * difference;
      const float n = beta3 * square_average + take3 * ahead * ahead;
      average = m;
      difference_average = v;
      square_average = n;
      previous = g;
      const float denominator = std::sqrt(n) * root_correction + eps;
      parameter = decay_after * (decay_before * parameter - (mean_size * m + difference_size * v) / denominator);
    }
  };
  AdanSettings settings;
  LACUNA_HOST_DEVICE Step operator()(const Rate& rate, formula::CountedGradient counted, std::int64_t step) const {
    const AdanSettings& s = settings;
    const auto t = static_cast<double>(step);
    const double decay = rate.lr * rate.weight_decay;
    return {.counted = counted,
            .take1 = static_cast<float>(1 - s.beta1),
            .beta2 = static_cast<float>(s.beta2),
            .take2 = static_cast<float>(1 - s.beta2),
            .beta3 = static_cast<float>(s.beta3),
            .take3 = static_cast<float>(1 - s.beta3),
            .eps = static_cast<float>(s.eps),
            .mean_size = static_cast<float>(rate.lr / (1 - std::pow(s.beta1, t))),
            .difference_size = static_cast<float>(rate.lr * s.beta2 / (1 - std::pow(s.beta2, t))),
            .root_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(s.beta3, t))),
            .decay_before = s.no_prox ? static_cast<float>(1 - decay) : 1,
            .decay_after = s.no_prox ? 1 : static_cast<float>(1 / (1 + decay)),
            .has_previous = step == 1 ? 0.0F : 1.0F};
  }
};
LACUNA_RULE(AdanRule)

struct LionRule {
  static constexpr int states = 1;
  /// Lion (Chen et al. 2023, algorithm 2): p ← (1 − lr·λ)·p − lr·sign(β1·m + (1 −
  /// β1)·g), then m ← β2·m + (1 − β2)·g.
  struct Step {
    formula::CountedGradient counted;
    float lr, decay, take1, take2;  // take: 1 − β
    LACUNA_HOST_DEVICE void operator()(float& parameter, float gradient, float& average) const {
      const float g = counted(gradient);
      const float direction = average + take1 * (g - average);
      const float sign = direction > 0 ? 1.0F : direction < 0 ? -1.0F : direction;  // NaN stays NaN
      parameter = decay * parameter - lr * sign;
      average += take2 * (g - average);
    }
  };
  LionSettings settings;
  LACUNA_HOST_DEVICE Step operator()(const Rate& rate, formula::CountedGradient counted, std::int64_t) const {
    return {.counted = counted,
            .lr = static_cast<float>(rate.lr),
            .decay = static_cast<float>(1 - rate.lr * rate.weight_decay),
            .take1 = static_cast<float>(1 - settings.beta1),
            .take2 = static_cast<float>(1 - settings.beta2)};
  }
};
LACUNA_RULE(LionRule)

struct AdagradRule {
  static constexpr int states = 1;
  /// torch.optim.Adagrad (Duchi et al. 2011): s ← s + d² with d = g + λp, then p ← p − lr·d / (√s + ε).
  struct Step {
    formula::CountedGradient counted;
    float lr, weight_decay, eps;
    LACUNA_HOST_DEVICE void operator()(float& parameter, float gradient, float& sum) const {
      const float d = counted(gradient) + weight_decay * parameter;
      const float s = sum + d * d;
      sum = s;
      parameter -= lr * d / (std::sqrt(s) + eps);
    }
  };
  AdagradSettings settings;
  LACUNA_HOST_DEVICE Step operator()(const Rate& rate, formula::CountedGradient counted, std::int64_t step) const {
    return {.counted = counted,
            .lr = static_cast<float>(rate.lr / (1 + static_cast<double>(step - 1) * settings.lr_decay)),
            .weight_decay = static_cast<float>(rate.weight_decay),
            .eps = static_cast<float>(settings.eps)};
  }
};
LACUNA_RULE(AdagradRule)

/// The first pass of LAMB.
struct LambRule {
  static constexpr int states = 2;
  static constexpr bool writes_gradient = true;
  /// First half of LAMB (You et al. 2020, algorithm 2): the update m̂ / (√v̂ + ε) +
  /// λp, stored in the gradient's memory until its norm is known.
  struct Step {
    formula::CountedGradient counted;
    formula::AdamMoments moments;
    float weight_decay;
    LACUNA_HOST_DEVICE void operator()(float& parameter, float& gradient, float& average, float& square_average) const {
      gradient = moments(counted(gradient), average, square_average) + weight_decay * parameter;
    }
  };
  LambSettings settings;
  LACUNA_HOST_DEVICE Step operator()(const Rate& rate, formula::CountedGradient counted, std::int64_t step) const {
    return {.counted = counted,
            .moments = adam_moments(settings.adam, step),
            .weight_decay = static_cast<float>(rate.weight_decay)};
  }
};
LACUNA_RULE(LambRule)

struct LambApplyRule {
  static constexpr int states = 0;
  static constexpr bool continues = true;
  /// Second half: p ← p − size·u.
  struct Step {
    float size;  // lr times the trust ratio
    LACUNA_HOST_DEVICE void operator()(float& parameter, float update) const { parameter -= size * update; }
  };
  LambSettings settings;
  const double* squares;  // [parameters, 2], on the device: Σ x² of each parameter and its update, where it adapts

  LACUNA_HOST_DEVICE LambApplyRule of(std::int64_t parameter) const { return {settings, squares + 2 * parameter}; }
  /// Whether the step depends on the norms of the parameter and of its update.
  LACUNA_HOST_DEVICE bool adapts(const Rate& rate) const { return rate.weight_decay != 0 || settings.always_adapt; }
  LACUNA_HOST_DEVICE Step operator()(const Rate& rate, formula::CountedGradient, std::int64_t) const {
    double ratio = adapts(rate) && squares[0] > 0 && squares[1] > 0 ? std::sqrt(squares[0] / squares[1]) : 1;
    if (settings.trust_clip && ratio > 1) ratio = 1;
    return {static_cast<float>(rate.lr * ratio)};
  }
};
LACUNA_RULE(LambApplyRule)

/// torch.optim.Muon's, for the matrices of hidden layers.
struct MuonSettings {
  double momentum = 0.95, eps = 1e-7;
  bool nesterov = true;
};
struct MuonMomentumRule {
  static constexpr int states = 1;
  static constexpr bool writes_gradient = true;
  /// First pass of torch.optim.Muon: b ← μb + (1 − μ)g; the direction, b or in Nesterov's form μb + (1 − μ)g, is stored
  /// in the gradient's memory.
  struct Step {
    formula::CountedGradient counted;
    float take;   // 1 − μ
    float ahead;  // 1 − μ in Nesterov's form, otherwise 0
    LACUNA_HOST_DEVICE void operator()(float&, float& gradient, float& buffer) const {
      const float g = counted(gradient);
      const float moved = buffer + take * (g - buffer);
      buffer = moved;
      gradient = moved + ahead * (g - moved);
    }
  };
  MuonSettings settings;
  LACUNA_HOST_DEVICE Step operator()(const Rate&, formula::CountedGradient counted, std::int64_t) const {
    const auto take = static_cast<float>(1 - settings.momentum);
    return {.counted = counted, .take = take, .ahead = settings.nesterov ? take : 0};
  }
};
LACUNA_RULE(MuonMomentumRule)

struct MuonNormalizeRule {
  static constexpr int states = 0;
  static constexpr bool writes_gradient = true, continues = true;
  /// Second pass: the direction is divided by its norm.
  struct Step {
    float factor;
    LACUNA_HOST_DEVICE void operator()(float&, float& direction) const { direction *= factor; }
  };
  MuonSettings settings;
  const double* square;  // [], on the device: Σ x² of the direction
  LACUNA_HOST_DEVICE Step operator()(const Rate&, formula::CountedGradient, std::int64_t) const {
    const double norm = std::sqrt(*square);
    return {static_cast<float>(1 / (norm < settings.eps ? settings.eps : norm))};
  }
};
LACUNA_RULE(MuonNormalizeRule)

struct MuonApplyRule {
  static constexpr int states = 0;
  static constexpr bool continues = true;
  double lr_ratio;  // by the matrix's shape
  LACUNA_HOST_DEVICE formula::DecayedStep operator()(const Rate& rate, formula::CountedGradient, std::int64_t) const {
    return {.decay = static_cast<float>(1 - rate.lr * rate.weight_decay),
            .size = static_cast<float>(rate.lr * lr_ratio)};
  }
};
LACUNA_RULE(MuonApplyRule)

/// transformers.Adafactor's.
struct AdafactorSettings {
  double eps = 1e-30, eps_scale = 1e-3, clip_threshold = 1, decay_rate = -0.8, beta1 = 0;
  bool scale_parameter = true, relative_step = false, warmup_init = false;

  /// The values of update number `step`.
  LACUNA_HOST_DEVICE formula::FactoredMoment moment(std::int64_t step) const {
    const double take = std::pow(static_cast<double>(step), decay_rate);
    return {.keep = static_cast<float>(1 - take), .take = static_cast<float>(take)};
  }
  LACUNA_HOST_DEVICE double relative_rate(std::int64_t step) const {
    const auto t = static_cast<double>(step);
    const double most = warmup_init ? 1e-6 * t : 1e-2, by_root = 1 / std::sqrt(t);
    return most < by_root ? most : by_root;
  }
};
/// The first pass of a matrix, whose moments kernels of their own compute (optim/adafactor_kernels.h).
struct CountGradientRule {
  static constexpr int states = 0;
  static constexpr bool writes_gradient = true;
  /// The counted gradient takes the place of the stored one.
  struct Step {
    formula::CountedGradient counted;
    LACUNA_HOST_DEVICE void operator()(float&, float& gradient) const { gradient = counted(gradient); }
  };
  LACUNA_HOST_DEVICE Step operator()(const Rate&, formula::CountedGradient counted, std::int64_t) const {
    return {counted};
  }
};
LACUNA_RULE(CountGradientRule)

/// The first pass of a vector.
struct AdafactorMomentRule {
  static constexpr int states = 1;
  static constexpr bool writes_gradient = true;
  /// Adafactor (Shazeer and Stern 2018) as transformers.Adafactor, for a vector: v ← βv + (1 − β)(g² + ε), and the
  /// update g / √v is stored in the gradient's memory.
  struct Step {
    formula::CountedGradient counted;
    float keep, take, eps;  // take: 1 − keep
    LACUNA_HOST_DEVICE void operator()(float&, float& gradient, float& square_average) const {
      const float g = counted(gradient);
      const float v = keep * square_average + take * (g * g + eps);
      square_average = v;
      gradient = g / std::sqrt(v);
    }
  };
  AdafactorSettings settings;
  LACUNA_HOST_DEVICE Step operator()(const Rate&, formula::CountedGradient counted, std::int64_t step) const {
    const formula::FactoredMoment moment = settings.moment(step);
    return {.counted = counted, .keep = moment.keep, .take = moment.take, .eps = static_cast<float>(settings.eps)};
  }
};
LACUNA_RULE(AdafactorMomentRule)

/// The last pass. `has_momentum`: with the running mean of updates as a state.
template <bool has_momentum>
struct AdafactorApplyRule {
  static constexpr int states = has_momentum ? 1 : 0;
  static constexpr bool continues = true;
  AdafactorSettings settings;
  const double* squares;  // [2], on the device: Σ x² of the update and of the parameter
  double count;           // of their elements
  LACUNA_HOST_DEVICE auto operator()(const Rate& rate, formula::CountedGradient, std::int64_t step) const {
    const double update = std::sqrt(squares[0] / count), parameter = std::sqrt(squares[1] / count);
    double lr = rate.lr;
    if (settings.relative_step) lr *= settings.relative_rate(step);
    if (settings.scale_parameter) lr *= parameter < settings.eps_scale ? settings.eps_scale : parameter;
    const double excess = update / settings.clip_threshold;
    const auto decay = static_cast<float>(1 - lr * rate.weight_decay);
    const auto size = static_cast<float>(excess > 1 ? lr / excess : lr);
    if constexpr (has_momentum)
      return formula::AdafactorMomentumStep{.decay = decay,
                                            .size = size,
                                            .keep = static_cast<float>(settings.beta1),
                                            .take = static_cast<float>(1 - settings.beta1)};
    else
      return formula::DecayedStep{.decay = decay, .size = size};
  }
};
LACUNA_RULE(AdafactorApplyRule<false>)
LACUNA_RULE(AdafactorApplyRule<true>)

}  // namespace lacuna
