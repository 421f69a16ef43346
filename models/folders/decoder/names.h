// The names of decoders' tensors in transformers' types.
#pragma once

#include "models/io/tensor_names.h"

namespace lacuna {

/// Llama's and those of the types that are like it: Mistral, Qwen, Gemma, SmolLM 3, OLMo 2, Phi-3.
extern const TensorNames llama_names;
extern const TensorNames phi_names;
extern const TensorNames gpt2_names;
extern const TensorNames gpt_neox_names;
extern const TensorNames bloom_names;
/// Falcon's with one norm in a layer, or two that follow each other.
extern const TensorNames falcon_names;
/// Falcon's with two norms side by side.
extern const TensorNames falcon_two_norms_names;
extern const TensorNames chatglm_names;

}  // namespace lacuna
