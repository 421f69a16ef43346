// Extractive question answering: cross entropies of start and end of the answer over the tokens of each sequence.
#include "data/text/answers.h"
#include "models/prediction.h"
#include "models/sequences.h"
#include "models/task.h"
#include "models/tasks/answer_figures.h"
#include "models/tasks/text.h"
#include "ops/losses/span_cross_entropy.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace lacuna {
namespace {

struct Span {
  std::int64_t start = 0, end = 0;  // tokens, both included
};

/// The span of at most `longest` tokens, `allowed` first and last, with the largest sum of logits z [length, 2], and
/// the sum; nothing where no token is allowed.
std::optional<std::pair<Span, double>> best_span(std::span<const double> z, std::int64_t longest, const auto& allowed) {
  std::optional<std::pair<Span, double>> best;
  const auto length = static_cast<std::int64_t>(z.size() / 2);
  for (std::int64_t start = 0; start < length; ++start) {
    if (!allowed(start)) continue;
    for (std::int64_t end = start; end < std::min(length, start + longest); ++end) {
      if (!allowed(end)) continue;
      const double sum = z[static_cast<std::size_t>(2 * start)] + z[static_cast<std::size_t>(2 * end + 1)];
      if (!best || sum > best->second) best = {Span{start, end}, sum};
    }
  }
  return best;
}

double overlap_f1(const Span& found, const Span& wanted) {
  const std::int64_t common = std::min(found.end, wanted.end) - std::max(found.start, wanted.start) + 1;
  if (common <= 0) return 0;
  const std::int64_t both = (found.end - found.start + 1) + (wanted.end - wanted.start + 1);
  return 2 * static_cast<double>(common) / static_cast<double>(both);
}

/// The texts by which answers are judged; see the data set squad.
struct Texts {
  TokenTexts tokens;
  Tensor question;  // i64 [N, 2]: its number, and whether questions may have no answer
  Tensor answers, answers_offsets;

  static std::optional<Texts> take(Inputs& batch) {
    std::optional<TokenTexts> tokens = TokenTexts::take(batch);
    if (!tokens) return {};
    const auto one = [&](std::string_view name) { return batch.take(name).tensor(); };
    return Texts{std::move(*tokens), one("question"), one("answers"), one("answers_offsets")};
  }
  std::vector<std::string> wanted(std::int64_t n) const {
    std::vector<std::string> all;
    for (std::string_view text = text_of(answers, answers_offsets, n); !text.empty();) {
      const std::size_t end = text.find(answer_end);
      all.emplace_back(text.substr(0, end));
      text.remove_prefix(std::min(text.size(), end + 1));
    }
    return all;
  }
};

struct AnswerOptions {
  std::int64_t max_answer = 30;

  static Fields fields() {
    return {field("max_answer", &AnswerOptions::max_answer, between(1, 100000), "tokens of the longest answer")};
  }
};

/// `labels` i64 [N, 2]: first and last token of the answer in its sequence, counted from 0; a position beyond the
/// sequence (cut off) is left out of the loss and counts as not found.
///
/// If a batch has passages and answers, metrics are the official script's over questions: the best span of the
/// passage's tokens in any window, as text, against the answers of several people; where questions may have no answer,
/// the first token's logits stand for none (Devlin et al. 2019, section 4.3). Otherwise they are of positions.
class QuestionAnswering final : public Task {
 public:
  QuestionAnswering(const AnswerOptions& options, const Model& model)
      : Task({{.name = "f1", .value = by_question, .keeps = true},
              {.name = "exact_match", .value = by_question, .keeps = true}}),
        positions_(field_of(model.inputs(), "tokens").shape.front()),
        longest_(options.max_answer) {}

  SampleFields targets() const override {
    return {{.name = "labels", .dtype = DType::i64, .shape = {2}, .below = positions_}};
  }

  /// Batches with the texts of answers are compared: their metrics are the host's.
  bool is_read_by_kernels(std::string_view field) const override {
    return field == "labels" || is_copied_by_models(field);
  }

  TaskResult run(Model& model, Inputs batch, TaskMode mode) const override {
    Variable labels = batch.take("labels");
    const std::optional<Texts> texts = Texts::take(batch);
    const SequencesPtr sequences = sequences_of(batch);
    Variable logits = model.forward(std::move(batch)).take("logits");
    TaskResult result;
    if (logits.tensor().device() == Device::meta) {
      result.sums.assign(2, Tensor::zeros({3}, DType::f64, Device::meta));
    } else {
      const auto judge = [this, mode, texts, sequences, found = logits.tensor(), wanted = labels.tensor()] {
        const std::vector<double> z = found.to_vector();
        const Judged judged =
            texts ? judge_texts(*sequences, z, *texts) : judge_positions(*sequences, z, on_device(wanted, Device::cpu));
        std::vector<Tensor> sums;
        for (const std::vector<double>* const kept : {&judged.f1, &judged.exact})
          sums.push_back(Tensor::from(std::span<const double>(*kept), {std::ssize(*kept)}));
        if (mode == TaskMode::evaluate)
          judged.show_to([this](const Tensor& windows, const Tensor& exact) { show(windows, exact); });
        return sums;
      };
      count_on_host(logits.device(), judge, result);
    }
    result.loss = apply(SpanCrossEntropy{.sequences = sequences}, std::move(logits),
                        Variable(on_device(labels.tensor(), model.context().device)));
    return result;
  }

  /// The positions that count: the mean of the starts and that of the ends have equal parts.
  double weight(const Batch& batch, TaskMode) const override {
    const Tensor& labels = batch["labels"];  // [N, 2]
    if (labels.device() == Device::meta) return static_cast<double>(batch.samples);
    const SequencesPtr sequences = sequences_of(Inputs(batch));
    const auto* const label = labels.data<const std::int64_t>();
    double counted = 0;
    for (std::int64_t i = 0; i < labels.count(); ++i)
      counted += label[i] >= 0 && label[i] < sequences->length(i / 2) ? 0.5 : 0;
    return counted;
  }

  std::unique_ptr<Figures> figures() const override { return std::make_unique<AnswerFigures>(); }

  /// The best answer in the passage and the sum of its logits, and that sum for no answer.
  std::vector<Prediction> predict(Model& model, Inputs batch) const override {
    const std::optional<TokenTexts> texts = TokenTexts::take(batch);
    if (!texts) reject("task question_answering: expected a batch with `spans` and `passage` to predict");
    const SequencesPtr sequences = sequences_of(batch);
    const std::vector<double> z = model.forward(std::move(batch)).take("logits").tensor().to_vector();
    std::vector<Prediction> all;
    for (std::int64_t n = 0; n < sequences->count(); ++n) {
      const std::int64_t row = sequences->begin(n);
      const std::span<const double> logits = logits_of(*sequences, z, n);
      const double none = logits[0] + logits[1];
      const auto found = best_span(logits, longest_, [&](std::int64_t i) { return texts->has_text(row + i); });
      const std::string_view answer =
          found ? texts->text(n, row + found->first.start, row + found->first.end) : std::string_view();
      all.push_back(
          {.values = {
               {"answer", std::string(answer)}, {"score", found ? found->second : none}, {"no_answer_score", none}}});
    }
    return all;
  }

 private:
  struct Judged {
    std::vector<double> f1{}, exact{};  // as `by_question` reads them

    void add(double question, double score, const AnswerScore& value) {
      f1.insert(f1.end(), {question, score, value.f1});
      exact.insert(exact.end(), {question, score, value.exact});
    }
    /// The windows [N, 3] and their exact matches [N].
    void show_to(const auto& take) const {
      std::vector<double> matches;
      for (std::size_t i = 2; i < exact.size(); i += 3) matches.push_back(exact[i]);
      take(Tensor::from(std::span<const double>(f1), {std::ssize(matches), 3}),
           Tensor::from(std::span<const double>(matches), {std::ssize(matches)}));
    }
  };

  static std::span<const double> logits_of(const Sequences& sequences, const std::vector<double>& z, std::int64_t n) {
    return std::span(z).subspan(static_cast<std::size_t>(2 * sequences.begin(n)),
                                static_cast<std::size_t>(2 * sequences.length(n)));
  }

  Judged judge_positions(const Sequences& sequences, const std::vector<double>& z, const Tensor& labels) const {
    AnswerScore mean;
    const auto* const label = labels.data<const std::int64_t>();
    const auto count = static_cast<double>(sequences.count());
    for (std::int64_t n = 0; n < sequences.count(); ++n) {
      const auto found = best_span(logits_of(sequences, z, n), longest_, [](std::int64_t) { return true; });
      const Span wanted{label[2 * n], label[2 * n + 1]};
      if (!found) continue;  // logits that are not numbers
      mean.f1 += overlap_f1(found->first, wanted) / count;
      mean.exact += found->first.start == wanted.start && found->first.end == wanted.end ? 1 / count : 0;
    }
    Judged judged;
    judged.add(judged_already, count, mean);
    return judged;
  }

  Judged judge_texts(const Sequences& sequences, const std::vector<double>& z, const Texts& texts) const {
    Judged judged;
    for (std::int64_t n = 0; n < sequences.count(); ++n) {
      const std::vector<std::string> wanted = texts.wanted(n);
      const std::span<const double> logits = logits_of(sequences, z, n);
      const std::int64_t row = sequences.begin(n);
      const auto* const question = texts.question.data<const std::int64_t>() + 2 * n;
      const auto number = static_cast<double>(question[0]);
      const auto found = best_span(logits, longest_, [&](std::int64_t i) { return texts.tokens.has_text(row + i); });
      if (found) {
        const auto& [span, score] = *found;
        const std::string_view answer = texts.tokens.text(n, row + span.start, row + span.end);
        judged.add(number, score, score_answer(answer, wanted));
      }
      constexpr double never = std::numeric_limits<double>::lowest();  // while another window has an answer
      if (question[1] != 0 || !found)
        judged.add(-2 - number, question[1] != 0 ? logits[0] + logits[1] : never, score_answer("", wanted));
    }
    return judged;
  }

  std::int64_t positions_, longest_;
};

const RegisterTask question_answering("question_answering", {.options = AnswerOptions{},
                                                             .make =
                                                                 [](const Options& options, const Model& model) {
                                                                   return std::make_unique<QuestionAnswering>(
                                                                       options.as<AnswerOptions>(), model);
                                                                 },
                                                             .head = "span",
                                                             .problem = "span"});

}  // namespace
}  // namespace lacuna
