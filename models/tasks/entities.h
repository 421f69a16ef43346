// Metrics of named entities.
#pragma once

#include "models/task.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// `f1`, `precision` or `recall` over the entities of all types, from [found rightly, found, labelled]; nothing:
/// another name. An entity is found if its words and its type are.
std::optional<Metric> entity_metric(std::string_view name);
/// The three numbers of a batch, f64 [3]; `logits` [M, C] and `labels` i64 [M] are of the words of all sentences, which
/// end at `ends`.
Tensor entity_sums(std::span<const std::string> names, std::span<const std::int64_t> ends, const Tensor& logits,
                   const Tensor& labels);

}  // namespace lacuna
