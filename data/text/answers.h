// Scores of answers to questions as in SQuAD's official script (evaluate-v2.0.py; Rajpurkar et al. 2018).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// The terminator of each answer in a concatenation; the byte never occurs in UTF-8.
inline constexpr char answer_end = '\xff';

/// The normalised words of an answer: lower case, without ASCII punctuation and the articles a, an and the.
std::vector<std::string> answer_words(std::string_view answer);

struct AnswerScore {
  double exact = 0;  // 1 if the words equal a reference answer's
  double f1 = 0;     // F1 of the bags of words; 1 if both are empty
};
/// The best score over the reference answers. References without words count only if all are: the question has no
/// answer.
AnswerScore score_answer(std::string_view answer, std::span<const std::string> wanted);

}  // namespace lacuna
