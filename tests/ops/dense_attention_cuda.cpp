// Attention that cuDNN computes, in several parts.
#include "ops/attention/dense_form.h"
#include "ops/attention/sequence_attention.h"
#include "ops/cuda_libraries.h"
#include "tests/ops/op_run.h"
#include "tests/ops/op_sample.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <vector>

namespace lacuna {
namespace {

struct WithoutCudnn {
  WithoutCudnn() { uses_cudnn() = false; }
  ~WithoutCudnn() { uses_cudnn() = true; }
};

/// Attention as cuDNN is asked for it, for these sequences of up to 5 tokens.
cuda::DenseAttention asked_for(const SequencesPtr& sequences, bool backward) {
  AttentionArguments a{.samples = sequences->count(),
                       .heads = 2,
                       .queries = sequences->longest(),
                       .keys = sequences->longest(),
                       .head_dim = 8,
                       .query_rows = sequences->longest(),
                       .scale = 1};
  a.sequences = sequences.get();
  a.every_query = true;
  return dense_problem(dense_form(a).value(), DType::bf16, backward);
}

}  // namespace

TEST_CASE("cuda: padded texts are computed in one form, whether the host knows their lengths, and whatever they are") {
  using Lengths = std::vector<std::int64_t>;
  for (const bool backward : {false, true}) {
    const cuda::DenseAttention full = asked_for(Sequences::padded(Lengths{5, 5, 5}, 5), backward);
    CHECK(full.rows == cuda::SampleRows::padded);
    CHECK(asked_for(Sequences::padded(Lengths{3, 1, 4}, 5), backward) == full);
    const Tensor lengths = Tensor::from(std::span<const std::int64_t>(Lengths{2, 5, 1}), {3}, Device::cuda);
    CHECK(asked_for(Sequences::padded(lengths, 5), backward) == full);
    CHECK(asked_for(Sequences::packed(Lengths{0, 5, 10, 15}), backward).rows == cuda::SampleRows::equal);
  }
}

TEST_CASE("cuda: packed sequences with dropout in several parts come out as by kernels of our own") {
  std::vector<std::int64_t> offsets{0};
  for (std::int64_t i = 0; i < 5; ++i) offsets.push_back(offsets.back() + 1024 - 100 * i);
  const std::int64_t rows = offsets.back(), width = 16;
  const SequenceAttention attention{
      .heads = 2, .sequences = Sequences::packed(offsets), .dropout = 0.2, .stream = {1, 2, 3}, .positions = 1024};
  const DenseArguments asked{.samples = 5,
                             .heads = 2,
                             .kv_heads = 2,
                             .queries = 1024,
                             .keys = 1024,
                             .head_dim = 8,
                             .query_rows = 1024,
                             .scale = 1,
                             .causal = false,
                             .q = {},
                             .k = {},
                             .v = {},
                             .rows = cuda::SampleRows::packed,
                             .sequences = attention.sequences.get(),
                             .dropout = 0.2};
  REQUIRE(cuda::samples_at_once(dense_problem(asked, DType::bf16, true)) < 5);
  const Bound<SequenceAttention> op(attention);
  std::vector<Tensor> inputs;
  for (const unsigned site : {1U, 2U, 3U})
    inputs.push_back(sample_values({1, rows, width}, DType::bf16, site).to(Device::cuda));
  InputSet all;
  for (const int i : {0, 1, 2}) all.insert(i);
  const auto run = [&] {
    const Result result = forward(op, inputs);
    std::vector<Tensor> tensors{result.y()};
    for (Tensor& gradient : backward(op, result, projections(result), all)) tensors.push_back(std::move(gradient));
    return std::pair(tensors, result.extra_outputs.size());
  };
  const auto [by_cudnn, with_sums] = run();
  const WithoutCudnn without;
  const auto [own, outputs] = run();
  CHECK(with_sums == outputs + 1);  // the log sums
  REQUIRE(by_cudnn.size() == own.size());
  for (std::size_t i = 0; i < own.size(); ++i) CHECK(relative_error(by_cudnn[i], own[i]) < 0.02);
}

}  // namespace lacuna
