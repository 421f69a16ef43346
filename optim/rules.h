// Settings of the optimizers, and the formula of an update (optim/formulas.h) that follows from them and the step: the
// same on every device.
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

// A rule makes the formula of update number `step`, from 1, of a parameter. `states`: how many the formula takes.

struct SgdRule {
  static constexpr int states = 0;
  LACUNA_HOST_DEVICE formula::SgdStep operator()(const Rate& rate, formula::CountedGradient counted,
                                                 std::int64_t) const {
    return {counted, static_cast<float>(rate.lr), static_cast<float>(rate.weight_decay)};
  }
};

template <bool nesterov>
struct SgdMomentumRule {
  static constexpr int states = 1;
  float momentum;
  LACUNA_HOST_DEVICE formula::SgdMomentumStep<nesterov> operator()(const Rate& rate, formula::CountedGradient counted,
                                                                   std::int64_t) const {
    return {counted, static_cast<float>(rate.lr), static_cast<float>(rate.weight_decay), momentum};
  }
};

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
  AdamSettings settings;
  LACUNA_HOST_DEVICE formula::AdamStep operator()(const Rate& rate, formula::CountedGradient counted,
                                                  std::int64_t step) const {
    return {.counted = counted,
            .moments = adam_moments(settings, step),
            .lr = static_cast<float>(rate.lr),
            .coupled_decay = settings.decoupled ? 0 : static_cast<float>(rate.weight_decay),
            .decay = settings.decoupled ? static_cast<float>(1 - rate.lr * rate.weight_decay) : 1};
  }
};

struct AdanRule {
  static constexpr int states = 4;
  AdanSettings settings;
  LACUNA_HOST_DEVICE formula::AdanStep operator()(const Rate& rate, formula::CountedGradient counted,
                                                  std::int64_t step) const {
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

struct LionRule {
  static constexpr int states = 1;
  LionSettings settings;
  LACUNA_HOST_DEVICE formula::LionStep operator()(const Rate& rate, formula::CountedGradient counted,
                                                  std::int64_t) const {
    return {.counted = counted,
            .lr = static_cast<float>(rate.lr),
            .decay = static_cast<float>(1 - rate.lr * rate.weight_decay),
            .take1 = static_cast<float>(1 - settings.beta1),
            .take2 = static_cast<float>(1 - settings.beta2)};
  }
};

struct AdagradRule {
  static constexpr int states = 1;
  AdagradSettings settings;
  LACUNA_HOST_DEVICE formula::AdagradStep operator()(const Rate& rate, formula::CountedGradient counted,
                                                     std::int64_t step) const {
    return {.counted = counted,
            .lr = static_cast<float>(rate.lr / (1 + static_cast<double>(step - 1) * settings.lr_decay)),
            .weight_decay = static_cast<float>(rate.weight_decay),
            .eps = static_cast<float>(settings.eps)};
  }
};

/// The first half of LAMB.
struct LambRule {
  static constexpr int states = 2;
  LambSettings settings;
  LACUNA_HOST_DEVICE formula::LambUpdate operator()(const Rate& rate, formula::CountedGradient counted,
                                                    std::int64_t step) const {
    return {.counted = counted,
            .moments = adam_moments(settings.adam, step),
            .weight_decay = static_cast<float>(rate.weight_decay)};
  }
  /// Whether the step depends on the norms of the parameter and of its update.
  LACUNA_HOST_DEVICE bool adapts(const Rate& rate) const { return rate.weight_decay != 0 || settings.always_adapt; }
  /// The second half. `weights`, `updates`: Σ x² of both, if it adapts.
  LACUNA_HOST_DEVICE formula::LambApply apply(const Rate& rate, double weights, double updates) const {
    double ratio = adapts(rate) && weights > 0 && updates > 0 ? std::sqrt(weights / updates) : 1;
    if (settings.trust_clip && ratio > 1) ratio = 1;
    return {static_cast<float>(rate.lr * ratio)};
  }
};

/// torch.optim.Muon's, for the matrices of hidden layers.
struct MuonSettings {
  double momentum = 0.95, eps = 1e-7;
  bool nesterov = true;
};
struct MuonMomentumRule {
  static constexpr int states = 1;
  static constexpr bool writes_gradient = true;
  MuonSettings settings;
  LACUNA_HOST_DEVICE formula::MuonMomentum operator()(const Rate&, formula::CountedGradient counted,
                                                      std::int64_t) const {
    const auto take = static_cast<float>(1 - settings.momentum);
    return {.counted = counted, .take = take, .ahead = settings.nesterov ? take : 0};
  }
};
LACUNA_RULE(MuonMomentumRule)

struct MuonNormalizeRule {
  static constexpr int states = 0;
  static constexpr bool writes_gradient = true, continues = true;
  MuonSettings settings;
  const double* square;  // [], on the device: Σ x² of the direction
  LACUNA_HOST_DEVICE formula::MuonNormalize operator()(const Rate&, formula::CountedGradient, std::int64_t) const {
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

  /// Of update number `step`.
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
  LACUNA_HOST_DEVICE formula::CountGradient operator()(const Rate&, formula::CountedGradient counted,
                                                       std::int64_t) const {
    return {counted};
  }
};
LACUNA_RULE(CountGradientRule)

/// The first pass of a vector.
struct AdafactorMomentRule {
  static constexpr int states = 1;
  static constexpr bool writes_gradient = true;
  AdafactorSettings settings;
  LACUNA_HOST_DEVICE formula::AdafactorMoment operator()(const Rate&, formula::CountedGradient counted,
                                                         std::int64_t step) const {
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
