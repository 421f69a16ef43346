// Every op on cuda, on the stand-in (core/stand_in): against the CPU in f64, and with the same bits whatever the order
// of threads and blocks, and whether streams run at once or late.
#include "core/error.h"
#include "core/stand_in/fibers.h"
#include "ops/cuda_libraries.h"
#include "tests/ops/op_run.h"
#include "tests/ops/operand_forms.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

namespace lacuna {
namespace {

Tensor on_cuda(const Tensor& tensor) { return tensor.to(Device::cuda); }

/// Runs `check(sample, dtype, inputs on the CPU)` for the whole matrix.
template <class Check>
void for_each_case_on_cuda(const Check& check) {
  const std::set<std::string_view> registered(op_names().begin(), op_names().end());
  for (const OpSample& sample : op_samples()) {
    if (!registered.contains(sample.op->name())) continue;  // of the tests, for the CPU
    for (const DType dtype : sample.types) {
      if (dtype == DType::f64) continue;
      const std::string place = sample.name + " in " + std::string(name_of(dtype));
      CAPTURE(place);
      try {
        check(sample, dtype, sample.inputs(dtype));
      } catch (const Error& error) {
        FAIL_CHECK(std::string(error.what()));
      }
    }
  }
}

/// Runs `f` for its side effects with each schedule: threads and blocks in three more orders, streams at once and late.
template <class F>
void in_other_orders(const F& f) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const cuda::stand_in::ScheduleScope schedule(seed);
    CAPTURE(seed);
    f();
  }
}

}  // namespace

TEST_CASE("cuda: forward and every subset of gradients agree with f64 on the CPU") {
  for_each_case_on_cuda([](const OpSample& sample, DType dtype, const std::vector<Tensor>& inputs) {
    const Operation& op = *sample.op;
    const Result exact = forward(op, each(inputs, in_double)), result = forward(op, each(inputs, on_cuda));
    for (std::size_t i = 0; i < result.outputs.size(); ++i) {
      CHECK(result.outputs[i].device() == Device::cuda);
      CHECK(relative_error(result.outputs[i], exact.outputs[i]) < tolerance(dtype));
    }
    for (const std::vector<Tensor>& dy : selections(projections(result))) {
      const auto in_double_on_cpu = [](const Tensor& t) { return in_double(t.to(Device::cpu)); };
      const std::vector<Tensor> expected = backward(op, exact, each(dy, in_double_on_cpu), sample.differentiable);
      // Which gradients are wanted decides which kernels run, whatever their type.
      for (const InputSet wanted : dtype == DType::f32 ? subsets(sample) : std::vector{sample.differentiable}) {
        const std::vector<Tensor> got = backward(op, result, dy, wanted);
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          CAPTURE(i);
          REQUIRE(got[i].defined() == wanted.contains(static_cast<int>(i)));
          if (!got[i].defined()) continue;
          CHECK(got[i].dtype() == inputs[i].dtype());
          CHECK(relative_error(got[i], expected[i]) < tolerance(dtype));
        }
      }
    }
  });
}

TEST_CASE("cuda: the same bits in other orders of threads and blocks, and when streams run late") {
  for_each_case_on_cuda([](const OpSample& sample, DType, const std::vector<Tensor>& inputs) {
    const Operation& op = *sample.op;
    const auto run = [&] {
      Result result = forward(op, each(inputs, on_cuda));
      std::vector<Tensor> all = result.outputs;
      all.insert(all.end(), result.extra_outputs.begin(), result.extra_outputs.end());
      for (Tensor& gradient : backward(op, result, projections(result), sample.differentiable))
        all.push_back(std::move(gradient));
      return all;
    };
    const std::vector<Tensor> first = run();
    in_other_orders([&] {
      const std::vector<Tensor> again = run();
      for (std::size_t i = 0; i < first.size(); ++i)
        if (first[i].defined()) CHECK(same_bits(again[i], first[i]));
    });
  });
}

TEST_CASE(
    "cuda: where cuDNN is missing the kernels of our own agree with f64 on the CPU, with the same bits in any order") {
  struct WithoutCudnn {
    WithoutCudnn() { uses_cudnn() = false; }
    ~WithoutCudnn() { uses_cudnn() = true; }
  };
  const WithoutCudnn without;
  const std::set<std::string_view> of_cudnn{"conv2d", "attention", "cross_attention", "sequence_attention",
                                            "causal_attention"};
  for_each_case_on_cuda([&](const OpSample& sample, DType dtype, const std::vector<Tensor>& inputs) {
    const Operation& op = *sample.op;
    if (!of_cudnn.contains(op.name()) || dtype == DType::f32) return;  // in f32 they compute anyway
    const std::vector<Tensor> dy = projections(forward(op, each(inputs, on_cuda)));
    const auto run = [&] {
      const Result result = forward(op, each(inputs, on_cuda));
      std::vector<Tensor> all{result.y()};
      for (Tensor& gradient : backward(op, result, dy, sample.differentiable)) all.push_back(std::move(gradient));
      return all;
    };
    const std::vector<Tensor> first = run();
    const Result exact = forward(op, each(inputs, in_double));
    const auto in_double_on_cpu = [](const Tensor& t) { return in_double(t.to(Device::cpu)); };
    std::vector<Tensor> expected = backward(op, exact, each(dy, in_double_on_cpu), sample.differentiable);
    expected.insert(expected.begin(), exact.y());
    for (std::size_t i = 0; i < first.size(); ++i)
      if (first[i].defined()) CHECK(relative_error(first[i], expected[i]) < tolerance(dtype));
    in_other_orders([&] {
      const std::vector<Tensor> again = run();
      for (std::size_t i = 0; i < first.size(); ++i)
        if (first[i].defined()) CHECK(same_bits(again[i], first[i]));
    });
  });
}

TEST_CASE("cuda: backward gives the same bits however its tensors come") {
  for_each_case_on_cuda([](const OpSample& sample, DType, const std::vector<Tensor>& inputs) {
    const Operation& op = *sample.op;
    const Result result = forward(op, each(inputs, on_cuda));
    const std::vector<Tensor> dy = projections(result), kept = clones(dy);
    const std::vector<Tensor> expected = backward(op, result, dy, sample.differentiable);
    for (std::size_t i = 0; i < dy.size(); ++i) CHECK(same_bits(dy[i], kept[i]));
    const auto check = [&](const std::vector<Tensor>& got, std::string_view how) {
      CAPTURE(how);
      for (std::size_t i = 0; i < got.size(); ++i)
        if (expected[i].defined()) CHECK(same_bits(got[i], expected[i]));
    };
    check(backward(op, result, clones(dy), sample.differentiable), "with dy to write over");
    const SmallRowBlocks small(256);
    check(backward(op, result, dy, sample.differentiable, Form::copied), "rematerialized block by block");
    check(backward(op, result, dy, sample.differentiable, Form::bits), "signs from bits");
  });
}

TEST_CASE("cuda: backward that reads codes gives the bits of one that reads decoded tensors") {
  for_each_case_on_cuda([](const OpSample& sample, DType, const std::vector<Tensor>& inputs) {
    const Operation& op = *sample.op;
    const Result result = forward(op, each(inputs, on_cuda));
    const std::vector<Tensor> dy = projections(result);
    const std::vector<Tensor> expected = backward(op, result, dy, sample.differentiable, Form::decoded);
    const std::vector<Tensor> got = backward(op, result, dy, sample.differentiable, Form::quantized);
    for (std::size_t i = 0; i < got.size(); ++i)
      if (expected[i].defined()) CHECK(same_bits(got[i], expected[i]));
  });
}

TEST_CASE("cuda: gradients that an op adds to come out as old plus new") {
  for_each_case_on_cuda([](const OpSample& sample, DType dtype, const std::vector<Tensor>& inputs) {
    const Operation& op = *sample.op;
    const Result result = forward(op, each(inputs, on_cuda));
    const std::vector<Tensor> dy = projections(result);
    const std::vector<Tensor> alone = backward(op, result, dy, sample.differentiable);
    std::vector<Tensor> present(inputs.size()), expected(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const int input = static_cast<int>(i);
      if (!sample.differentiable.contains(input) || !op.accumulates_into().contains(input)) continue;
      present[i] = on_cuda(sample_values(alone[i].shape(), alone[i].dtype(), 99));
      const std::vector<double> a = present[i].to_vector(), b = alone[i].to_vector();
      std::vector<double> sum(a.size());
      std::transform(a.begin(), a.end(), b.begin(), sum.begin(), std::plus<>());
      expected[i] = Tensor::from(std::span<const double>(sum), alone[i].shape());
    }
    const std::vector<Tensor> got = backward(op, result, dy, sample.differentiable, Form::kept, present);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!present[i].defined()) continue;
      CHECK(got[i].storage() == present[i].storage());
      CHECK(relative_error(got[i], expected[i]) < tolerance(dtype));
    }
  });
}

TEST_CASE("cuda: rows rematerialized have the bits of forward") {
  for_each_case_on_cuda([](const OpSample& sample, DType, const std::vector<Tensor>& inputs) {
    const Operation& op = *sample.op;
    if (op.rematerializes().empty()) return;
    const Result result = forward(op, each(inputs, on_cuda));
    const std::int64_t rows = result.y().rows();
    for (const auto& [begin, end] : {std::pair{std::int64_t{0}, rows}, {rows / 3, rows / 2 + 1}, {rows - 1, rows}}) {
      CAPTURE(begin);
      CAPTURE(end);
      std::vector<Tensor> tensors;
      for (const Remat& row : op.rematerializes()) {
        Tensor tensor = result.at(row.from);
        if (tensor.defined() && row.by_rows)
          tensor = tensor.reshape({rows, tensor.count() / rows}).leading(begin, end).clone();
        tensors.push_back(tensor);
      }
      const Tensor expected = result.y().row_range(begin, end), out = empty_like(expected);
      op.rematerialize({tensors, result.y().shape(), begin, {}}, out);
      CHECK(same_bits(out, expected));
    }
  });
}

}  // namespace lacuna
