#include "data/text/answers.h"

#include "data/text/utf8.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lacuna {
namespace {

using Words = std::vector<std::string>;

AnswerScore score(const Words& given, const Words& wanted) {
  const double exact = given == wanted ? 1 : 0;
  if (given.empty() || wanted.empty()) return {exact, exact};
  std::map<std::string_view, int> left;
  for (const std::string& word : wanted) ++left[word];
  int common = 0;
  for (const std::string& word : given)
    if (const auto found = left.find(word); found != left.end() && found->second > 0) {
      --found->second;
      ++common;
    }
  return {exact, 2.0 * common / static_cast<double>(given.size() + wanted.size())};
}

}  // namespace

std::vector<std::string> answer_words(std::string_view answer) {
  Words words;
  std::string word, run;  // run: letters and digits, possibly an article
  const auto end_run = [&] {
    // The script replaces an article between regex word boundaries by a space, even inside a word.
    const bool article = run == "a" || run == "an" || run == "the";
    if (!article)
      word += run;
    else if (!word.empty())
      words.push_back(std::exchange(word, {}));
    run.clear();
  };
  const auto end_word = [&] {
    end_run();
    if (!word.empty()) words.push_back(std::exchange(word, {}));
  };
  while (!answer.empty()) {
    const Character character = first_character(answer);
    answer.remove_prefix(std::max<std::size_t>(character.bytes, 1));
    if (character.bytes == 0 || (character.code < 0x80 && is_punctuation(character.code))) continue;
    if (is_whitespace(character.code)) {
      end_word();
      continue;
    }
    std::int32_t lower[2];
    const int count = lower_case(character.code, lower);
    for (int i = 0; i < count; ++i) {
      char bytes[4];
      const std::string_view text(bytes, static_cast<std::size_t>(write_utf8(lower[i], bytes)));
      if (is_letter_or_digit(lower[i])) {
        run += text;
      } else {
        end_run();
        word += text;
      }
    }
  }
  end_word();
  return words;
}

AnswerScore score_answer(std::string_view answer, std::span<const std::string> wanted) {
  std::vector<Words> counted;
  for (const std::string& one : wanted)
    if (Words words = answer_words(one); !words.empty()) counted.push_back(std::move(words));
  if (counted.empty()) counted.emplace_back();
  const Words given = answer_words(answer);
  AnswerScore best;
  for (const Words& one : counted) {
    const AnswerScore now = score(given, one);
    best = {std::max(best.exact, now.exact), std::max(best.f1, now.f1)};
  }
  return best;
}

}  // namespace lacuna
