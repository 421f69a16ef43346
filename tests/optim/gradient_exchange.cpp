// Sums of gradients over ranks, which are threads here.
#include "optim/gradient_exchange.h"

#include "optim/optimizer.h"
#include "tests/counting_rank.h"
#include "tests/thread_ranks.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lacuna {
namespace {

struct Model : Module {
  Model() : Module(ModelContext{}) {
    for (const std::int64_t count : {70'000, 3, 40'000, 1'000, 33})
      weights.push_back(std::make_unique<Parameter>(*this, "w" + std::to_string(weights.size()), Shape{count},
                                                    [](const Tensor& values, RandomStream) { values.fill(0); }));
  }
  std::int64_t count() const { return parameter_count(); }
  std::vector<std::unique_ptr<Parameter>> weights;
};

/// Element i of the gradient of a rank in a step, in [-1, 1].
float gradient_at(int rank, int step, std::int64_t parameter, std::int64_t i) {
  return static_cast<float>(
      std::sin(1.7 * rank + 0.3 * step + 0.9 * static_cast<double>(parameter) + 0.01 * static_cast<double>(i)));
}

void fill(Model& model, int rank, int step) {
  for (std::size_t p = 0; p < model.weights.size(); ++p) {
    Parameter& parameter = *model.weights[p];
    const Tensor gradient = Tensor::empty(parameter.shape(), DType::f32, Device::cpu);
    float* const values = gradient.data<float>();
    for (std::int64_t i = 0; i < gradient.count(); ++i)
      values[i] = gradient_at(rank, step, static_cast<std::int64_t>(p), i);
    parameter.set_grad(gradient);
  }
}

void exchange(GradientExchange& with, Model& model) {
  for (std::size_t p = model.weights.size(); p-- > 0;) with.add(*model.weights[p]);
  with.flush();
  while (with.next(true) != nullptr) {
  }
}

constexpr std::int64_t small_bucket = 64 << 10;

}  // namespace

TEST_CASE("exchange: a rank sends 2 (N - 1) / N of the gradients' bytes, and a quarter of that in 8 bits") {
  for (const int size : {2, 4})
    for (const bool in_8_bits : {false, true}) {
      CAPTURE(size);
      CAPTURE(in_8_bits);
      test::run_ranks(size, [&](Communicator& plain) {
        std::atomic<std::int64_t> sent = 0;
        test::CountingRank ranks(plain, sent);
        Model model;
        {
          GradientExchange with(ranks, 0, {.bucket_bytes = small_bucket, .in_8_bits = in_8_bits});
          fill(model, ranks.rank(), 0);
          exchange(with, model);
        }
        const double ideal = 2.0 * (size - 1) / size * static_cast<double>(4 * model.count());
        const auto ratio = static_cast<double>(sent) / ideal;
        if (in_8_bits)
          CHECK(ratio < 0.27);
        else
          CHECK(std::fabs(ratio - 1) < 0.02);
      });
    }
}

TEST_CASE("exchange: gradients to their owners alone have the bits of those that all get, and fewer bytes") {
  for (const int size : {1, 2, 3, 4}) {
    CAPTURE(size);
    test::run_ranks(size, [&](Communicator& plain) {
      std::atomic<std::int64_t> sent = 0;
      test::CountingRank ranks(plain, sent);
      Model model, whole;
      const std::unique_ptr<Optimizer> optimizer =
          make_optimizer("adamw", {}, model, {.rank = ranks.rank(), .ranks = ranks.size()});
      const auto run = [&](Model& of, const Optimizer* owners) {
        GradientExchange with(ranks, 0, {.bucket_bytes = small_bucket, .owners = owners});
        fill(of, ranks.rank(), 0);
        exchange(with, of);
      };
      run(model, optimizer.get());
      const std::int64_t to_owners = sent.exchange(0);
      run(whole, nullptr);
      if (size > 1) CHECK(to_owners < sent);
      for (std::size_t p = 0; p < model.weights.size(); ++p) {
        CAPTURE(p);
        CHECK(model.weights[p]->grad().defined() == optimizer->holds(*model.weights[p]));
        if (model.weights[p]->grad().defined())
          CHECK(model.weights[p]->grad().to_vector() == whole.weights[p]->grad().to_vector());
      }
    });
  }
}

TEST_CASE("exchange: what 8 bits round off comes with the next step, so that errors do not add up") {
  for (const int size : {1, 2, 4}) {
    CAPTURE(size);
    // An element loses half a step of each rank's group, but of the rank that sums it, and half a step of the sum's;
    // groups span [-1, 1] and what the last step lost. A step is rounded up by 1.4 %.
    const double half_step = 1.02 * 2 / 255 / 2, bound = (size - 1) * half_step + size * half_step;
    std::vector<std::vector<double>> got(static_cast<std::size_t>(size));
    test::run_ranks(size, [&](Communicator& ranks) {
      Model model;
      GradientExchange with(ranks, 0, {.bucket_bytes = small_bucket, .in_8_bits = true});
      std::vector<double> total(static_cast<std::size_t>(model.count())), exact = total;
      for (int step = 0; step < 40; ++step) {
        fill(model, ranks.rank(), step);
        exchange(with, model);
        std::size_t at = 0;
        double worst = 0;
        for (std::size_t p = 0; p < model.weights.size(); ++p) {
          const std::vector<double> sum = model.weights[p]->grad().to_vector();
          for (std::size_t i = 0; i < sum.size(); ++i, ++at) {
            total[at] += sum[i];
            for (int rank = 0; rank < size; ++rank)
              exact[at] += static_cast<double>(
                  gradient_at(rank, step, static_cast<std::int64_t>(p), static_cast<std::int64_t>(i)));
            worst = std::max(worst, std::fabs(total[at] - exact[at]));
          }
        }
        REQUIRE(worst <= bound);
      }
      got[static_cast<std::size_t>(ranks.rank())] = total;
    });
    for (const auto& of_rank : got) CHECK(of_rank == got.front());
  }
}

TEST_CASE("exchange: a gradient that is not finite is one on all ranks, in 8 bits as well") {
  test::run_ranks(2, [&](Communicator& ranks) {
    Model model;
    GradientExchange with(ranks, 0, {.in_8_bits = true});
    fill(model, ranks.rank(), 0);
    if (ranks.rank() == 1) model.weights[1]->grad().fill(std::nan(""));
    exchange(with, model);
    CHECK(std::isnan(model.weights[1]->grad().to_vector().front()));
    fill(model, ranks.rank(), 1);
    exchange(with, model);
    CHECK(std::isfinite(model.weights[1]->grad().to_vector().front()));
  });
}

}  // namespace lacuna
