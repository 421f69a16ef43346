// BERT (Devlin et al. 2019), DistilBERT (Sanh et al. 2019), RoBERTa (Liu et al. 2019) and XLM-RoBERTa (Conneau et al.
// 2020) as transformers has them, with its parameter names.
#pragma once

#include "models/hyper_parameters.h"
#include "models/model.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/mlp.h"
#include "nn/norm.h"
#include "ops/shapes/sequences.h"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// The head behind the encoder.
enum class TextHead : std::uint8_t {
  classification,  // one set of logits a sequence, from its first token
  tokens,          // one a token
  span,            // start and end of an answer: two logits a token
  masked_lm,       // the vocabulary, its table shared with the embedding
  embedding        // none: the vector of a sequence
};

enum class Pooling : std::uint8_t { mean, first };
std::array<std::pair<std::string_view, TextHead>, 5> names_of(TextHead);
std::array<std::pair<std::string_view, Pooling>, 2> names_of(Pooling);

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

struct BertOptions {
  TextNames names;
  bool has_types = true;
  bool has_tanh = true;             // behind class_dense; ReLU without
  bool drops_before_dense = false;  // dropout before class_dense too
  bool drops_before_span = false;   // the same before the head of `span`
  std::int64_t first_position = 0;  // row of the table of positions for the first token
  std::int64_t vocab_size = 30522, hidden_size = 768, layers = 12, heads = 12, intermediate_size = 3072;
  std::int64_t positions = 512, types = 2;
  std::int64_t padding = 0;  // id of [PAD], whose row of the table gets no gradient
  nn::Activation activation = nn::Activation::gelu, mlm_activation = nn::Activation::gelu;
  double dropout = 0.1, attention_dropout = 0.1;
  double head_dropout = 0.1;
  double initializer_range = 0.02;
  double norm_eps = 1e-12;
  TextHead head = TextHead::classification;
  Pooling pooling = Pooling::mean;  // of `embedding`
  bool normalize = false;           // the same
  std::int64_t longest = 0;         // tokens of a text; 0: as many as positions
  std::int64_t num_classes = 2;

  std::int64_t most_tokens() const { return positions - first_position; }  // of a sequence
};

inline constexpr NumberRange text_layers = between(1, 4096);

/// The rows `head`, `num_classes` and those of `embedding` of a family's options, and checks of these.
template <class T>
Fields text_head_rows() {
  return {field<T>("head", &T::head, fits_weights,
                   "head: classes of a sequence or of each token, an answer span, masked tokens, or an embedding"),
          field<T>("pooling", &T::pooling, fits_weights, "`embedding`: mean over the tokens, or the first token"),
          field<T>("normalize", &T::normalize, fits_weights, "`embedding`: whether vectors have length one"),
          field<T>("max_seq_length", &T::longest, up_to(1 << 20), fits_weights,
                   "longest text in tokens; 0: as many as there are positions"),
          field<T>("num_classes", &T::num_classes, count_range, fits_weights, "outputs of the head")};
}
void check_text_head(const BertOptions& options, HyperProblems& problems);
/// transformers' names of activation functions.
Names text_activations();
nn::Activation text_activation(std::string_view name);

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
  /// Rows of tokens x [1, T, C] by number: [1, M, C].
  Variable select(Variable x, Variable rows) const;

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
