#include "ops/cuda/libraries/cudnn.h"

#include "tests/libraries/device.h"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <array>
#include <string>

namespace lacuna {
namespace {

const std::array devices{DescribedDevice{"A100", 8, 0, 108, 166912, 40 << 20},
                         DescribedDevice{"RTX 3060", 8, 6, 28, 101376, 3 << 20},
                         DescribedDevice{"RTX 4090", 8, 9, 128, 101376, 72 << 20},
                         DescribedDevice{"H100", 9, 0, 132, 232448, 50 << 20},
                         DescribedDevice{"B200", 10, 0, 148, 232448, 126 << 20},
                         DescribedDevice{"RTX 5090", 12, 0, 170, 101376, 96 << 20}};

std::int64_t workspace_of(const cuda::Convolution&) { return library_workspace; }
std::int64_t workspace_of(const cuda::DenseAttention& what) { return cuda::workspace_for(what); }

/// Calls `f(target)` for each device. Without cuDNN says so and calls nothing.
template <class F>
void for_devices(const F& f) {
  // The first library of that name is the one that cuDNN opens.
  static void* const driver = dlopen(LACUNA_TEST_DRIVER, RTLD_NOW | RTLD_GLOBAL);
  REQUIRE(driver != nullptr);
  if (!cuda::cudnn_problem().empty()) {
    MESSAGE(cuda::cudnn_problem());
    return;
  }
  for (const DescribedDevice& device : devices) {
    CAPTURE(device.name);
    described_device() = &device;
    f(cuda::PlanTarget{.description = device.json()});
  }
}

template <class What>
void check_planned(const cuda::PlanTarget& target, const What& what) {
  const cuda::Planned planned = cuda::plan_of(target, what);
  CHECK_MESSAGE(planned.plan != nullptr, planned.problem);
  if (planned.plan == nullptr) return;
  CHECK(planned.plan->workspace() <= workspace_of(what));
  CHECK(!planned.plan->name().empty());
}

struct NamedShape {
  const char* name;
  ConvShape shape;
};
const std::array shapes{NamedShape{"1x1, step 2", {32, 56, 56, 256, 512, 1, 1, 2, 0, 1}},
                        NamedShape{"3x3", {32, 56, 56, 64, 64, 3, 3, 1, 1, 1}},
                        NamedShape{"3x3, step 2", {32, 56, 56, 128, 128, 3, 3, 2, 1, 1}},
                        NamedShape{"3x3, 512 channels", {32, 7, 7, 512, 512, 3, 3, 1, 1, 1}},
                        NamedShape{"3x3 in 32 groups", {32, 56, 56, 128, 128, 3, 3, 1, 1, 32}},
                        NamedShape{"CIFAR, 3 channels", {128, 32, 32, 3, 16, 3, 3, 1, 1, 1}},
                        NamedShape{"CIFAR, 16 channels", {128, 32, 32, 16, 16, 3, 3, 1, 1, 1}}};

}  // namespace

TEST_CASE("cuDNN has a deterministic plan for each pass of each convolution, on every kind of card") {
  for_devices([](const cuda::PlanTarget& target) {
    for (const NamedShape& shape : shapes)
      for (const DType dtype : {DType::bf16, DType::f16})
        for (const auto pass : {cuda::ConvolutionPass::forward, cuda::ConvolutionPass::input_gradient,
                                cuda::ConvolutionPass::weight_gradient}) {
          CAPTURE(shape.name);
          CAPTURE(static_cast<int>(dtype));
          CAPTURE(static_cast<int>(pass));
          check_planned(target, cuda::Convolution{pass, dtype, shape.shape});
        }
  });
}

TEST_CASE("cuDNN has a deterministic plan for attention from the packed q, k and v, on every kind of card") {
  struct Case {
    std::int64_t heads, tokens, head_dim;
    DType dtype;
    std::int64_t queries = tokens;  // the class token alone
  };
  for_devices([](const cuda::PlanTarget& target) {
    for (const Case& c : {Case{12, 197, 64, DType::bf16},
                          {6, 65, 32, DType::f16},
                          {16, 257, 80, DType::bf16},
                          {12, 512, 64, DType::bf16},
                          {8, 128, 128, DType::bf16},
                          {12, 197, 64, DType::bf16, 1},
                          {16, 1025, 64, DType::bf16},  // ViT-L at 512 pixels
                          {12, 2048, 64, DType::f16}})
      for (const bool backward : {false, true}) {
        CAPTURE(c.head_dim);
        CAPTURE(backward);
        const std::int64_t width = 3 * c.heads * c.head_dim;
        cuda::DenseAttention what{backward, c.dtype, 128,   c.heads, c.heads, c.queries, c.tokens, c.head_dim, c.tokens,
                                  width,    width,   width, width,   width,   width,     0.125F,   false};
        if (backward) what.samples = cuda::samples_at_once(what);
        check_planned(target, what);
      }
  });
}

TEST_CASE("cuDNN has a deterministic plan for causal attention, on every kind of card") {
  for_devices([](const cuda::PlanTarget& target) {
    struct Case {
      std::int64_t heads, kv_heads, head_dim, tokens;
    };
    for (const Case& c : {Case{12, 12, 64, 512}, {12, 12, 128, 512}, {14, 2, 64, 1024}, {16, 16, 128, 2048}})
      for (const bool backward : {false, true}) {
        CAPTURE(c.heads);
        CAPTURE(c.tokens);
        CAPTURE(backward);
        const std::int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
        cuda::DenseAttention what{backward, DType::bf16, 8,        c.heads, c.kv_heads, c.tokens,
                                  c.tokens, c.head_dim,  c.tokens, q,       kv,         kv,
                                  q,        kv,          kv,       0.125F,  true};
        if (backward) what.samples = cuda::samples_at_once(what);
        check_planned(target, what);
      }
  });
}

TEST_CASE(
    "cuDNN has deterministic plans for attention over unequal lengths and with dropout, backward not on all cards") {
  struct Case {
    std::int64_t heads, head_dim, tokens, samples;
    cuda::SampleRows rows;
    bool dropout, causal;
  };
  using enum cuda::SampleRows;
  for_devices([](const cuda::PlanTarget& target) {
    const int capability = 10 * described_device()->major + described_device()->minor;
    for (const Case& c : {Case{12, 64, 128, 32, padded, false, false},
                          {12, 64, 100, 32, padded, false, false},
                          {12, 64, 512, 8, padded, true, false},
                          {12, 64, 197, 128, equal, true, false},
                          {12, 32, 128, 32, packed, true, false},
                          {12, 64, 512, 8, packed, false, false},
                          {12, 64, 1024, 4, packed, false, true},
                          {12, 64, 100, 8, padded, false, true}})
      for (const bool backward : {false, true}) {
        CAPTURE(c.tokens);
        CAPTURE(static_cast<int>(c.rows));
        CAPTURE(c.dropout);
        CAPTURE(c.causal);
        CAPTURE(backward);
        const std::int64_t width = c.heads * c.head_dim;
        cuda::DenseAttention what{backward,   DType::bf16, c.samples, c.heads, c.heads,  c.tokens, c.tokens,
                                  c.head_dim, c.tokens,    width,     width,   width,    width,    width,
                                  width,      0.125F,      c.causal,  c.rows,  c.dropout};
        what.samples = cuda::samples_at_once(what);
        if (!cuda::is_planned_on(capability, what)) {
          const cuda::Planned planned = cuda::plan_of(target, what);
          CHECK(planned.plan == nullptr);
          CHECK(!planned.problem.empty());
        } else {
          check_planned(target, what);
        }
      }
  });
}

TEST_CASE("cuDNN plans alike each time: bits of results hang on it") {
  for_devices([](const cuda::PlanTarget& target) {
    const cuda::Convolution what{cuda::ConvolutionPass::weight_gradient, DType::bf16, shapes[1].shape};
    const cuda::Planned planned = cuda::plan_of(target, what), again = cuda::plan_of(target, what);
    REQUIRE(planned.plan != nullptr);
    REQUIRE(again.plan != nullptr);
    CHECK(again.plan->name() == planned.plan->name());
    CHECK(again.plan->workspace() == planned.plan->workspace());
  });
}

TEST_CASE("cuDNN's further plans for a convolution have names, by which they are taken, and keep to the workspace") {
  for_devices([](const cuda::PlanTarget& target) {
    for (const auto pass : {cuda::ConvolutionPass::forward, cuda::ConvolutionPass::weight_gradient}) {
      const cuda::Convolution what{pass, DType::bf16, shapes[1].shape};
      const cuda::Planned planned = cuda::plan_of(target, what);
      REQUIRE(planned.plan != nullptr);
      const std::string first = planned.plan->name();
      const std::vector<std::string> names = planned.plan->names(8);
      REQUIRE(!names.empty());
      CHECK(names.front() == first);
      CHECK(planned.plan->name() == first);
      for (const std::string& name : names) {
        CHECK(planned.plan->take(name));
        CHECK(planned.plan->name() == name);
        CHECK(planned.plan->workspace() <= library_workspace);
      }
      CHECK(!planned.plan->take("none"));
      CHECK(planned.plan->name() == names.back());
    }
  });
}

TEST_CASE("without a plan the reason is told") {
  for_devices([](const cuda::PlanTarget&) {
    const cuda::Planned planned = cuda::plan_of(
        {.description = "no device"}, cuda::Convolution{cuda::ConvolutionPass::forward, DType::bf16, shapes[1].shape});
    CHECK(planned.plan == nullptr);
    CHECK(!planned.problem.empty());
  });
}

}  // namespace lacuna
