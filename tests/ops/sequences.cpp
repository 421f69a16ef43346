// Ops on sequences of unequal length: packed and padded batches agree, and no result depends on threads or blocks.
#include "ops/shapes/sequences.h"
#include "autograd/tape.h"
#include "core/parallel.h"
#include "nn/functional.h"
#include "ops/attention/sequence_attention.h"
#include "ops/curves/dropout.h"
#include "ops/losses/linear_cross_entropy.h"
#include "ops/losses/loss.h"
#include "ops/shapes/embedding.h"
#include "tests/ops/op_run.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace lacuna {
namespace {

const std::vector<std::int64_t> lengths{5, 1, 9, 3};
constexpr std::int64_t padded_rows = 11;
constexpr RandomStream stream{.seed = 3, .step = 5, .site = 7};

SequencesPtr packed_sequences() {
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t length : lengths) offsets.push_back(offsets.back() + length);
  return Sequences::packed(offsets);
}

/// Rows of packed tokens [1, T, C] with anything as padding.
Tensor padded(const Tensor& packed, double padding) {
  const std::int64_t width = packed.shape().back();
  const Tensor all = Tensor::full({1, std::ssize(lengths) * padded_rows, width}, padding, packed.dtype(), Device::cpu);
  std::int64_t row = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto to = static_cast<std::int64_t>(i) * padded_rows;
    all.row_range(to, to + lengths[i]).copy_from(packed.row_range(row, row + lengths[i]));
    row += lengths[i];
  }
  return all;
}
std::vector<double> without_padding(const Tensor& all) {
  std::vector<double> values;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto first = static_cast<std::int64_t>(i) * padded_rows;
    const std::vector<double> rows = all.row_range(first, first + lengths[i]).to_vector();
    values.insert(values.end(), rows.begin(), rows.end());
  }
  return values;
}
double sum_of_padding(const Tensor& all) {
  double sum = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    for (const double value : all.row_range(static_cast<std::int64_t>(i) * padded_rows + lengths[i],
                                            static_cast<std::int64_t>(i + 1) * padded_rows)
                                  .to_vector())
      sum += std::abs(value);
  return sum;
}

bool close(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  return std::ranges::equal(a, b, [&](double x, double y) { return std::abs(x - y) <= tolerance; });
}

/// y and the gradients of q, k and v.
std::vector<Tensor> run(const SequenceAttention& op, const std::vector<Tensor>& inputs, const Tensor& dy) {
  const std::unique_ptr<MemoryPolicy> policy = make_policy("exact");
  Tape tape(*policy);
  std::vector<Variable> leaves;
  for (const Tensor& input : inputs) leaves.emplace_back(input, true);
  Variable y = [&] {
    const Recording recording(tape);
    return apply(op, leaves[0], leaves[1], leaves[2]);
  }();
  std::vector<Tensor> results{y.tensor()};
  std::vector<std::pair<Variable, Tensor>> losses;
  losses.emplace_back(std::move(y), dy);
  tape.backward(std::move(losses));
  for (const Variable& leaf : leaves) results.push_back(leaf.grad());
  return results;
}

}  // namespace

TEST_CASE("sequences: packed attention is padded attention, with dropout") {
  const SequencesPtr packed = packed_sequences();
  const Shape shape{1, packed->rows(), 12};
  const std::vector<Tensor> inputs{sample_values(shape, DType::f32, 1), sample_values(shape, DType::f32, 2),
                                   sample_values(shape, DType::f32, 3)};
  const Tensor dy = sample_values(shape, DType::f32, 4);
  for (const double dropout : {0.0, 0.4}) {
    SequenceAttention op{.heads = 2, .sequences = packed, .dropout = dropout, .stream = stream, .positions = 16};
    const std::vector<Tensor> expected = run(op, inputs, dy);
    op.sequences = Sequences::padded(lengths, padded_rows);
    const std::vector<Tensor> got =
        run(op, {padded(inputs[0], 5), padded(inputs[1], -7), padded(inputs[2], 9)}, padded(dy, 3));
    for (std::size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      CHECK(close(without_padding(got[i]), expected[i].to_vector(), 1e-6));
      CHECK(sum_of_padding(got[i]) == 0);
    }
  }
}

TEST_CASE("sequences: first tokens alone attend as they do among all, and draw the same mask") {
  const SequencesPtr packed = packed_sequences();
  const Shape shape{1, packed->rows(), 6};
  const Tensor q = sample_values(shape, DType::f32, 1), k = sample_values(shape, DType::f32, 2),
               v = sample_values(shape, DType::f32, 3);
  SequenceAttention op{.heads = 3, .sequences = packed, .dropout = 0.3, .stream = stream, .positions = 9};
  const Variable all = apply(op, Variable(q), Variable(k), Variable(v));
  std::vector<std::int64_t> firsts;
  for (std::int64_t i = 0; i < packed->count(); ++i) firsts.push_back(packed->begin(i));
  const auto select = [&](const Tensor& from) {
    return apply(Embedding{.shape = shape}, Variable(from),
                 Variable(Tensor::from(std::span<const std::int64_t>(firsts), {packed->count()})), Variable());
  };
  op.queries = 1;
  const Variable alone = apply(op, select(q), Variable(k), Variable(v));
  CHECK(close(alone.tensor().to_vector(), select(all.tensor()).tensor().to_vector(), 1e-6));
}

TEST_CASE(
    "sequences: a window as wide as the longest sequence is none, with dropout; it is for all tokens as queries") {
  const SequencesPtr packed = packed_sequences();
  const Shape shape{1, packed->rows(), 12};
  const std::vector<Tensor> inputs{sample_values(shape, DType::f64, 1), sample_values(shape, DType::f64, 2),
                                   sample_values(shape, DType::f64, 3)};
  SequenceAttention op{.heads = 2, .sequences = packed, .dropout = 0.4, .stream = stream, .positions = 16};
  const std::vector<Tensor> expected = run(op, inputs, sample_values(shape, DType::f64, 4));
  const auto apart = [&] {
    double most = 0;
    const std::vector<Tensor> got = run(op, inputs, sample_values(shape, DType::f64, 4));
    for (std::size_t i = 0; i < got.size(); ++i) most = std::max(most, relative_error(got[i], expected[i]));
    return most;
  };
  op.window = 8;  // the longest sequence has 9 tokens
  CHECK(apart() < 1e-12);
  op.window = 7;
  CHECK(apart() > 1e-3);
  op.queries = 1;
  std::vector<Tensor> extra_outputs;
  CHECK_THROWS_WITH_AS(op.forward(inputs, extra_outputs), doctest::Contains("`queries` 1"), Error);
}

TEST_CASE("sequences: dropout of packed tokens is that of a padded batch") {
  const SequencesPtr packed = packed_sequences();
  const Tensor x = sample_values({1, packed->rows(), 7}, DType::f32, 1);
  const Tensor rows = padded(x, 1);
  const auto batch = [&](const Tensor& tensor) { return tensor.reshape({std::ssize(lengths), padded_rows, 7}); };
  const Variable by_batch = apply(Dropout{.p = 0.5, .stream = stream}, Variable(batch(rows)));
  const Variable by_sequence = apply(Dropout{.p = 0.5, .stream = stream, .sequences = packed}, Variable(x));
  CHECK(without_padding(by_batch.tensor().reshape(rows.shape())) == by_sequence.tensor().to_vector());
}

TEST_CASE("sequences: results do not depend on the number of threads") {
  const SequencesPtr packed = packed_sequences();
  const Shape shape{1, packed->rows(), 64};
  const auto results = [&](int count) {
    const ThreadCountScope scope(count);
    std::vector<Tensor> all = run(
        {.heads = 4, .sequences = packed, .dropout = 0.2, .stream = stream, .positions = 9},
        {sample_values(shape, DType::f32, 1), sample_values(shape, DType::f32, 2), sample_values(shape, DType::f32, 3)},
        sample_values(shape, DType::f32, 4));
    const Tensor table = Tensor::zeros({3, 64}, DType::f32, Device::cpu);
    std::vector<std::int64_t> ids(1000);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i * i % 3);
    embedding_backward(Device::cpu, sample_values({1, 1000, 64}, DType::f32, 5),
                       Tensor::from(std::span<const std::int64_t>(ids), {1000}), 1, table, {1000, table});
    all.push_back(table);
    return all;
  };
  const std::vector<Tensor> one = results(1), three = results(3);
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(same_bits(one[i], three[i]));
  for (const double value : one.back().row_range(1, 2).to_vector()) CHECK(value == 0);  // padding
}

TEST_CASE("sequences: linear and cross entropy in one op are the two ops, without rows that are ignored") {
  const Tensor x = sample_values({6, 9}, DType::f64, 1), w = sample_values({11, 9}, DType::f64, 2),
               b = sample_values({11}, DType::f64, 3);
  const auto labels = [](std::vector<std::int64_t> values) {
    return Variable(Tensor::from(std::span<const std::int64_t>(values), {std::ssize(values)}));
  };
  for (const double smoothing : {0.0, 0.2}) {
    const LinearCrossEntropy op{.label_smoothing = smoothing};
    const double fused =
        apply(op, Variable(x), Variable(w), Variable(b), labels({3, 0, -100, 10, -100, 7})).tensor().item();
    const Tensor counted = Tensor::empty({4, 9}, DType::f64, Device::cpu);
    counted.leading(0, 2).copy_from(x.leading(0, 2));
    counted.leading(2, 3).copy_from(x.leading(3, 4));
    counted.leading(3, 4).copy_from(x.leading(5, 6));
    Variable logits = linear(Variable(counted), Variable(w), Variable(b));
    CHECK(fused == doctest::Approx(cross_entropy(std::move(logits), labels({3, 0, 10, 7}), smoothing).tensor().item())
                       .epsilon(1e-12));
    CHECK(
        apply(op, Variable(x), Variable(w), Variable(b), labels(std::vector<std::int64_t>(6, -100))).tensor().item() ==
        0);
  }
  // A soft cap changes the logits alone.
  const double capped =
      apply(LinearCrossEntropy{.soft_cap = 2}, Variable(x), Variable(w), Variable(b), labels({3, 0, 1, 10, 2, 7}))
          .tensor()
          .item();
  std::vector<double> logits = linear(Variable(x), Variable(w), Variable(b)).tensor().to_vector();
  for (double& logit : logits) logit = 2 * std::tanh(logit / 2);
  const Tensor bent = Tensor::from(std::span<const double>(logits), {6, 11});
  CHECK(capped ==
        doctest::Approx(cross_entropy(Variable(bent), labels({3, 0, 1, 10, 2, 7})).tensor().item()).epsilon(1e-12));
  // The op for a frozen weight gives the same loss and gradient.
  const auto gradient = [&](const auto& op) {
    const std::unique_ptr<MemoryPolicy> keep = make_policy("keep");
    Tape tape(*keep);
    const Recording recording(tape);
    Variable leaf(x, true);
    Variable loss = apply(op, leaf, Variable(w), Variable(b), labels({3, 0, -100, 10, -100, 7})) * 3.0;
    tape.backward(std::move(loss));
    return leaf.grad();
  };
  CHECK(relative_error(gradient(FrozenLinearCrossEntropy{{.soft_cap = 2}}),
                       gradient(LinearCrossEntropy{.soft_cap = 2})) < 1e-12);
  CHECK_THROWS_AS(apply(LinearCrossEntropy{}, Variable(x), Variable(w), Variable(b), labels({3, 0, 1, 11, 1, 1})),
                  Error);
}

TEST_CASE("sequences: what is no batch of sequences is refused") {
  using Numbers = std::vector<std::int64_t>;
  for (const Numbers& offsets : {Numbers{}, Numbers{0}, Numbers{1, 2}, Numbers{0, 3, 3}, Numbers{0, 4, 2}})
    CHECK_THROWS_AS(Sequences::packed(offsets), Error);
  CHECK_THROWS_AS(Sequences::padded(Numbers{3, 0}, 4), Error);
  CHECK_THROWS_AS(Sequences::padded(Numbers{3, 5}, 4), Error);
  const Numbers beyond{0, 6};
  CHECK_THROWS_AS(apply(Embedding{.shape = {6, 2}}, Variable(sample_values({6, 2}, DType::f32, 1)),
                        Variable(Tensor::from(std::span<const std::int64_t>(beyond), {2})), Variable()),
                  Error);
}

}  // namespace lacuna
