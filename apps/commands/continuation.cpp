#include "apps/commands/continuation.h"

#include "apps/output/host.h"
#include "apps/output/output.h"
#include "core/error.h"
#include "models/io/json_fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace lacuna::apps {
namespace {

using nlohmann::ordered_json;

/// The ids under `eos_token_id`, one or a list.
std::vector<std::int64_t> stops_in(const std::filesystem::path& file) {
  const auto json = read_json_object(file);
  if (!json || !json->contains("eos_token_id") || (*json)["eos_token_id"].is_null()) return {};
  const ordered_json& said = (*json)["eos_token_id"];
  std::vector<std::int64_t> stops;
  for (const ordered_json& one : said.is_array() ? said : ordered_json::array({said})) {
    if (!one.is_number_integer())
      reject("{}: expected ids of tokens in `eos_token_id`, got {}", file.string(), one.dump());
    stops.push_back(one.get<std::int64_t>());
  }
  return stops;
}

/// generation_config.json, and which of its keys were read.
class GenerationConfig {
 public:
  explicit GenerationConfig(std::filesystem::path file)
      : file_(std::move(file)), json_(read_json_object(file_).value_or(ordered_json::object())) {}

  template <class T>
  void take(const char* key, NumberBetween allowed, T& value) {
    read_.emplace_back(key);
    if (!json_.contains(key) || json_[key].is_null()) return;
    const ordered_json& said = json_[key];
    const double number = said.is_number() ? said.get<double>() : std::nan("");
    if (!(number >= allowed.low && number <= allowed.high) || (std::is_integral_v<T> && number != std::floor(number)))
      reject("{}: expected a number from {} to {} in `{}`, got {}", file_.string(), allowed.low, allowed.high, key,
             said.dump());
    value = static_cast<T>(number);
  }
  bool flag(const char* key) {
    read_.emplace_back(key);
    if (!json_.contains(key) || json_[key].is_null()) return false;
    if (!json_[key].is_boolean())
      reject("{}: expected true or false in `{}`, got {}", file_.string(), key, json_[key].dump());
    return json_[key].get<bool>();
  }
  /// Names the options that have an effect in transformers and none here. These values have no effect: null, false, an
  /// empty list or text, 0 unless it is an id, and 1 as a factor or a count of beams.
  void say_unread() const {
    static const std::vector<std::string> of_no_effect{
        "eos_token_id",       "bos_token_id", "pad_token_id", "transformers_version",
        "_from_model_config", "use_cache",    "max_length"};  // max_new_tokens goes before max_length, and has a
                                                              // default here
    static const std::vector<std::string> of_one{"num_beams",      "num_beam_groups", "num_return_sequences",
                                                 "length_penalty", "typical_p",       "encoder_repetition_penalty",
                                                 "guidance_scale"};
    std::vector<std::string> unread;
    for (const auto& [key, value] : json_.items()) {
      const bool neutral = value.is_null() || value == false || (value == 0 && !key.ends_with("token_id")) ||
                           (value == 1 && std::ranges::find(of_one, key) != of_one.end()) ||
                           (value.is_structured() && value.empty());
      if (!neutral && std::ranges::find(read_, key) == read_.end() &&
          std::ranges::find(of_no_effect, key) == of_no_effect.end())
        unread.push_back(key);
    }
    if (!unread.empty())
      print_error(fmt::format("lacuna: warning: {}: {} ha{} no effect here\n", file_.string(), fmt::join(unread, ", "),
                              unread.size() == 1 ? "s" : "ve"));
  }

 private:
  std::filesystem::path file_;
  ordered_json json_;
  std::vector<std::string> read_;
};

}  // namespace

GenerationOptions generation_options(const OpenedModel& opened, const Tokenizer& tokenizer) {
  const std::filesystem::path base = opened.folder.config.parent_path();  // an adapter's folder may say nothing
  const auto file = [&](const char* name) {
    std::error_code ignored;
    return (std::filesystem::exists(opened.texts / name, ignored) ? opened.texts : base) / name;
  };
  GenerationOptions options{.stops = stops_in(file("generation_config.json"))};
  if (options.stops.empty()) options.stops = stops_in(file("config.json"));
  if (options.stops.empty() && !tokenizer.config().eos.empty())
    if (const auto id = tokenizer.find(tokenizer.config().eos)) options.stops.push_back(*id);
  GenerationConfig said(file("generation_config.json"));
  Sampling& sampling = options.sampling;
  said.take("max_new_tokens", token_counts, options.most);
  said.take("temperature", {0, factors.high}, sampling.temperature);  // 0 stands in files that do not draw
  said.take("top_k", counts, sampling.top_k);
  said.take("top_p", shares, sampling.top_p);
  said.take("min_p", shares, sampling.min_p);
  said.take("repetition_penalty", factors, sampling.repetition_penalty);
  said.take("no_repeat_ngram_size", counts, sampling.no_repeat_ngram);
  sampling.draws = said.flag("do_sample");
  said.say_unread();
  if (const std::string& contradiction = tokenizer.config().contradiction; !contradiction.empty())
    print_error(fmt::format("lacuna: warning: {}\n", contradiction));
  return options;
}

std::string text_behind(const Tokenizer& tokenizer, std::span<const std::int32_t> before,
                        std::span<const std::int32_t> tokens) {
  std::vector<std::int32_t> all(before.begin(), before.end());
  all.insert(all.end(), tokens.begin(), tokens.end());
  const std::string first = tokenizer.decode(before, true), whole = tokenizer.decode(all, true);
  return whole.starts_with(first) ? whole.substr(first.size()) : tokenizer.decode(tokens, true);
}

ordered_json continuation(LanguageModel& model, const Tokenizer& tokenizer, std::span<const std::int32_t> prompt,
                          const GenerationOptions& options, const std::function<void(std::int32_t)>& made) {
  const std::vector<std::int64_t> tokens(prompt.begin(), prompt.end());
  const Generated generated = generate(model, tokens, options, [&](std::int64_t token) {
    stop_if_host_wants();
    if (made) made(static_cast<std::int32_t>(token));
    return true;
  });
  const std::vector<std::int32_t> own(generated.tokens.begin(), generated.tokens.end());
  return {{"text", text_behind(tokenizer, prompt, own)},
          {"ids", generated.tokens},
          {"ended_by", generated.stopped ? "stop" : "length"}};
}

}  // namespace lacuna::apps
