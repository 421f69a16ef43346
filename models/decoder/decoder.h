// Decoder language models as transformers has them (Llama, Mistral, Qwen, Gemma, Phi, GPT-2, GPT-NeoX, BLOOM, Falcon,
// ChatGLM, SmolLM, OLMo 2): one implementation with options, under Llama's names of parameters.
#pragma once

#include "models/decoder/options.h"
#include "models/language_model.h"
#include "nn/dropout.h"
#include "nn/norm.h"
#include "ops/shapes/sequences.h"

#include <memory>
#include <optional>
#include <vector>

namespace lacuna {

/// Input `tokens` i64 as `sequences_of` has it, and `rows`; outputs as LanguageModel has them.
///
/// Activations are [1, T, C]: products see the tokens of all sequences at once, attention each sequence by itself, with
/// positions that restart in each. The last norm is computed for the rows alone that are asked for.
class Decoder final : public LanguageModel {
 public:
  Decoder(const ModelContext& context, const DecoderOptions& options);
  ~Decoder() override;
  Outputs forward(Inputs inputs) override;

  std::int64_t layers() const override { return options_.layers; }
  std::int64_t positions() const override { return options_.positions_count; }
  double soft_cap() const override { return options_.soft_cap; }
  TiedHead tied_head() const override {
    return options_.tied ? TiedHead{"lm_head.weight", "model.embed_tokens.weight"} : TiedHead{};
  }
  Tensor read(std::span<const std::int64_t> tokens, KeyValueCache& cache) override;
  std::int64_t short_length() const override {
    return options_.scaling.kind == RotaryScaling::Kind::longrope ? options_.scaling.original_positions : 0;
  }

 private:
  class Layer;
  class Norm;
  struct Layout;

  /// The layout of sequences; of one whose rows follow those in `cache`, unless that is null.
  Layout layout_of(const SequencesPtr& sequences, KeyValueCache* cache);
  /// tokens of T elements to [1, T, C], before the last norm.
  Variable encode(Variable tokens, const Layout& layout) const;
  Outputs outputs_of(Variable x) const;

  DecoderOptions options_;
  Parameter words_;
  std::optional<Parameter> positions_;
  std::unique_ptr<Norm> embedding_norm_;  // null if there is none
  nn::Dropout embedding_dropout_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::unique_ptr<Norm> norm_;
  std::optional<Parameter> head_, head_bias_;
  RotaryTables tables_;
};

}  // namespace lacuna
