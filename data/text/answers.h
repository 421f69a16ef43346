// Answers to questions as SQuAD's official script compares them (evaluate-v2.0.py; Rajpurkar et al. 2018).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// Ends each answer where several are one text: no byte of UTF-8.
inline constexpr char answer_end = '\xff';

/// The words that count: in lower case, without ASCII punctuation and without the articles a, an and the.
std::vector<std::string> answer_words(std::string_view answer);

struct AnswerScore {
  double exact = 0;  // 1 where the words are those of a wanted answer
  double f1 = 0;     // of the words, whatever their order; 1 where there are none in both
};
/// The best score against one of the wanted answers. One without words counts only where all are: no answer is wanted.
AnswerScore score_answer(std::string_view answer, std::span<const std::string> wanted);

}  // namespace lacuna
