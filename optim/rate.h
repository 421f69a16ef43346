// The vocabulary of update rules (optim/rules.h) and of the kernels that run them.
#pragma once

#include "core/random.h"

#include <cstdint>

namespace lacuna {

/// The rates of one parameter.
struct Rate {
  double lr, weight_decay;
};

/// Whether the formula of a rule stores its result in the gradient's memory (Dong and Lin 2024, section 3.1).
template <class Rule>
inline constexpr bool writes_gradient = requires {
  requires Rule::writes_gradient;
};

/// Whether a rule is a later pass of an update that an earlier rule has counted.
template <class Rule>
inline constexpr bool continues = requires {
  requires Rule::continues;
};

/// The rule for one of the parameters of a pass, where it differs between them.
template <class Rule>
LACUNA_HOST_DEVICE Rule rule_of(const Rule& rule, std::int64_t parameter) {
  if constexpr (requires { rule.of(parameter); })
    return rule.of(parameter);
  else
    return rule;
}

/// Key of the draws that round the states in update number `step` of a parameter; state k has key + k.
LACUNA_HOST_DEVICE inline std::uint64_t state_key(std::uint64_t seed, std::int64_t step, std::uint32_t site) {
  const auto drawn = RandomStream{.seed = seed, .step = static_cast<std::uint32_t>(step), .site = site}.draw(0);
  return std::uint64_t{drawn[0]} << 32 | drawn[1];
}
/// Added to the key: of the draws that round a parameter to bf16.
inline constexpr std::uint64_t parameter_key = 7;
/// The key in a pass by `Rule`. A later pass has states of its own, and so other draws.
template <class Rule>
LACUNA_HOST_DEVICE std::uint64_t key_of_pass(std::uint64_t seed, std::int64_t step, std::uint32_t site) {
  return state_key(seed, step, site) + (continues<Rule> ? 8 : 0);
}

}  // namespace lacuna
