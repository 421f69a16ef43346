#include "ops/attention/attention.h"
#include "autograd/checkpoint.h"
#include "autograd/tape.h"
#include "core/parallel.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/attention/heads.h"
#include "ops/curves/dropout.h"
#include "ops/curves/softmax.h"
#include "ops/products/matmul.h"
#include "tests/ops/op_sample.h"
#include "tests/ops/operand_forms.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace lacuna {
namespace {

/// The saved tensors of an op whose saves are its inputs, handed out in blocks of so many rows.
class SavedByBlocks final : public SavedTensors {
 public:
  explicit SavedByBlocks(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {}
  bool present(std::size_t row) const override { return row < tensors_.size() && tensors_[row].defined(); }
  Operand operand(std::size_t row) const override {
    return tensors_[row].shape().rank() == 3 ? copied_operand(tensors_[row], &ranges_) : Operand(tensors_[row]);
  }
  Shape shape(std::size_t row) const override { return tensors_[row].shape(); }
  /// Rows that backward read, in order.
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Tensor> tensors_;
  mutable std::vector<Range> ranges_;
};

struct Results {
  Tensor out;
  std::vector<Tensor> gradients;  // by input; undefined for key lengths and absent inputs
  std::vector<Range> ranges;      // of the rows that backward read
};

/// All gradients of `op` for dy drawn from `site`.
template <class Op>
Results run(const Op& op, const std::vector<Tensor>& inputs, std::int64_t block_rows = 100000) {
  std::vector<Tensor> extra_outputs;
  Results results{.out = Bound<Op>(op).forward(inputs, extra_outputs).front(), .gradients = {}, .ranges = {}};
  const Tensor& first = inputs.front();
  const SmallRowBlocks small(block_rows * first.shape().back() * size_of(first.dtype()));
  const SavedByBlocks saved(inputs);
  InputSet wanted;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() && is_floating(inputs[i].dtype())) wanted.insert(static_cast<int>(i));
  Grads grads(inputs.size(), wanted);
  op.backward(sample_values(results.out.shape(), results.out.dtype(), 9), Saved<Op>(saved), grads);
  for (std::size_t i = 0; i < inputs.size(); ++i) results.gradients.push_back(grads[static_cast<int>(i)]);
  results.ranges = saved.ranges();
  return results;
}

Results run(const Attention& op, const Tensor& qkv, std::int64_t block_rows = 100000) {
  return run(op, std::vector<Tensor>{qkv, {}, {}}, block_rows);
}

double difference(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_vector(), y = b.to_vector();
  REQUIRE(x.size() == y.size());
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, std::abs(x[i] - y[i]));
    largest = std::max(largest, std::abs(y[i]));
  }
  return worst / largest;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), static_cast<std::size_t>(a.bytes())) == 0;
}

Tensor lengths(const std::vector<std::int64_t>& values) {
  return Tensor::from(std::span<const std::int64_t>(values), {static_cast<std::int64_t>(values.size())});
}

/// q, k or v out of qkv [B, L, 3·D].
Tensor part(const Tensor& qkv, std::int64_t index) {
  const std::int64_t rows = qkv.rows(), width = qkv.shape().back() / 3;
  const std::vector<double> from = qkv.to_vector();
  std::vector<double> values;
  for (std::int64_t row = 0; row < rows; ++row)
    values.insert(values.end(), from.begin() + (3 * row + index) * width, from.begin() + (3 * row + index + 1) * width);
  return Tensor::from(std::span<const double>(values), {qkv.shape()[0], qkv.shape()[1], width}, qkv.dtype());
}

/// The reference: attention as a chain of ops. `bias` has the shape of the scores.
Variable chain(const Variable& qkv, const Variable& bias, const Attention& op) {
  const auto heads = [&](std::int64_t index) { return apply(SplitHeads{.heads = op.heads, .part = index}, qkv); };
  const double scale = 1 / std::sqrt(static_cast<double>(qkv.shape().back() / 3 / op.heads));
  Variable scores = apply(MatMul{.transpose_b = true, .scale = scale}, heads(0), heads(1));
  if (bias.defined()) scores = apply(Add{}, scores, bias);
  Variable p = apply(Softmax{}, scores);
  if (op.dropout > 0) p = apply(Dropout{.p = op.dropout, .stream = op.stream}, p);
  return apply(MergeHeads{.heads = op.heads}, apply(MatMul{}, p, heads(2)));
}

constexpr RandomStream stream{3, 5, 7};

}  // namespace

TEST_CASE("attention: f32 agrees with f64 at the size of a vision transformer") {
  const Attention op{.heads = 3};
  const Results narrow = run(op, sample_values({2, 197, 576}, DType::f32, 1));
  const Results wide = run(op, sample_values({2, 197, 576}, DType::f64, 1));
  CHECK(difference(narrow.out, wide.out) < 2e-6);
  CHECK(difference(narrow.gradients[0], wide.gradients[0]) < 5e-6);
}

TEST_CASE("attention: gradients have the same bits for any size of row blocks") {
  const Tensor qkv = sample_values({7, 11, 24}, DType::f32, 1);
  const Attention op{.heads = 1, .queries = 5, .dropout = 0.2, .stream = stream};
  for (const std::int64_t windows : {0, 1, 7}) {
    const std::vector<Tensor> inputs{
        qkv, windows == 0 ? Tensor() : sample_values({windows, 1, 5, 11}, DType::f32, 2), {}};
    const Results whole = run(op, inputs), parts = run(op, inputs, 1);
    CHECK(same_bits(whole.gradients[0], parts.gradients[0]));
    if (windows > 0) CHECK(same_bits(whole.gradients[1], parts.gradients[1]));
  }
}

TEST_CASE("attention: the gradient of qkv has the same bits for any number of threads, and each sample is read once") {
  const int before = threads();
  for (const int heads : {1, 2, 3}) {
    const Attention op{.heads = heads};
    const Tensor qkv = sample_values({7, 11, 36}, DType::f32, 1);
    set_threads(1);
    const Tensor expected = run(op, qkv).gradients[0];
    for (const int count : {1, 2, 3, 4})
      for (const std::int64_t samples : {1, 2, 3, 4, 5, 7}) {
        CAPTURE(heads);
        CAPTURE(count);
        CAPTURE(samples);
        set_threads(count);
        const Results found = run(op, qkv, 11 * samples);
        CHECK(same_bits(found.gradients[0], expected));
        std::int64_t next = 0;
        const std::int64_t fewest = (count + heads - 1) / heads;   // that give every thread a head
        const std::int64_t even = count / std::gcd(count, heads);  // that give every thread as many
        for (const Range& range : found.ranges) {
          CHECK(range.begin == next);
          CHECK(range.end - range.begin <= 11 * std::max(samples, fewest));
          const std::int64_t tasks = (range.end - range.begin) / 11 * heads;
          if (samples >= even && samples < 7 && range.end < 77) {
            CHECK(tasks % count == 0);
            CHECK(range.end - range.begin > 11 * (samples - even));
          }
          next = range.end;
        }
        CHECK(next == 77);
        if (samples == 7) CHECK(found.ranges.size() == 1);
      }
  }
  set_threads(before);
}

TEST_CASE("attention: the gradient of bias is right for any number of threads and repeats to the bit") {
  const int before = threads();
  for (const Shape& shape : {Shape{1, 3, 5, 5}, Shape{2, 3, 5, 5}, Shape{6, 1, 1, 5}, Shape{1, 1, 5, 5}}) {
    CAPTURE(to_string(shape));
    const Attention op{.heads = 3};
    const auto inputs = [&](DType dtype) {
      return std::vector<Tensor>{sample_values({6, 5, 27}, dtype, 1), sample_values(shape, dtype, 2), {}};
    };
    set_threads(1);
    const Tensor expected = run(op, inputs(DType::f64)).gradients[1];
    for (const int count : {1, 2, 4, 7}) {
      CAPTURE(count);
      set_threads(count);
      const Tensor gradient = run(op, inputs(DType::f32)).gradients[1];
      CHECK(difference(gradient, expected) < 1e-5);
      CHECK(same_bits(gradient, run(op, inputs(DType::f32), 5).gradients[1]));
    }
  }
  set_threads(before);
}

TEST_CASE("attention: the first tokens as queries give the first outputs") {
  const Tensor qkv = sample_values({3, 13, 48}, DType::f32, 1);
  const Tensor all = run({.heads = 2}, qkv).out, first = run({.heads = 2, .queries = 1}, qkv).out;
  for (std::int64_t sample = 0; sample < 3; ++sample)
    CHECK(std::memcmp(all.row_range(sample * 13, sample * 13 + 1).raw(), first.row_range(sample, sample + 1).raw(),
                      16 * sizeof(float)) == 0);
}

TEST_CASE("attention: packed and separate inputs give the same bits") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Tensor qkv = sample_values({4, 9, 30}, dtype, 1), bias = sample_values({2, 1, 9, 9}, dtype, 2),
                 length = lengths({9, 4, 0, 7});
    const Results packed =
        run(Attention{.heads = 2, .dropout = 0.3, .stream = stream}, std::vector<Tensor>{qkv, bias, length});
    const Results separate = run(CrossAttention{.heads = 2, .dropout = 0.3, .stream = stream},
                                 std::vector<Tensor>{part(qkv, 0), part(qkv, 1), part(qkv, 2), bias, length});
    CHECK(same_bits(packed.out, separate.out));
    for (const std::int64_t i : {0, 1, 2})
      CHECK(same_bits(part(packed.gradients[0], i), separate.gradients[static_cast<std::size_t>(i)]));
    CHECK(same_bits(packed.gradients[1], separate.gradients[3]));
  }
}

TEST_CASE("attention: agrees with the chain of matmul, softmax and dropout, bias gradient included") {
  const Tensor qkv = sample_values({3, 7, 24}, DType::f64, 1), bias = sample_values({3, 2, 7, 7}, DType::f64, 2);
  for (const double dropout : {0.0, 0.4}) {
    CAPTURE(dropout);
    const Attention op{.heads = 2, .dropout = dropout, .stream = stream};
    const auto gradients = [&](bool fused) {
      const std::unique_ptr<MemoryPolicy> policy = make_policy("keep");
      Tape tape(*policy);
      const Variable x(qkv, true), b(bias, true);
      Variable y;
      {
        const Recording recording(tape);
        y = fused ? apply(op, x, b, Variable()) : chain(x, b, op);
      }
      tape.backward({{y, sample_values(y.shape(), DType::f64, 9)}});
      return std::vector<Tensor>{y.tensor(), x.grad(), b.grad()};
    };
    const std::vector<Tensor> fused = gradients(true), expected = gradients(false);
    for (std::size_t i = 0; i < fused.size(); ++i) CHECK(difference(fused[i], expected[i]) < 1e-12);
  }
}

TEST_CASE("attention: keys beyond the length change nothing, and have gradient 0") {
  const std::vector<std::int64_t> length{5, 8, 1};
  Tensor qkv = sample_values({3, 8, 24}, DType::f32, 1);
  const Attention op{.heads = 2};
  const Results clean = run(op, std::vector<Tensor>{qkv, {}, lengths(length)});
  // k and v of padding hold NaN: they are not read. q of padding stays: those tokens are queries.
  for (std::int64_t sample = 0; sample < 3; ++sample)
    for (std::int64_t token = length[static_cast<std::size_t>(sample)]; token < 8; ++token)
      std::fill_n(qkv.data<float>() + (sample * 8 + token) * 24 + 8, 16, std::numeric_limits<float>::quiet_NaN());
  const Results padded = run(op, std::vector<Tensor>{qkv, {}, lengths(length)});
  CHECK(same_bits(padded.out, clean.out));
  CHECK(same_bits(padded.gradients[0], clean.gradients[0]));
  for (std::int64_t sample = 0; sample < 3; ++sample)
    for (std::int64_t token = length[static_cast<std::size_t>(sample)]; token < 8; ++token)
      for (std::int64_t i = 8; i < 24; ++i)
        CHECK(padded.gradients[0].data<float>()[(sample * 8 + token) * 24 + i] == 0);
  // A batch of one sample cut to its length.
  const Tensor cut = qkv.row_range(0, 5).clone().reshape({1, 5, 24});
  CHECK(same_bits(run(op, cut).out.row_range(0, 5), padded.out.row_range(0, 5)));
}

TEST_CASE("attention: a sample of length 0 gives zeros and zero gradients") {
  const Results found =
      run(Attention{.heads = 2}, std::vector<Tensor>{sample_values({2, 5, 12}, DType::f32, 1),
                                                     sample_values({2, 2, 5, 5}, DType::f32, 2), lengths({0, 5})});
  for (std::int64_t i = 0; i < 5 * 4; ++i) CHECK(found.out.data<float>()[i] == 0);
  for (std::int64_t i = 0; i < 5 * 12; ++i) CHECK(found.gradients[0].data<float>()[i] == 0);
  for (std::int64_t i = 0; i < 2 * 5 * 5; ++i) CHECK(found.gradients[1].data<float>()[i] == 0);
  CHECK(found.gradients[1].data<float>()[2 * 5 * 5] != 0);
}

TEST_CASE("attention: a bias of -inf masks its key") {
  Tensor bias = Tensor::zeros({1, 1, 1, 6}, DType::f32, Device::cpu);
  bias.data<float>()[4] = bias.data<float>()[5] = -std::numeric_limits<float>::infinity();
  const Tensor qkv = sample_values({3, 6, 24}, DType::f32, 1);
  const Results masked = run(Attention{.heads = 2}, std::vector<Tensor>{qkv, bias, {}});
  const Results cut = run(Attention{.heads = 2}, std::vector<Tensor>{qkv, {}, lengths({4, 4, 4})});
  CHECK(difference(masked.out, cut.out) < 1e-6);
  CHECK(difference(masked.gradients[0], cut.gradients[0]) < 1e-6);
}

TEST_CASE("attention: dropout keeps the expectation and drops at its rate") {
  // Equal scores and v = 1: an output is the sum of L equal probabilities after dropout, its mean 1.
  const std::int64_t batch = 16, length = 64, heads = 2;
  const double rate = 0.25;
  Tensor qkv = Tensor::zeros({batch, length, 3 * heads}, DType::f64, Device::cpu);
  for (std::int64_t token = 0; token < batch * length; ++token)
    for (std::int64_t head = 0; head < heads; ++head) qkv.data<double>()[token * 3 * heads + 2 * heads + head] = 1;
  const std::vector<double> out =
      run(Attention{.heads = heads, .dropout = rate, .stream = stream}, qkv).out.to_vector();
  const double count = static_cast<double>(out.size()), keys = static_cast<double>(length);
  const double mean = std::accumulate(out.begin(), out.end(), 0.0) / count;
  const double deviation = std::sqrt(rate / (1 - rate) / keys);  // of one output
  CHECK(std::abs(mean - 1) < 4 * deviation / std::sqrt(count));
  double variance = 0;
  for (const double y : out) variance += (y - mean) * (y - mean) / count;
  CHECK(variance == doctest::Approx(deviation * deviation).epsilon(0.15));
}

TEST_CASE("attention: draws depend on the sample's number, not on how the batch is split") {
  const Tensor qkv = sample_values({5, 6, 24}, DType::f32, 1);
  Attention op{.heads = 2, .dropout = 0.5, .stream = stream};
  op.stream.first_sample = 3;
  const Tensor whole = run(op, qkv).out;
  for (std::int64_t sample = 0; sample < 5; ++sample) {
    op.stream.first_sample = static_cast<std::uint32_t>(3 + sample);
    CHECK(same_bits(run(op, qkv.leading(sample, sample + 1)).out.row_range(0, 6),
                    whole.row_range(6 * sample, 6 * sample + 6)));
  }
}

TEST_CASE("attention: a recomputed region sees the same draws") {
  const std::unique_ptr<MemoryPolicy> policy = make_policy("keep");
  const Tensor qkv = sample_values({3, 7, 24}, DType::f32, 1), dy = sample_values({3, 7, 8}, DType::f32, 9);
  const Attention op{.heads = 2, .dropout = 0.4, .stream = stream};
  const auto gradient = [&](bool recomputed) {
    Tape tape(*policy);
    const Variable x(qkv, true);
    Variable y;
    {
      const Recording recording(tape);
      const auto body = [&](Variable in) { return apply(op, std::move(in), Variable(), Variable()); };
      y = recomputed ? checkpoint(Label("block"), body, x) : body(x);
    }
    tape.backward({{y, dy}});
    return x.grad();
  };
  CHECK(same_bits(gradient(true), gradient(false)));
}

TEST_CASE("attention: large scores stay finite, and NaN is not hidden") {
  const Tensor qkv = sample_values({1, 9, 24}, DType::f32, 1, -300, 300);
  for (const double v : run({.heads = 1}, qkv).gradients[0].to_vector()) CHECK(std::isfinite(v));
  qkv.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(run({.heads = 1}, qkv).out.to_vector()[0]));
}

TEST_CASE("attention: inputs that do not fit are refused") {
  const Tensor qkv = sample_values({4, 5, 12}, DType::f32, 1);
  const auto refused = [&](const Attention& op, const Tensor& bias, const Tensor& length) {
    std::vector<Tensor> extra_outputs;
    CHECK_THROWS_AS(op.forward(std::vector<Tensor>{qkv, bias, length}, extra_outputs), Error);
  };
  const Attention op{.heads = 2};
  refused({.heads = 3}, {}, {});
  refused({.heads = 2, .queries = 6}, {}, {});
  refused({.heads = 2, .dropout = 1}, {}, {});
  refused(op, sample_values({3, 2, 5, 5}, DType::f32, 2), {});
  refused(op, sample_values({1, 4, 5, 5}, DType::f32, 2), {});
  refused(op, sample_values({1, 2, 5, 1}, DType::f32, 2), {});
  refused(op, sample_values({1, 2, 5, 5}, DType::f64, 2), {});
  refused(op, {}, lengths({5, 5, 5}));
  refused(op, {}, lengths({5, 6, 5, 5}));
  refused(op, {}, lengths({5, -1, 5, 5}));
  refused(op, {}, sample_values({4}, DType::f32, 2));
  const auto cross = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    CHECK_THROWS_AS((CrossAttention{.heads = 2}.forward(std::vector<Tensor>{q, k, v, {}, {}})), Error);
  };
  const Tensor q = sample_values({4, 5, 4}, DType::f32, 1);
  cross(q, sample_values({4, 3, 6}, DType::f32, 1), sample_values({4, 3, 6}, DType::f32, 1));
  cross(q, sample_values({3, 3, 4}, DType::f32, 1), sample_values({3, 3, 4}, DType::f32, 1));
  cross(q, sample_values({4, 3, 4}, DType::f32, 1), sample_values({4, 2, 4}, DType::f32, 1));
  cross(q, sample_values({4, 3, 4}, DType::f64, 1), sample_values({4, 3, 4}, DType::f64, 1));
}

}  // namespace lacuna
