// Random graphs over the ops of both model families: whatever a policy drops, derives or masks, and whatever the
// program holds on to, outputs and gradients are the same to the bit, and nothing is left behind.
#include "autograd/tape.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/attention/attention.h"
#include "ops/attention/heads.h"
#include "ops/convolution/conv.h"
#include "ops/curves/activation.h"
#include "ops/curves/dropout.h"
#include "ops/curves/softmax.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/layer_norm.h"
#include "ops/pooling/pool.h"
#include "ops/products/linear.h"
#include "ops/products/matmul.h"
#include "ops/shapes/concat_channels.h"
#include "ops/shapes/resize.h"
#include "ops/shapes/slicing.h"
#include "tests/autograd/graphs.h"

#include <doctest/doctest.h>

using namespace lacuna;

namespace {

constexpr std::int64_t width = 8;  // channels of every value

struct Setup {
  std::uint64_t seed;
  DType dtype;
  bool images;  // [2, 4, 4, 8] instead of tokens [2, 3, 8]
  std::string_view policy;
  bool holds_all = false;  // every value keeps its variable until after backward
  bool twice = false;      // walked back once before, with everything retained and each gradient taken away
};

/// Draws a program and runs it; the same seed gives the same program.
class RandomGraph {
 public:
  explicit RandomGraph(const Setup& setup) : setup_(setup) {
    const Shape shape = setup.images ? Shape{2, 4, 4, width} : Shape{2, 3, width};
    for (int i = 0; i < 2; ++i) add(leaf(shape, setup.dtype));
  }

  /// Every leaf's gradient and the outputs, as bytes; and the bytes saved.
  struct Result {
    std::vector<std::string> tensors;
    std::string program;
    std::int64_t saved = 0;
  };
  Result run(int ops) {
    Result result;
    {
      Tape tape(policy(setup_.policy));
      const Recording recording(tape);
      for (int i = 0; i < ops; ++i) {
        Variable made = setup_.images ? image_op() : token_op();
        add(std::move(made));
      }
      // Only the last one or two values of the pool reach a loss.
      std::vector<std::pair<Variable, Tensor>> losses;
      const std::size_t count = std::min<std::size_t>(1 + choose(2), pool_.size());
      for (std::uint32_t i = 0; i < count; ++i) {
        Variable value = std::move(pool_.back());
        pool_.pop_back();
        if (!value.requires_grad()) continue;
        result.tensors.push_back(bytes_of(value.tensor()));
        const Tensor start = test_values(value.shape(), 90 + i, setup_.dtype);
        losses.emplace_back(std::move(value), start);
      }
      if (choose(2) == 0) pool_.clear();
      if (!losses.empty() && setup_.twice) walk_back_and_take(tape, losses);
      if (!losses.empty()) tape.backward(losses);
      result.saved = tape.saved_bytes();
      for (const auto& [index, gradient] : taken_) CHECK(gradient == bytes_of(leaves_[index].grad()));
    }
    for (const Variable& leaf : leaves_)
      if (leaf.requires_grad() && leaf.grad().defined()) result.tensors.push_back(bytes_of(leaf.grad()));
    result.program = program_;
    return result;
  }

 private:
  void walk_back_and_take(Tape& tape, const std::vector<std::pair<Variable, Tensor>>& losses) {
    tape.finalize();
    const std::int64_t before = live_bytes(Purpose::saved);
    tape.backward(losses, {.post_accumulate_grad_hooks = {[&](const Leaf& leaf) {
                             for (std::size_t i = 0; i < leaves_.size(); ++i) {
                               if (leaves_[i].leaf() != &leaf) continue;
                               CHECK(taken_.emplace(i, bytes_of(leaves_[i].grad())).second);  // once a leaf
                               leaves_[i].set_grad({});
                             }
                           }},
                           .retain_graph = true});
    for (const Variable& leaf : leaves_) CHECK((!leaf.requires_grad() || !leaf.grad().defined()));
    CHECK(live_bytes(Purpose::saved) == before);
    CHECK(live_bytes(Purpose::workspace) == 0);
  }
  static std::string bytes_of(const Tensor& tensor) {
    return {reinterpret_cast<const char*>(tensor.data<const std::byte>()), static_cast<std::size_t>(tensor.bytes())};
  }
  std::uint32_t choose(std::uint32_t bound) {
    return RandomStream{.seed = setup_.seed, .step = 0, .site = 1}.below(draws_++, bound);
  }
  Variable leaf(const Shape& shape, DType dtype) {
    leaves_.emplace_back(test_values(shape, 100 + static_cast<std::uint32_t>(leaves_.size()), dtype), choose(4) != 0);
    return leaves_.back();
  }
  /// A parameter, frozen now and then.
  Variable parameter(const Shape& shape) {
    const Variable made = leaf(shape, DType::f32);
    made.tensor().set_purpose(Purpose::parameters);
    return made;
  }
  /// A running statistic, positive; nothing but the op that gets it names it.
  Variable statistic(double value) {
    return Variable(Tensor::full({width}, value, DType::f32, Device::cpu, Purpose::parameters));
  }
  void add(Variable value) {
    if (setup_.holds_all) held_.push_back(value);
    pool_.push_back(std::move(value));
  }
  /// A value made before; often it is gone from the pool then.
  Variable take() {
    const std::size_t index = pool_.size() - 1 - std::min<std::size_t>(choose(4), pool_.size() - 1);
    Variable value = pool_[index];
    if (pool_.size() > 1 && choose(2) == 0) pool_.erase(pool_.begin() + static_cast<std::ptrdiff_t>(index));
    return value;
  }
  RandomStream stream() { return {.seed = setup_.seed, .step = 1, .site = choose(1000)}; }
  template <class Op, class... Inputs>
  Variable run(Op op, Inputs&&... inputs) {
    program_ += std::string(Op::name) + " ";
    return apply(std::move(op), std::forward<Inputs>(inputs)...);
  }

  /// Ops for values of any shape.
  Variable common_op(std::uint32_t which) {
    switch (which) {
      case 0:
        return run(Gelu{}, take());
      case 1:
        return run(Relu{}, take());
      case 2:
        return run(Silu{}, take());
      case 3:
        return run(Tanh{}, run(Mul{}, take(), take()));
      case 4:
        return run(Scale{0.75}, take());
      case 5:
        return run(Add{}, take(), take());
      case 6:
        return run(Dropout{.p = 0.3, .stream = stream()}, take());
      case 7:
        return run(DropPath{.p = 0.3, .stream = stream()}, take());
      default:
        return take().reshape(pool_.front().shape());
    }
  }
  static constexpr std::uint32_t common_ops = 9;

  Variable token_op() {
    const std::uint32_t which = choose(common_ops + 11);
    const auto linear = [&](Variable x, std::int64_t out) {
      return run(Linear{}, std::move(x), parameter({out, width}), choose(3) == 0 ? Variable() : parameter({out}));
    };
    switch (which) {
      case common_ops:
        return run(Sigmoid{}, take());
      case common_ops + 1:
        return run(Gelu(Gelu::Form::tanh), take());
      case common_ops + 2:
        return run(Softmax{}, take());
      case common_ops + 3:
        return run(LogSoftmax{}, take());
      case common_ops + 4:
      case common_ops + 5:
        return linear(take(), width);
      case common_ops + 6:
        return run(LayerNorm{}, take(), parameter({width}), parameter({width}));
      case common_ops + 7:
        return run(AddBroadcast{.shape = {3, width}}, take(), parameter({1, 3, width}).reshape({3, width}));
      case common_ops + 8:
        return run(Attention{.heads = 2}, linear(take(), 3 * width), Variable(), Variable());
      case common_ops + 9: {
        const Variable qkv = linear(take().reshape({6, width}), 3 * width).reshape({2, 3, 3 * width});
        const auto part = [&](std::int64_t i) { return run(SplitHeads{.heads = 2, .part = i, .parts = 3}, qkv); };
        Variable scores = run(MatMul{.transpose_b = true, .scale = 0.5}, part(0), part(1));
        return run(MergeHeads{.heads = 2}, run(MatMul{}, run(Softmax{}, std::move(scores)), part(2)));
      }
      case common_ops + 10: {
        const Variable x = take();
        Variable front = run(Slice{.axis = 1, .begin = 0, .end = 1, .extent = 3}, x);
        Variable rest = run(Slice{.axis = 1, .begin = 1, .end = 3, .extent = 3}, x);
        return run(Concat{.axis = 1, .extents = {2, 1}}, std::move(rest), std::move(front));
      }
      default:
        return common_op(which);
    }
  }

  /// Images of half the sides, made larger again.
  Variable resized() {
    Variable x = run(AvgPool2d{.kernel = 2, .stride = 2, .padding = 0, .height = 4, .width = 4}, take());
    if (choose(2) == 0) x = run(Linear{}, std::move(x), parameter({width, width}), Variable());
    if (choose(2) == 0) x = run(BatchNormRelu{}, std::move(x), parameter({width}), parameter({width}));
    return run(Resize{.height = 2, .width = 2, .out_height = 4, .out_width = 4}, std::move(x));
  }

  Variable image_op() {
    const std::uint32_t which = choose(common_ops + 10);
    switch (which) {
      case common_ops:
        return run(Conv2d{.padding = 1, .kernel_height = 3, .kernel_width = 3, .height = 4, .width = 4}, take(),
                   parameter({width, width, 3, 3}), choose(2) == 0 ? Variable() : parameter({width}));
      case common_ops + 1:
        return run(BatchNorm{}, take(), parameter({width}), parameter({width}));
      case common_ops + 2:
        return run(BatchNormRelu{}, take(), parameter({width}), parameter({width}));
      case common_ops + 3:
        return run(BatchNormAddRelu{}, take(), parameter({width}), parameter({width}), take());
      case common_ops + 4:
        return run(FrozenBatchNorm{}, take(), parameter({width}), parameter({width}), statistic(0.1), statistic(2));
      case common_ops + 5:
        return run(FrozenBatchNormRelu{}, take(), parameter({width}), parameter({width}), statistic(0.1), statistic(2),
                   choose(2) == 0 ? Variable() : take());
      case common_ops + 6:
        return run(MaxPool2d{.kernel = 3, .stride = 1, .padding = 1, .height = 4, .width = 4}, take());
      case common_ops + 7:
        return run(AvgPool2d{.kernel = 3, .stride = 1, .padding = 1, .height = 4, .width = 4}, take());
      case common_ops + 8:
        return resized();
      case common_ops + 9: {
        Variable x = choose(2) == 0 ? resized() : take();
        x = run(ConcatChannels{.channels = {width, width}}, std::move(x), choose(2) == 0 ? resized() : take());
        return run(Linear{}, std::move(x), parameter({width, 2 * width}), Variable());
      }
      default:
        return common_op(which);
    }
  }

  Setup setup_;
  std::uint64_t draws_ = 0;
  std::vector<Variable> leaves_, pool_, held_;
  std::string program_;
  std::map<std::size_t, std::string> taken_;  // each leaf's gradient when it was told to be whole
};

}  // namespace

TEST_CASE("policies without loss give the same bits on random graphs, and leave nothing behind") {
  const std::int64_t before = ledger(Device::cpu).total();
  std::int64_t kept = 0, exact = 0, compared = 0;
  for (const bool images : {false, true}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (std::uint64_t seed = 0; seed < 60; ++seed) {
        CAPTURE(images);
        CAPTURE(name_of(dtype));
        CAPTURE(seed);
        const int ops = 4 + static_cast<int>(seed % 24);
        const auto run = [&](std::string_view name, bool holds_all, bool twice = false) {
          RandomGraph::Result result = RandomGraph({.seed = seed,
                                                    .dtype = dtype,
                                                    .images = images,
                                                    .policy = name,
                                                    .holds_all = holds_all,
                                                    .twice = twice})
                                           .run(ops);
          CHECK(ledger(Device::cpu).total() == before);
          CHECK(live_bytes(Purpose::saved) == 0);
          return result;
        };
        const RandomGraph::Result reference = run("keep", false);
        CAPTURE(reference.program);
        for (const bool holds_all : {false, true}) {
          const RandomGraph::Result result = run("exact", holds_all);
          CHECK(result.tensors == reference.tensors);
          CHECK(result.saved <= reference.saved);
          for (const std::string_view again : {"keep", "exact"})
            CHECK(run(again, holds_all, true).tensors == reference.tensors);
          exact += result.saved;
          compared += static_cast<std::int64_t>(result.tensors.size());
        }
        kept += 2 * reference.saved;
      }
    }
  }
  CHECK(exact < kept * 3 / 4);
  CHECK(compared > 2000);
}
