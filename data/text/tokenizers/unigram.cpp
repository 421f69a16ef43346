// Unigram (Kudo 2018, arXiv:1804.10959): the tokens whose scores have the largest sum.
#include "data/text/tokenizers/steps.h"
#include "data/text/tokenizers/token_model.h"
#include "data/text/trie.h"
#include "data/text/utf8.h"

#include <algorithm>

namespace lacuna {
namespace {

constexpr double unknown_penalty = 10;  // of sentencepiece, below the least score

/// Tokens and scores in the order of their ids.
struct ScoredTokens {
  TokenIds ids{};
  std::vector<double> scores{};
  std::string unknown{};
};

ScoredTokens read_scored_tokens(const JsonReader& object) {
  ScoredTokens tokens;
  const nlohmann::json& list = object.list("vocab");
  const std::int64_t unknown = object.number("unk_id", -1);
  if (unknown < -1 || unknown >= std::ssize(list))
    reject("{}.unk_id: expected the number of a token below {}, got {}", object.place(), list.size(), unknown);
  for (const nlohmann::json& each : list) {
    if (!each.is_array() || each.size() != 2 || !each[0].is_string() || !each[1].is_number())
      reject("{}.vocab[{}]: expected a token and its score, got {}", object.place(), tokens.scores.size(), each.dump());
    const auto id = checked_token_id(std::ssize(tokens.scores), object.place());
    if (id == unknown) tokens.unknown = each[0].get<std::string>();
    tokens.ids.insert_or_assign(each[0].get<std::string>(), id);
    tokens.scores.push_back(each[1].get<double>());
  }
  return tokens;
}

class Unigram final : public TokenModel {
 public:
  Unigram(ScoredTokens tokens, std::int32_t unknown_id, bool falls_back)
      : TokenModel(std::move(tokens.ids), std::move(tokens.unknown)),
        scores_(std::move(tokens.scores)),
        bytes_(vocabulary()),
        unknown_id_(unknown_id),
        falls_back_(falls_back) {
    for (const auto& [token, id] : vocabulary()) trie_.insert(token, id);
    if (!scores_.empty()) unknown_score_ = *std::ranges::min_element(scores_) - unknown_penalty;
  }

  void tokenize(std::string_view word, std::vector<Token>& out) const override {
    thread_local std::vector<Best> best;     // [word.size() + 1]: the best tokens that end at each byte
    thread_local std::vector<Token> chosen;  // from the last one to the first
    find_best(word, best);
    chosen.clear();
    for (auto end = static_cast<std::uint32_t>(word.size()); end > 0; end = best[end].begin) {
      const Best& last = best[end];
      if (last.id == unknown_id_ && !chosen.empty() && chosen.back().id == unknown_id_)
        chosen.back().begin = last.begin;  // neighbours are one unknown token
      else
        chosen.push_back({last.id, last.begin, end});
    }
    for (auto token = chosen.rbegin(); token != chosen.rend(); ++token) {
      if (token->id == unknown_id_)
        add_unknown(word, *token, out);
      else
        out.push_back(*token);
    }
    shrink_scratch(best);
    shrink_scratch(chosen);
  }

 private:
  struct Best {
    double score = 0;
    std::int32_t id = -1;
    std::uint32_t begin = none;
  };
  static constexpr std::uint32_t none = ~0U;

  void find_best(std::string_view word, std::vector<Best>& best) const {
    best.assign(word.size() + 1, {});
    for (std::size_t begin = 0; begin < word.size();) {
      const double so_far = best[begin].score;
      const std::size_t character = std::max<std::size_t>(first_character(word.substr(begin)).bytes, 1);
      bool is_known = false;
      const auto offer = [&](std::size_t length, std::int32_t id, double score) {
        Best& target = best[begin + length];
        if (target.begin == none || so_far + score > target.score)
          target = {so_far + score, id, static_cast<std::uint32_t>(begin)};
      };
      trie_.each_prefix(word.substr(begin), [&](std::int32_t id, std::size_t length) {
        offer(length, id, scores_[static_cast<std::size_t>(id)]);
        is_known = is_known || length == character;
      });
      if (!is_known) offer(character, unknown_id_, unknown_score_);
      begin += character;
    }
  }

  /// Unknown text becomes the token of that text, else its bytes, else the unknown token.
  void add_unknown(std::string_view word, Token token, std::vector<Token>& out) const {
    const std::string_view text = word.substr(token.begin, token.end - token.begin);
    if (const std::int32_t id = find(text); id >= 0) {
      out.push_back({id, token.begin, token.end});
    } else if (falls_back_ && bytes_.cover(text)) {
      for (const char byte : text)
        out.push_back({bytes_.ids[static_cast<unsigned char>(byte)], token.begin, token.end});
    } else {
      if (unknown_id_ < 0) reject_unknown(text);
      out.push_back(token);
    }
  }

  Trie trie_;
  std::vector<double> scores_;  // by id
  ByteTokens bytes_;
  std::int32_t unknown_id_;
  double unknown_score_ = 0;
  bool falls_back_;
};

const RegisterStep<TokenModel> unigram("Unigram", [](const JsonReader& object) -> std::unique_ptr<const TokenModel> {
  ScoredTokens tokens = read_scored_tokens(object);
  return std::make_unique<Unigram>(std::move(tokens), static_cast<std::int32_t>(object.number("unk_id", -1)),
                                   object.flag("byte_fallback", false));
});

}  // namespace
}  // namespace lacuna
