// Settings of the optimizers, and the formula of an update (optim/formulas.h) that follows from them and the step: the
// same on every device.
#pragma once

#include "core/random.h"
#include "optim/formulas.h"

#include <cmath>
#include <cstdint>

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

/// The rates of one parameter.
struct Rate {
  double lr, weight_decay;
};

/// Key of the draws that round the states in update number `step` of a parameter; state k has key + k.
LACUNA_HOST_DEVICE inline std::uint64_t state_key(std::uint64_t seed, std::int64_t step, std::uint32_t site) {
  const auto drawn = RandomStream{.seed = seed, .step = static_cast<std::uint32_t>(step), .site = site}.draw(0);
  return std::uint64_t{drawn[0]} << 32 | drawn[1];
}

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

/// Settings of a dynamic loss scale.
struct LossScaleSettings {
  double initial = 65536;               // torch.amp.GradScaler's init_scale
  std::int64_t growth_interval = 2000;  // steps in a row with finite gradients after which it doubles
};
struct LossScaleState {
  float scale;
  std::int32_t good_steps;  // since it last changed
};
/// After a step whose gradients were finite or not.
LACUNA_HOST_DEVICE inline LossScaleState next_loss_scale(LossScaleState now, bool finite,
                                                         std::int64_t growth_interval) {
  if (!finite) return {now.scale / 2, 0};
  if (now.good_steps + 1 < growth_interval) return {now.scale, now.good_steps + 1};
  return {now.scale < 0x1p126F ? now.scale * 2 : now.scale, 0};
}

inline formula::AverageStep average_step(double decay) {
  return {.keep = static_cast<float>(decay), .take = static_cast<float>(1 - decay)};
}

}  // namespace lacuna
