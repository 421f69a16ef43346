// Tensors that no backward reads are links of chains: what is read behind them is rematerialized through them.
#include "autograd/tape.h"
#include "ops/curves/dropout.h"
#include "ops/norms/batch_norm.h"
#include "ops/products/linear.h"
#include "ops/shapes/concat_channels.h"
#include "ops/shapes/resize.h"
#include "tests/autograd/graphs.h"

namespace lacuna {
namespace {

constexpr std::int64_t width = 64;

/// A decoder of two levels, as of UperNet and SegFormer: each is projected, the coarse one is resized, and the last
/// layer reads both side by side.
struct Decoder {
  bool norms = false, trains_last = true;
  double dropout = 0;
  Variable fine = test_leaf({2, 16, 16, width}, 1, DType::f32), coarse = test_leaf({2, 8, 8, width}, 2, DType::f32);
  Variable first = test_parameter({width, width}, 3, DType::f32), scale = test_parameter({width}, 4, DType::f32),
           shift = test_parameter({width}, 5, DType::f32), last = test_parameter({8, 2 * width}, 6, DType::f32);

  Variable forward() {
    last.set_requires_grad(trains_last);
    const auto level = [&](const Variable& x) {
      Variable h = apply(Linear{}, x, first, Variable());
      if (norms) h = apply(BatchNormRelu{}, std::move(h), scale, shift);
      if (dropout > 0) h = apply(Dropout{.p = dropout, .stream = {.seed = 5, .step = 3, .site = 9}}, std::move(h));
      return h;
    };
    Variable wide = level(fine);
    Variable resized = apply(Resize{.height = 8, .width = 8, .out_height = 16, .out_width = 16}, level(coarse));
    wide = apply(ConcatChannels{.channels = {width, width}}, std::move(wide), std::move(resized));
    return apply(Linear{}, std::move(wide), last, Variable());
  }

  struct Result {
    std::vector<double> gradients;
    std::map<std::string, Tape::SavedTensorReport> saved;  // by name
    std::int64_t bytes = 0;
  };
  Result run(MemoryPolicy& memory) {
    Result result;
    Tape tape(memory);
    const Recording recording(tape);
    const Variable loss = total(forward());
    for (const Tape::SavedTensorReport& one : tape.report()) {
      result.saved.emplace(one.info.name(), one);
      result.bytes += one.bytes;
    }
    tape.backward(loss);
    CHECK(live_bytes(Purpose::saved) == 0);
    for (const Variable& leaf : {fine, coarse, first, scale, shift, last})
      if (leaf.requires_grad() && leaf.grad().defined())
        for (const double value : leaf.grad().to_vector()) result.gradients.push_back(value);
    return result;
  }
};

constexpr std::int64_t element = 4, fine_values = 2 * 16 * 16 * width, coarse_values = 2 * 8 * 8 * width;

}  // namespace

TEST_CASE("a level is held before it is resized, where it is smaller") {
  const Decoder::Result keep = Decoder{}.run(policy("keep")), exact = Decoder{}.run(policy("exact"));
  CHECK(exact.gradients == keep.gradients);
  CHECK(exact.saved.at("concat_channels").hold == Hold::rematerialize);
  CHECK(exact.saved.at("resize").hold == Hold::rematerialize);
  CHECK(keep.bytes - exact.bytes == element * (fine_values - coarse_values));
}

TEST_CASE("a ReLU behind a norm is a link though its own backward drops it") {
  for (const double dropout : {0.0, 0.5}) {
    CAPTURE(dropout);
    const Decoder::Result keep = Decoder{.norms = true, .dropout = dropout}.run(policy("keep")),
                          exact = Decoder{.norms = true, .dropout = dropout}.run(policy("exact"));
    CHECK(exact.gradients == keep.gradients);
    // A chain has three links at most: with dropout between, the coarse level is held as it goes into the resize.
    CHECK(exact.saved.at("concat_channels").hold == (dropout > 0 ? Hold::keep : Hold::rematerialize));
    if (dropout == 0) CHECK(keep.bytes - exact.bytes == element * 2 * fine_values);
  }
}

TEST_CASE("levels of one size are not held in place of what they make together") {
  const auto run = [](MemoryPolicy& memory) {
    const Variable x = test_leaf({2, 8, 8, width}, 1, DType::f32),
                   weight = test_parameter({width, width}, 3, DType::f32),
                   last = test_parameter({8, 2 * width}, 4, DType::f32);
    Tape tape(memory);
    const Recording recording(tape);
    Variable both = apply(ConcatChannels{.channels = {width, width}}, apply(Linear{}, x, weight, Variable()),
                          apply(Linear{}, x, weight, Variable()));
    const Variable loss = total(apply(Linear{}, std::move(both), last, Variable()));
    std::int64_t bytes = 0;
    for (const Tape::SavedTensorReport& one : tape.report()) bytes += one.bytes;
    return bytes;
  };
  CHECK(run(policy("exact")) == run(policy("keep")));
}

TEST_CASE("links that nobody reads through are not held") {
  for (const bool norms : {false, true}) {
    Decoder decoder{.norms = norms, .trains_last = false};
    const Decoder::Result exact = decoder.run(policy("exact"));
    CHECK(!exact.saved.contains("concat_channels"));
    CHECK(!exact.saved.contains("resize"));
    CHECK(exact.gradients == Decoder{.norms = norms, .trains_last = false}.run(policy("keep")).gradients);
  }
}

TEST_CASE("links under policies that quantize: fewer bytes, and signs stay exact") {
  for (const std::string_view name : {"fixed", "mesa"}) {
    CAPTURE(name);
    const Decoder::Result keep = Decoder{.norms = true}.run(policy("keep")),
                          coded = Decoder{.norms = true}.run(policy(name));
    CHECK(coded.saved.at("concat_channels").hold == Hold::rematerialize);
    CHECK(coded.saved.at("batch_norm_relu").signs);
    // The gradient of the shift is that of the ReLU's result where it is positive: no other value comes in.
    const std::size_t begin = static_cast<std::size_t>(fine_values + coarse_values + width * width + width);
    for (std::size_t i = begin; i < begin + width; ++i) CHECK(coded.gradients[i] == keep.gradients[i]);
  }
}

}  // namespace lacuna
