// Holders by themselves: what each takes, what can be read of it, and that `release` frees it.
#include "autograd/holders/holder.h"

#include "autograd/saved_tensor.h"
#include "ops/curves/activation.h"
#include "tests/ops/quantized_values.h"

#include <doctest/doctest.h>

#include <cmath>

namespace lacuna {
namespace {

constexpr std::int64_t rows = 16, width = 256;

struct Fixture {
  Tensor values = test::tensor_of(test::normal_values(rows * width, 3)).reshape({rows, width});
  SavedTensorInfo info{};
  Owner owner{Purpose::transient, Label("gelu"), Label("block")};
  Origin origin{};

  Fixture() {
    info.op = owner.op;
    info.path = owner.path;
    info.shape = values.shape();
  }
  Holder held(const Hold& hold, bool is_owned = true) {
    return make_holder(hold, {values, values.storage()->version(), info, owner, is_owned, origin});
  }
  Operand read(Holder& holder) const {
    const ReadRequest request{info.shape, Label("linear"), false, false};
    return Operand(std::visit([&](auto& held) { return held.read(request); }, holder), info.shape, DType::f32,
                   Device::cpu, info.op, info.path);
  }
};

std::int64_t bytes_of(const Holder& holder) {
  return std::visit([](const auto& held) { return held.bytes(); }, holder);
}

std::int64_t saved_bytes() { return at(ledger(Device::cpu).live(), Purpose::saved); }

}  // namespace

TEST_CASE_FIXTURE(Fixture, "holders: the ledger counts what a holder says that it takes, until it is released") {
  const std::int64_t before = saved_bytes(), whole = values.bytes();
  const Hold eight{.kind = Hold::quantize, .config = quant::min_error_config(8, {})};
  Hold with_signs = eight;
  with_signs.signs = true;
  for (const auto& [hold, low, high] : {std::tuple(Hold{.kind = Hold::drop}, std::int64_t{0}, std::int64_t{0}),
                                        std::tuple(Hold{.kind = Hold::keep}, whole, whole),
                                        std::tuple(Hold{.kind = Hold::sign_mask}, whole / 32, whole / 32),
                                        std::tuple(eight, whole / 4, whole / 4 + whole / 16),
                                        std::tuple(with_signs, whole / 4 + whole / 32, whole / 4 + whole / 8)}) {
    CAPTURE(name_of(hold.kind));
    Holder holder = held(hold);
    CHECK(std::visit([](const auto& own) { return own.kind; }, holder) == hold.kind);
    CHECK(bytes_of(holder) >= low);
    CHECK(bytes_of(holder) <= high);
    CHECK(saved_bytes() - before == bytes_of(holder));
    std::visit([](auto& own) { own.release(); }, holder);
    CHECK(bytes_of(holder) == 0);
    CHECK(saved_bytes() == before);
  }
  CHECK(bytes_of(held({.kind = Hold::keep}, false)) == 0);
  CHECK(saved_bytes() == before);
}

TEST_CASE_FIXTURE(Fixture,
                  "holders: a kept tensor is read as it is, a quantized one nearly, of a mask only the signs") {
  Holder kept = held({.kind = Hold::keep});
  CHECK(read(kept).whole().data<float>() == values.data<float>());
  Holder quantized = held({.kind = Hold::quantize, .config = quant::min_error_config(8, {})});
  const Tensor decoded = read(quantized).whole();
  for (std::int64_t i = 0; i < values.count(); ++i)
    CHECK(std::abs(decoded.data<float>()[i] - values.data<float>()[i]) < 0.05F);
  Holder mask = held({.kind = Hold::sign_mask});
  CHECK_THROWS_AS(read(mask).whole(), Error);
  CHECK(read(mask).as<SignForm>() != nullptr);
  Holder dropped = held({.kind = Hold::drop});
  CHECK(!read(dropped).defined());
}

TEST_CASE_FIXTURE(Fixture, "holders: slopes take two bits an element") {
  const std::int64_t before = saved_bytes();
  Holder slopes = held({.kind = Hold::quantize, .slopes = &quant::gelu_slopes});
  CHECK(bytes_of(slopes) == values.count() / 4);
  CHECK(saved_bytes() - before == values.count() / 4);
  CHECK(read(slopes).as<SlopeForm>() != nullptr);
  std::visit([](auto& own) { own.release(); }, slopes);
  CHECK(saved_bytes() == before);
}

TEST_CASE_FIXTURE(Fixture, "holders: a rematerialized tensor takes nothing, keeps its source, and has the same bits") {
  const std::unique_ptr<MemoryPolicy> keep = make_policy("keep");
  const auto op = std::make_shared<const Bound<Gelu>>(Gelu{});
  SavedTensorQueue queue;
  const Tensor x = test::tensor_of(test::normal_values(rows * width, 4)).reshape({rows, width});
  const auto source = std::make_shared<SavedTensor>(x, *keep, TapePlace{.tape = 1, .pass = 1}, queue,
                                                    Producer{.op = Label("linear"), .path = Label("block")});
  std::vector<Tensor> none;
  const Tensor y = op->forward(std::vector{x}, none).front();
  origin = {op, {source}, {Shape{rows, width}}};
  info.bytes = y.bytes();
  Holder holder = held({.kind = Hold::rematerialize});
  CHECK(bytes_of(holder) == 0);
  source->finalize();
  CHECK(source->held_bytes() == x.bytes());
  CHECK(read(holder).whole().to_vector() == y.to_vector());
  std::visit([](auto& own) { own.release(); }, holder);
  CHECK(source->held_bytes() == 0);
}

}  // namespace lacuna
