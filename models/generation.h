// Texts that a language model goes on with: greedy or drawn, as `generate` of transformers 5 defines it.
#pragma once

#include "models/language_model.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace lacuna {

/// Changes of the logits before a token is taken, in this order; the defaults change nothing but `top_k`, which like
/// transformers keeps 50.
struct Sampling {
  double repetition_penalty = 1;     // of each token before: positive logits are divided by it, others multiplied
  std::int64_t no_repeat_ngram = 0;  // no n tokens in a row occur twice; 0: they may
  bool draws = false;                // false: the largest logit, of equal ones the first; what follows is not read then
  double temperature = 1;            // logits are divided by it
  std::int64_t top_k = 50;           // keeps the k largest, and those equal to the last of them; 0: all
  double top_p = 1;                  // keeps the most probable ones whose probabilities reach it
  double min_p = 0;                  // keeps those with this part of the largest probability
  std::uint64_t seed = 1;
};

/// Applies the changes to `logits` [V]; dropped logits become -inf. `before`: prompt and tokens made so far.
void shape_logits(const Sampling& sampling, std::span<const std::int64_t> before, std::span<double> logits);
/// The token that follows. `step` counts the tokens made: with the same seed and step the same is drawn.
std::int64_t next_token(const Sampling& sampling, std::span<const std::int64_t> before, std::span<double> logits,
                        std::uint32_t step);

struct GenerationOptions {
  std::int64_t most = 256;            // tokens
  std::vector<std::int64_t> stops{};  // tokens that end a text, and are not part of it
  Sampling sampling{};
};
struct Generated {
  std::vector<std::int64_t> tokens{};
  bool stopped = false;  // by one of the stops, and not by a number of tokens
};
/// Goes on behind `prompt`, with a cache of keys and values. `made`, if given, is told of each token; false ends the
/// text. Refuses an empty prompt, and one that the model has no positions for; ends where positions do.
Generated generate(LanguageModel& model, std::span<const std::int64_t> prompt, const GenerationOptions& options,
                   const std::function<bool(std::int64_t)>& made = {});

}  // namespace lacuna
