// Texts that a language model goes on with, as the files beside its weights say.
#pragma once

#include "apps/commands/opened_model.h"
#include "data/text/tokenizer.h"
#include "models/generation.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace lacuna::apps {

/// A number that a continuation takes, as it may be.
struct NumberBetween {
  double low, high;
};
inline constexpr NumberBetween factors{1e-3, 1e3}, shares{0, 1}, counts{0, 1 << 30}, token_counts{1, 1 << 20};

/// The options of the model's generation_config.json. A text ends at the ids of `eos_token_id` there, else in
/// config.json, else at the tokenizer's end token. Refuses numbers that no continuation takes; options that change
/// texts and are not read are named on standard error, as contradictions in the tokenizer's files are.
GenerationOptions generation_options(const OpenedModel& opened, const Tokenizer& tokenizer);

/// The text that `tokens` add to that of the tokens `before` them, without special tokens.
std::string text_behind(const Tokenizer& tokenizer, std::span<const std::int32_t> before,
                        std::span<const std::int32_t> tokens);

/// Goes on behind `prompt`: {text, ids, ended_by}. `made`, if given, is told of each token.
nlohmann::ordered_json continuation(LanguageModel& model, const Tokenizer& tokenizer,
                                    std::span<const std::int32_t> prompt, const GenerationOptions& options,
                                    const std::function<void(std::int32_t)>& made = {});

}  // namespace lacuna::apps
