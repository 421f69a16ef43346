// BERT (Devlin et al. 2019), DistilBERT (Sanh et al. 2019), RoBERTa (Liu et al. 2019) and XLM-RoBERTa (Conneau et al.
// 2020) as transformers has them, with its parameter names.
#pragma once

#include "models/text_encoder.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/norm.h"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// Names of parameters, relative to `base` or to a layer, and the hyper-parameter of the tokens' width.
struct TextNames {
  std::string_view width;
  std::string_view base, layers;
  std::string_view query, key, value, attention_output, attention_norm, fc1, fc2, output_norm;
  std::string_view mlm_dense, mlm_norm, mlm_bias;  // from the root, as those below
  std::string_view class_dense, class_output;      // of `classification`
  // Modules: those of a masked language model alone, the one with class_dense, and a pooler that files may have.
  std::array<std::string_view, 3> mlm_modules;
  std::string_view class_module, pooler{};
};

struct BertOptions : TextEncoderOptions {
  TextNames names;
  bool has_types = true;
  bool has_tanh = true;             // behind class_dense; ReLU without
  bool drops_before_dense = false;  // dropout before class_dense too
  bool drops_before_span = false;   // the same before the head of `span`
  std::int64_t first_position = 0;  // row of the table of positions for the first token
  std::int64_t types = 2;
  nn::Activation activation = nn::Activation::gelu, mlm_activation = nn::Activation::gelu;
  double dropout = 0.1;

  std::int64_t most_tokens() const { return positions - first_position; }  // of a sequence
};

/// Inputs `tokens` i64 and `token_types` i64 (absent: all 0) as `sequences_of` has it.
///
/// Outputs by head: classification `logits` [N, num_classes]; tokens `logits` [M, num_classes]; span `logits`
/// [1, T, 2]; masked_lm `hidden` [1, M, hidden_size], `decoder_weight` and `decoder_bias`, whose products are the
/// logits; embedding `embeddings` [N, hidden_size]. M is the number of tokens that the input `rows` i64 [M] names, or
/// T without it.
///
/// Activations are [1, T, C]: matrix products see the tokens of all sequences at once, attention each sequence by
/// itself. Padding is computed but never attended to. A head that reads first tokens alone has them alone as queries
/// of the last layer, and everything behind that attention is computed for them only.
class Bert final : public Model {
 public:
  Bert(const ModelContext& context, const BertOptions& options);
  ~Bert() override;
  Outputs forward(Inputs inputs) override;

 private:
  class Layer;
  struct Embeddings;
  struct Layout;

  Variable encode(Inputs& inputs, const Layout& layout) const;
  bool reads_first_tokens() const;

  BertOptions options_;
  std::unique_ptr<Embeddings> embeddings_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::optional<nn::Dropout> dense_dropout_;
  std::optional<nn::Linear> class_dense_;
  nn::Dropout head_dropout_;
  std::optional<nn::Linear> classifier_;  // or qa_outputs
  std::optional<nn::Linear> mlm_dense_;
  std::optional<nn::LayerNorm> mlm_norm_;
  std::optional<Parameter> mlm_bias_;
};

}  // namespace lacuna
