// Logits before a token is taken, against transformers' definitions, and texts that go on.
#include "models/generation.h"
#include "models/registry.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

using namespace lacuna;

namespace {

/// The numbers of the tokens that are left.
std::vector<std::int64_t> kept(const Sampling& sampling, std::vector<double> logits,
                               const std::vector<std::int64_t>& before = {}) {
  shape_logits(sampling, before, logits);
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (std::isfinite(logits[i])) numbers.push_back(static_cast<std::int64_t>(i));
  return numbers;
}

std::unique_ptr<Model> tiny_decoder(const std::vector<HyperParameter>& more = {}) {
  std::vector<HyperParameter> sizes{{"vocab_size", std::int64_t{23}},
                                    {"hidden_size", std::int64_t{16}},
                                    {"intermediate_size", std::int64_t{24}},
                                    {"num_hidden_layers", std::int64_t{2}},
                                    {"num_attention_heads", std::int64_t{4}},
                                    {"num_key_value_heads", std::int64_t{2}},
                                    {"max_position_embeddings", std::int64_t{32}},
                                    {"initializer_range", 0.5}};
  sizes.insert(sizes.end(), more.begin(), more.end());
  return build_model("decoder", sizes, {.training = false});
}

}  // namespace

TEST_CASE("generation: probabilities are those of transformers") {
  const std::string path = LACUNA_SOURCE_DIR "/tests/models/sampling.json";  // make_sampling.py
  const nlohmann::json all = nlohmann::json::parse(std::ifstream(path));
  const auto before = all["before"].get<std::vector<std::int64_t>>();
  for (const nlohmann::json& each : all["cases"]) {
    CAPTURE(each["settings"].dump());
    Sampling sampling{.draws = true, .top_k = 0};
    for (const auto& [key, value] : each["settings"].items()) {
      if (key == "temperature") sampling.temperature = value;
      if (key == "top_k") sampling.top_k = value;
      if (key == "top_p") sampling.top_p = value;
      if (key == "min_p") sampling.min_p = value;
      if (key == "repetition_penalty") sampling.repetition_penalty = value;
      if (key == "no_repeat_ngram_size") sampling.no_repeat_ngram = value;
    }
    auto logits = all["logits"].get<std::vector<double>>();
    shape_logits(sampling, before, logits);
    double sum = 0;
    for (double& logit : logits) sum += logit = std::exp(logit);
    const auto expected = each["probabilities"].get<std::vector<double>>();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK((logits[i] == 0) == (expected[i] == 0));
      CHECK(logits[i] / sum == doctest::Approx(expected[i]).epsilon(1e-5).scale(0.01));
    }
  }
  const auto ties = all["ties"]["logits"].get<std::vector<double>>();
  CHECK(nlohmann::json(kept({.draws = true, .top_k = 2}, ties)) == all["ties"]["top_k of 2"]);
  CHECK(nlohmann::json(kept({.draws = true, .top_k = 0, .top_p = 0.4}, ties)) == all["ties"]["top_p of 0.4"]);
}

TEST_CASE("generation: what changes nothing, and what always stays") {
  using Numbers = std::vector<std::int64_t>;
  const std::vector<double> halves{std::log(0.5), std::log(0.25), std::log(0.15), std::log(0.1)};
  CHECK(kept({.draws = true, .top_k = 0}, halves).size() == 4);
  CHECK(kept({.draws = false, .top_k = 1, .min_p = 1}, halves).size() == 4);  // greedy: not read
  CHECK(kept({.draws = true, .top_p = 0}, halves) == Numbers{0});             // one stays
}

TEST_CASE("generation: draws follow the probabilities, and come again with their seed") {
  const std::vector<double> logits{std::log(0.6), std::log(0.3), std::log(0.1)};
  std::vector<int> counts(3);
  const Sampling sampling{.draws = true};
  constexpr std::uint32_t draws = 4000;
  for (std::uint32_t step = 0; step < draws; ++step) {
    std::vector<double> one = logits, again = logits;
    const std::int64_t token = next_token(sampling, {}, one, step);
    CHECK(token == next_token(sampling, {}, again, step));
    ++counts[static_cast<std::size_t>(token)];
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const double expected = draws * std::exp(logits[i]);
    CHECK(std::abs(counts[i] - expected) < 4 * std::sqrt(expected));  // four deviations
  }
}

TEST_CASE("generation: a cache changes nothing, whatever is read at a time") {
  const std::unique_ptr<Model> model = tiny_decoder();
  auto& decoder = dynamic_cast<LanguageModel&>(*model);
  const std::vector<std::int64_t> tokens{3, 1, 4, 1, 5, 9, 2, 6, 5};
  KeyValueCache whole(decoder.layers(), 16), parts(decoder.layers(), 16);
  const std::vector<double> at_once = decoder.read(tokens, whole).to_vector();
  decoder.read(std::span(tokens).first(4), parts);
  for (std::size_t i = 4; i + 1 < tokens.size(); ++i) decoder.read(std::span(tokens).subspan(i, 1), parts);
  const std::vector<double> one_by_one = decoder.read(std::span(tokens).last(1), parts).to_vector();
  for (std::size_t i = 0; i < at_once.size(); ++i) CHECK(one_by_one[i] == doctest::Approx(at_once[i]).epsilon(1e-4));
  CHECK_THROWS_AS(decoder.read(tokens, parts), Error);  // no room
}

TEST_CASE("generation: beyond the first positions of LongRoPE a text goes on as without a cache") {
  const auto list = [](double a, double b) { return Tree(std::vector<Tree>{Tree(a), Tree(b)}); };
  const std::unique_ptr<Model> model = tiny_decoder({{"rope_scaling", std::string("longrope")},
                                                     {"rope_original_positions", std::int64_t{8}},
                                                     {"rope_short_factor", list(1, 1.5)},
                                                     {"rope_long_factor", list(4, 9)}});
  auto& decoder = dynamic_cast<LanguageModel&>(*model);
  std::vector<std::int64_t> all{3, 1, 4, 1, 5};
  KeyValueCache kept(decoder.layers(), 12);
  while (all.size() < 12) {
    KeyValueCache none(decoder.layers(), 12);
    const std::vector<double> expected = decoder.read(all, none).to_vector();
    const std::vector<double> logits = decoder.read_rest(all, kept).to_vector();
    CAPTURE(all.size());
    for (std::size_t i = 0; i < logits.size(); ++i) CHECK(logits[i] == doctest::Approx(expected[i]).epsilon(1e-4));
    all.push_back(std::ranges::max_element(expected) - expected.begin());
  }
  const auto begin = std::span(all).first(5);
  CHECK(generate(decoder, begin, {.most = 7}).tokens == std::vector(all.begin() + 5, all.end()));
  KeyValueCache short_one(decoder.layers(), 12);
  decoder.read(begin, short_one);
  CHECK_THROWS_AS(decoder.read(std::span(all).last(7), short_one), Error);
}

TEST_CASE("generation: a text ends at a stop, at a number of tokens, and where positions do") {
  const std::unique_ptr<Model> model = tiny_decoder();
  auto& decoder = dynamic_cast<LanguageModel&>(*model);
  const std::vector<std::int64_t> prompt{3, 1, 4};
  const Generated all = generate(decoder, prompt, {.most = 8});
  CHECK(all.tokens.size() == 8);
  CHECK_FALSE(all.stopped);
  const auto stop = all.tokens[5];
  const auto first = std::ranges::find(all.tokens, stop) - all.tokens.begin();
  const Generated ended = generate(decoder, prompt, {.most = 8, .stops = {stop}});
  CHECK(ended.stopped);
  CHECK(std::ssize(ended.tokens) == first);
  CHECK(generate(decoder, prompt, {.most = 100}).tokens.size() == 29);
  std::int64_t seen = 0;
  CHECK(generate(decoder, prompt, {.most = 8}, [&](std::int64_t) { return ++seen < 3; }).tokens.size() == 3);
  CHECK_THROWS_AS(generate(decoder, {}, {}), Error);
  CHECK_THROWS_AS(generate(decoder, std::vector<std::int64_t>(40, 1), {}), Error);
}
