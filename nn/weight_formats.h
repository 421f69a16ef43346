// The storage of parameters in few bits: `freeze.weights`, and `train.weights` of those that are trained.
#pragma once

#include "nn/module.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// The types of `freeze.weights`: f32, bf16, int8, nf4, int4.
const std::vector<std::string>& weight_types();

/// Whether a parameter is large enough for few bits, and read by ops that decode it.
bool may_be_coded(const Parameter& parameter);

/// In place of rules: the types that a memory budget needs, which is settled before a model is built.
inline constexpr std::string_view automatic_weights = "auto";

/// Elements below which a parameter stays f32.
inline constexpr std::int64_t fewest_coded_elements = 4096;

/// Each is a type, or `PATTERN=TYPE` for the parameters that the pattern matches; the first that matches applies.
struct WeightRules {
  std::span<const std::string> rules;
  std::string_view key = "freeze.weights";  // for messages
};
/// The formats of the frozen parameters of `model` which may be in few bits: by `rules`, and where none matches by
/// `stored`, the formats of a file. Rules that are none, and patterns without such a parameter, are input errors.
WeightFormats weight_formats(const Module& model, const WeightRules& rules, const WeightFormats& stored = {});
/// The formats of the trained parameters of `model` in bf16: `train.weights`. Refuses a model without one.
WeightFormats trained_formats(const Module& model);
/// Refuses rules that are none.
void check_weight_rules(const WeightRules& rules);

/// The name of a tensor's type: as name_of, or the code of a coded one, as `nf4`.
std::string_view type_name(const Tensor& tensor);

}  // namespace lacuna
