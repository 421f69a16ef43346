// Labels of the tokens that follow, for tasks of language models.
#pragma once

#include "data/sample.h"
#include "models/tasks/text.h"
#include "ops/shapes/sequences.h"

#include <cstdint>
#include <vector>

namespace lacuna {

/// The field `labels`: of each token its own id where it counts, else no_label.
SampleField token_labels(const SampleField& tokens);

/// Whether a sample has two sequences, a chosen and a rejected one.
bool has_pairs(const DatasetInfo& data);

/// Rows of the tokens behind which one with a label stands in the same sequence, and these labels; `counts`, if given:
/// how many each sequence has. Where labels have no values, all but the last tokens.
LabelledTokens next_labels(const Sequences& sequences, const Tensor& labels, Device device,
                           std::vector<std::int64_t>* counts = nullptr);

}  // namespace lacuna
