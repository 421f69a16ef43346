// Parts that encoders of text share: options, heads, and steps on packed tokens.
#pragma once

#include "models/hyper_parameters.h"
#include "models/model.h"
#include "nn/mlp.h"
#include "ops/shapes/sequences.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna {

/// The head behind the encoder.
enum class TextHead : std::uint8_t {
  classification,  // one set of logits a sequence
  tokens,          // one a token
  span,            // start and end of an answer: two logits a token
  masked_lm,       // the vocabulary, its table shared with the embedding
  embedding        // none: the vector of a sequence
};

enum class Pooling : std::uint8_t { mean, first };
std::array<std::pair<std::string_view, TextHead>, 5> names_of(TextHead);
std::array<std::pair<std::string_view, Pooling>, 2> names_of(Pooling);

struct TextEncoderOptions {
  std::int64_t vocab_size = 30522, hidden_size = 768, layers = 12, heads = 12, intermediate_size = 3072;
  std::int64_t positions = 512;
  std::int64_t padding = 0;  // id of [PAD], whose row of the table gets no gradient
  double attention_dropout = 0.1, head_dropout = 0.1;
  double initializer_range = 0.02;
  double norm_eps = 1e-12;
  TextHead head = TextHead::classification;
  Pooling pooling = Pooling::mean;  // of `embedding`
  bool normalize = false;           // the same
  std::int64_t longest = 0;         // tokens of a text; 0: as many as positions
  std::int64_t num_classes = 2;
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
/// `width`: the hyper-parameter of the tokens' width.
void check_text_head(const TextEncoderOptions& options, std::string_view width, HyperProblems& problems);
/// transformers' names of activation functions.
Names text_activations();
nn::Activation text_activation(std::string_view name);

std::int64_t outputs_of_head(const TextEncoderOptions& options);
/// `tokens`, and `token_types` if there are any types; `most`: tokens of the longest sequence.
SampleFields text_inputs(const TextEncoderOptions& options, std::int64_t most, std::int64_t types);
/// The ids [T] of the tokens. Refuses a sequence of more than `most` tokens.
Variable take_tokens(Inputs& inputs, const Sequences& sequences, std::int64_t most, Device device);

/// `values`, and 0 in the padding's row of a table of tokens.
Init text_table(Init values, std::int64_t padding);
/// Whole numbers made on the host, for the device.
Variable whole_numbers(const std::vector<std::int64_t>& values, Device device);
/// Rows of tokens x [1, T, C] by number: [1, M, C]; undefined: all.
Variable select_rows(Variable x, Variable rows);
/// The first token of each of the sequences of x [1, T, C]: [1, N, C].
Variable first_tokens(Variable x, const Sequences& sequences);
/// N sequences of one token.
SequencesPtr one_token_each(const Sequences& sequences);
/// The vectors [N, C] of sequences.
Variable embeddings_of(const TextEncoderOptions& options, Variable pooled);

}  // namespace lacuna
