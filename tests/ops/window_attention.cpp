// Memory of window attention's backward, by the ledger.
#include "ops/attention/window_attention.h"

#include "autograd/tape.h"
#include "core/ledger.h"
#include "core/parallel.h"

#include <doctest/doctest.h>

namespace lacuna {
namespace {

/// The highest workspace of backward on meta, with or without the table's gradient.
std::int64_t workspace_of(const WindowAttention& op, bool wants_table) {
  const Device device = Device::meta;
  const std::unique_ptr<MemoryPolicy> policy = make_policy("keep");
  Tape tape(*policy);
  constexpr std::int64_t images = 2, head_dim = 8;
  const Variable qkv(Tensor::empty({images, op.height * op.width, 3 * op.heads * head_dim}, DType::f32, device), true);
  const Variable table(
      Tensor::empty({(2 * op.window_height - 1) * (2 * op.window_width - 1), op.heads}, DType::f32, device),
      wants_table);
  std::vector<std::pair<Variable, Tensor>> losses;
  {
    const Recording recording(tape);
    Variable y = apply(op, qkv, table, Variable(), Variable());
    const Tensor dy = empty_like(y.tensor());
    losses.emplace_back(std::move(y), dy);
  }
  ledger(device).reset_peak();
  tape.backward(std::move(losses));
  return at(ledger(device).highest(), Purpose::workspace);
}

}  // namespace

TEST_CASE("window_attention: the table's gradient takes no matrix of queries by keys for a thread") {
  const int before = threads();
  set_threads(16);
  const WindowAttention op{.heads = 4, .height = 96, .width = 24, .window_height = 24, .window_width = 24};
  const std::int64_t matrix = 24 * 24 * 24 * 24 * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t without = workspace_of(op, false), with = workspace_of(op, true);
  set_threads(before);
  CHECK(with > without);
  CHECK(with - without < 16 * matrix);
}

}  // namespace lacuna
