// ModernBERT (Warner et al. 2024) as transformers has it, with its parameter names.
#pragma once

#include "models/text_encoder.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "ops/attention/rotary_table.h"
#include "ops/curves/gated_activation.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lacuna {

struct ModernBertOptions : TextEncoderOptions {
  std::string hidden_activation = "gelu", classifier_activation = "gelu";
  bool norm_bias = false, attention_bias = false, mlp_bias = false, classifier_bias = false;
  double embedding_dropout = 0, mlp_dropout = 0;
  double initializer_cutoff = 2;       // in deviations
  std::int64_t global_every = 3;       // layers with a number divisible by it see all tokens, others a window
  std::int64_t local_attention = 128;  // tokens of that window, half of them on each side
  double global_theta = 160000, local_theta = 10000;
  std::string classifier_pooling = "cls";

  ModernBertOptions();
  static Fields fields();
  void check(HyperProblems& problems);

  bool windows(std::int64_t layer) const { return layer % global_every != 0; }
};

/// Input `tokens` i64 as `sequences_of` has it, and `rows`; outputs as Bert's.
///
/// Activations are [1, T, C]: products see the tokens of all sequences at once, attention each sequence by itself, with
/// positions that restart in each. A head that reads first tokens alone has them alone as queries of the last layer
/// where that has no window, and everything behind that attention is computed for them only.
class ModernBert final : public Model {
 public:
  ModernBert(const ModelContext& context, const ModernBertOptions& options);
  ~ModernBert() override;
  Outputs forward(Inputs inputs) override;

 private:
  class Layer;
  struct Layout;

  Layout layout_of(SequencesPtr sequences);
  bool reads_first_tokens() const;
  /// tokens [T] to [1, T, C], or to the first tokens [1, N, C].
  Variable encode(Variable tokens, const Layout& layout) const;
  /// x through the dense layer of a head, its activation and norm.
  Variable transform(Variable x) const;

  ModernBertOptions options_;
  Parameter words_;
  nn::LayerNorm embedding_norm_;
  nn::Dropout embedding_dropout_;
  std::vector<std::unique_ptr<Layer>> layers_;
  nn::LayerNorm final_norm_;
  std::optional<nn::Linear> dense_;
  std::optional<nn::LayerNorm> norm_;
  nn::Dropout head_dropout_;
  std::optional<nn::Linear> classifier_;
  std::optional<Parameter> decoder_bias_;
  RotaryTables tables_;
};

}  // namespace lacuna
