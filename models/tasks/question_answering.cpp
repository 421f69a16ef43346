// Extractive question answering: cross entropies of start and end of the answer over the tokens of each sequence.
#include "models/bert.h"
#include "models/task.h"
#include "ops/span_cross_entropy.h"

#include <algorithm>
#include <limits>

namespace lacuna {
namespace {

double fraction(std::span<const double> sums) { return sums[0] / sums[1]; }

struct Span {
  std::int64_t start = 0, end = 0;  // tokens, both included
};

/// The span of at most `longest` tokens with the largest sum of logits z [length, 2].
Span best_span(std::span<const double> z, std::int64_t longest) {
  Span best;
  double score = -std::numeric_limits<double>::infinity();
  const auto length = static_cast<std::int64_t>(z.size() / 2);
  for (std::int64_t start = 0; start < length; ++start)
    for (std::int64_t end = start; end < std::min(length, start + longest); ++end) {
      const double sum = z[static_cast<std::size_t>(2 * start)] + z[static_cast<std::size_t>(2 * end + 1)];
      if (sum <= score) continue;
      score = sum;
      best = {start, end};
    }
  return best;
}

double overlap_f1(const Span& found, const Span& wanted) {
  const std::int64_t common = std::min(found.end, wanted.end) - std::max(found.start, wanted.start) + 1;
  if (common <= 0) return 0;
  const std::int64_t both = (found.end - found.start + 1) + (wanted.end - wanted.start + 1);
  return 2 * static_cast<double>(common) / static_cast<double>(both);
}

/// `labels` i64 [N, 2]: first and last token of the answer in its sequence, counted from 0; a position beyond the
/// sequence (cut off) is left out of the loss and counts as not found.
class QuestionAnswering final : public Task {
 public:
  QuestionAnswering(const Settings& settings, const Model& model)
      : Task({{.name = "f1", .sums = 2, .value = fraction}, {.name = "exact_match", .sums = 2, .value = fraction}}),
        positions_(field_of(model.inputs(), "tokens").shape.front()),
        longest_(settings.whole_number("max_answer")) {}

  SampleFields targets() const override {
    return {{.name = "labels", .dtype = DType::i64, .shape = {2}, .below = positions_}};
  }

  TaskResult run(Model& model, Inputs batch, TaskMode) const override {
    Variable labels = batch.take("labels");
    const SequencesPtr sequences = sequences_of(batch);
    Variable logits = model.forward(std::move(batch)).take("logits");
    TaskResult result;
    result.sums = count(*sequences, logits.tensor(), labels.tensor());
    result.loss = apply(SpanCrossEntropy{.sequences = sequences}, std::move(logits), std::move(labels));
    return result;
  }

 private:
  std::vector<Tensor> count(const Sequences& sequences, const Tensor& logits, const Tensor& labels) const {
    const Device device = logits.device();
    const Tensor f1 = Tensor::zeros({2}, DType::f64, device), exact = Tensor::zeros({2}, DType::f64, device);
    if (device == Device::meta) return {f1, exact};
    const std::vector<double> z = logits.to_vector();
    const auto* const label = labels.data<const std::int64_t>();
    for (std::int64_t n = 0; n < sequences.count(); ++n) {
      const auto first = z.begin() + 2 * sequences.begin(n);
      const Span found = best_span({first, first + 2 * sequences.length(n)}, longest_);
      const Span wanted{label[2 * n], label[2 * n + 1]};
      f1.data<double>()[0] += overlap_f1(found, wanted);
      exact.data<double>()[0] += found.start == wanted.start && found.end == wanted.end ? 1 : 0;
    }
    f1.data<double>()[1] = exact.data<double>()[1] = static_cast<double>(sequences.count());
    return {f1, exact};
  }

  std::int64_t positions_, longest_;
};

const RegisterTask task("question_answering",
                        {.settings = {{"max_answer",
                                       30.0,
                                       {.low = 1, .high = 100000, .below_high = false, .whole = true},
                                       "tokens of the longest answer that is looked for"}},
                         .make =
                             [](const Settings& settings, const Model& model) {
                               return std::make_unique<QuestionAnswering>(settings, model);
                             },
                         .head = "span"});

}  // namespace
}  // namespace lacuna
