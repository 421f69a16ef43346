#include "ops/attention.h"
#include "core/parallel.h"
#include "tests/ops/op_sample.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace lacuna {
namespace {

/// What attention saves, handed out so many rows at a time.
class SavedByRuns final : public SavedTensors {
 public:
  SavedByRuns(std::vector<Tensor> tensors, std::int64_t rows) : tensors_(std::move(tensors)), rows_(rows) {}
  Tensor whole(std::size_t row) const override { return tensors_[row]; }
  Tensor rows(std::size_t row, std::int64_t begin, std::int64_t end, Tensor*) const override {
    ranges_.push_back({begin, end});
    return tensors_[row].row_range(begin, end);
  }
  std::int64_t block_rows(std::size_t) const override { return rows_; }
  Signs signs(std::size_t row) const override { return {tensors_[row], {}}; }
  /// That were asked for, in turn.
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Tensor> tensors_;
  std::int64_t rows_;
  mutable std::vector<Range> ranges_;
};

struct Results {
  Tensor out, gradient;
  std::vector<Range> ranges;  // of the rows that backward read
};

Results run(const Attention& op, const Tensor& qkv, std::int64_t block_rows) {
  std::vector<Tensor> extra_outputs;
  const std::vector<Tensor> inputs{qkv};
  const Tensor out = op.forward(inputs, extra_outputs);
  CHECK(extra_outputs.empty());
  const SavedByRuns saved({qkv}, block_rows);
  Grads grads(1, {Attention::qkv});
  op.backward(sample_values(out.shape(), out.dtype(), 9), Saved<Attention>(saved), grads);
  return {out, grads[Attention::qkv], saved.ranges()};
}

double difference(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_vector(), y = b.to_vector();
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, std::abs(x[i] - y[i]));
    largest = std::max(largest, std::abs(y[i]));
  }
  return worst / largest;
}

}  // namespace

TEST_CASE("attention in f32 agrees with f64 at the size of a vision transformer") {
  const Attention op{.heads = 3};
  const Results narrow = run(op, sample_values({2, 197, 576}, DType::f32, 1), 1000);
  const Results wide = run(op, sample_values({2, 197, 576}, DType::f64, 1), 1000);
  CHECK(difference(narrow.out, wide.out) < 2e-6);
  CHECK(difference(narrow.gradient, wide.gradient) < 5e-6);
}

TEST_CASE("attention's gradient has the same bits however many saved rows come at a time") {
  const Attention op{.heads = 1, .queries = 5};
  const Tensor qkv = sample_values({7, 11, 24}, DType::f32, 1);
  const Results whole = run(op, qkv, 77), parts = run(op, qkv, 1);
  CHECK(std::memcmp(whole.gradient.raw(), parts.gradient.raw(), static_cast<std::size_t>(qkv.bytes())) == 0);
}

TEST_CASE("attention's gradient has the same bits whatever the threads, and reads each image once") {
  const int before = threads();
  for (const int heads : {1, 2, 3}) {
    const Attention op{.heads = heads};
    const Tensor qkv = sample_values({7, 11, 36}, DType::f32, 1);
    set_threads(1);
    const Tensor expected = run(op, qkv, 77).gradient;
    for (const int count : {1, 2, 3, 4})
      for (const std::int64_t images : {1, 2, 3, 4, 5, 7}) {
        CAPTURE(heads);
        CAPTURE(count);
        CAPTURE(images);
        set_threads(count);
        const Results found = run(op, qkv, 11 * images);
        CHECK(std::memcmp(found.gradient.raw(), expected.raw(), static_cast<std::size_t>(qkv.bytes())) == 0);
        std::int64_t next = 0;
        const std::int64_t fewest = (count + heads - 1) / heads;   // that give every thread a head
        const std::int64_t even = count / std::gcd(count, heads);  // that give every thread as many
        for (const Range& range : found.ranges) {
          CHECK(range.begin == next);
          CHECK(range.end - range.begin <= 11 * std::max(images, fewest));
          const std::int64_t tasks = (range.end - range.begin) / 11 * heads;
          if (images >= even && images < 7 && range.end < 77) {
            CHECK(tasks % count == 0);
            CHECK(range.end - range.begin > 11 * (images - even));
          }
          next = range.end;
        }
        CHECK(next == 77);
        if (images == 7) CHECK(found.ranges.size() == 1);
      }
  }
  set_threads(before);
}

TEST_CASE("attention asked by its first tokens alone gives their outputs") {
  const Tensor qkv = sample_values({3, 13, 48}, DType::f32, 1);
  const Tensor all = run({.heads = 2}, qkv, 100).out, first = run({.heads = 2, .queries = 1}, qkv, 100).out;
  for (std::int64_t image = 0; image < 3; ++image)
    CHECK(std::memcmp(all.row_range(image * 13, image * 13 + 1).raw(), first.row_range(image, image + 1).raw(),
                      16 * sizeof(float)) == 0);
}

TEST_CASE("attention bears large scores, and shows a NaN") {
  const Tensor qkv = sample_values({1, 9, 24}, DType::f32, 1, -300, 300);
  for (const double v : run({.heads = 1}, qkv, 100).gradient.to_vector()) CHECK(std::isfinite(v));
  qkv.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(run({.heads = 1}, qkv, 100).out.to_vector()[0]));
}

TEST_CASE("attention refuses a width that its heads do not divide") {
  const std::vector<Tensor> inputs{sample_values({1, 4, 20}, DType::f32, 1)};
  std::vector<Tensor> extra_outputs;
  CHECK_THROWS_AS(Attention{.heads = 3}.forward(inputs, extra_outputs), Error);
}

}  // namespace lacuna
