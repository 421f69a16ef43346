// The graph of a reference file as a batch.
#pragma once

#include "data/batch.h"
#include "models/io/safetensors.h"

namespace lacuna {

/// Whether the file is of a graph network: it has `input/edges`.
bool has_reference_graph(const SafetensorsFile& file);

/// `input/features` f32 [V, F], `input/edges` i64 [2, E] (from, to), `input/train_mask` u8 [V], `target` i64 [V] or f32
/// [V, C] as a batch of one graph, whose nodes are those of the mask.
Batch load_reference_graph(const SafetensorsFile& file);

}  // namespace lacuna
