// Every op, in every type, for every subset of its gradients: what an op must be for the tape to trust it.
#include "autograd/tape.h"
#include "core/parallel.h"
#include "ops/curves/activation.h"
#include "ops/quantize/sign_mask.h"
#include "tests/ops/op_run.h"
#include "tests/ops/operand_forms.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace lacuna {
namespace {

/// Runs `check(sample, dtype, inputs)` for the whole matrix, with enough threads to split work unevenly.
template <class Check>
void for_each_case(const Check& check) {
  const int before = threads();
  set_threads(3);
  for (const OpSample& sample : op_samples()) {
    for (const DType dtype : sample.types) {
      if (dtype == DType::f16) continue;
      const std::string place = sample.name + " in " + std::string(name_of(dtype));
      CAPTURE(place);
      try {
        check(sample, dtype, sample.inputs(dtype));
      } catch (const Error& error) {
        FAIL_CHECK(error.what());
      }
    }
  }
  set_threads(before);
}

struct Footprint {
  Bytes live, highest;
  std::int64_t peak;
};

/// Bytes that `f` leaves with the result it returns, and that it takes at most on the way.
template <class F>
Footprint footprint(Device device, const F& f) {
  Ledger& account = ledger(device);
  account.reset_peak();
  const Bytes before = account.live();
  const std::int64_t total = account.total();
  [[maybe_unused]] const auto held = f();
  Footprint found{account.live(), account.highest(), account.peak() - total};
  for (std::size_t i = 0; i < before.size(); ++i) {
    found.live[i] -= before[i];
    found.highest[i] -= before[i];
  }
  return found;
}

bool same(const Footprint& a, const Footprint& b) {
  return a.live == b.live && a.highest == b.highest && a.peak == b.peak;
}

Tensor on_meta(const Tensor& tensor) { return tensor.to(Device::meta); }

}  // namespace

TEST_CASE("every registered op has a sample") {
  std::set<std::string_view> sampled;
  for (const OpSample& sample : op_samples()) sampled.insert(sample.op->name());
  for (const std::string_view name : op_names()) CHECK_MESSAGE(sampled.contains(name), "no sample of ", name);
  CHECK_MESSAGE(std::set(op_names().begin(), op_names().end()).size() == op_names().size(), "two ops of one name");
}

TEST_CASE("forward repeats to the bit and leaves its inputs alone") {
  for_each_case([](const OpSample& sample, DType, const std::vector<Tensor>& inputs) {
    const std::vector<Tensor> before = each(inputs, [](const Tensor& t) { return t.clone(); });
    const Result first = forward(*sample.op, inputs), second = forward(*sample.op, inputs);
    for (std::size_t i = 0; i < first.outputs.size(); ++i) CHECK(same_bits(first.outputs[i], second.outputs[i]));
    for (std::size_t i = 0; i < first.extra_outputs.size(); ++i)
      CHECK(same_bits(first.extra_outputs[i], second.extra_outputs[i]));
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].defined()) CHECK(same_bits(inputs[i], before[i]));
  });
}

TEST_CASE("shapes and bytes on meta are those on the cpu") {
  for_each_case([](const OpSample& sample, DType, const std::vector<Tensor>& inputs) {
    const Operation& op = *sample.op;
    const std::vector<Tensor> shadows = each(inputs, on_meta);
    const Result real = forward(op, inputs), shadow = forward(op, shadows);
    REQUIRE(shadow.outputs.size() == real.outputs.size());
    for (std::size_t i = 0; i < real.outputs.size(); ++i) {
      CHECK(shadow.outputs[i].device() == Device::meta);
      CHECK(shadow.outputs[i].shape() == real.outputs[i].shape());
      CHECK(shadow.outputs[i].dtype() == real.outputs[i].dtype());
    }
    REQUIRE(shadow.extra_outputs.size() == real.extra_outputs.size());
    for (std::size_t i = 0; i < real.extra_outputs.size(); ++i)
      CHECK(shadow.extra_outputs[i].shape() == real.extra_outputs[i].shape());
    CHECK(same(footprint(Device::cpu, [&] { return forward(op, inputs); }),
               footprint(Device::meta, [&] { return forward(op, shadows); })));
    for (const InputSet wanted : subsets(sample)) {
      for (const std::vector<Tensor>& used : selections(real.outputs)) {
        const auto run = [&](const Result& result) {
          return footprint(result.outputs.front().device(), [&] {
            std::vector<Tensor> dy;
            for (std::size_t i = 0; i < used.size(); ++i)
              dy.push_back(used[i].defined() ? empty_like(result.outputs[i]) : Tensor());
            return backward(op, result, std::move(dy), wanted);
          });
        };
        if (real.outputs.front().count() > 0) CHECK(same(run(real), run(shadow)));
      }
    }
  });
}

TEST_CASE("gradients in f64 agree with finite differences") {
  for (const OpSample& sample : op_samples()) {
    if (std::find(sample.types.begin(), sample.types.end(), DType::f64) == sample.types.end()) continue;
    CAPTURE(sample.name);
    const Operation& op = *sample.op;
    const Result result = forward(op, sample.inputs(DType::f64));
    for (const std::vector<Tensor>& dy : selections(projections(result))) {
      const auto loss = [&](const std::vector<Tensor>& inputs) {
        const std::vector<Tensor> outputs = forward(op, inputs).outputs;
        double sum = 0;
        for (std::size_t k = 0; k < outputs.size(); ++k) {
          if (!dy[k].defined()) continue;
          const std::vector<double> y = outputs[k].to_vector(), weights = dy[k].to_vector();
          for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * weights[i];
        }
        return sum;
      };
      const std::vector<Tensor> gradients = backward(op, result, dy, sample.differentiable);
      for (int i = 0; i < static_cast<int>(result.inputs.size()); ++i) {
        if (!sample.differentiable.contains(i)) continue;
        CAPTURE(i);
        const Tensor& input = result.inputs[static_cast<std::size_t>(i)];
        const std::vector<double> analytic = gradients[static_cast<std::size_t>(i)].to_vector();
        REQUIRE(static_cast<std::int64_t>(analytic.size()) == input.count());
        // All elements at once along a random direction, then some one by one.
        const auto slope = [&](const std::vector<double>& direction) {
          constexpr double h = 1e-5;
          const auto moved = [&](double step) {
            std::vector<Tensor> inputs = result.inputs;
            std::vector<double> values = input.to_vector();
            for (std::size_t k = 0; k < values.size(); ++k) values[k] += step * direction[k];
            inputs[static_cast<std::size_t>(i)] = Tensor::from(std::span<const double>(values), input.shape());
            return loss(inputs);
          };
          return (moved(h) - moved(-h)) / (2 * h);
        };
        const std::vector<double> all = sample_values(input.shape(), DType::f64, 777, -0.5, 0.5).to_vector();
        double along = 0;
        for (std::size_t k = 0; k < all.size(); ++k) along += all[k] * analytic[k];
        const double scale = std::max(largest(analytic), 1e-2);
        CHECK(std::abs(slope(all) - along) < 1e-7 * scale * std::max(1.0, static_cast<double>(all.size())));
        constexpr std::size_t checked = 24;
        const std::size_t stride = std::max<std::size_t>(1, analytic.size() / checked | 1U);
        for (std::size_t k = 0; k < analytic.size(); k += stride) {
          std::vector<double> one(analytic.size());
          one[k] = 1;
          CAPTURE(k);
          CHECK(std::abs(slope(one) - analytic[k]) < 1e-6 * scale);
        }
      }
    }
  }
}

TEST_CASE("every subset of gradients, in every type, agrees with f64") {
  for_each_case([](const OpSample& sample, DType dtype, const std::vector<Tensor>& inputs) {
    const Operation& op = *sample.op;
    const Result result = forward(op, inputs), exact = forward(op, each(inputs, in_double));
    for (std::size_t i = 0; i < result.outputs.size(); ++i)
      CHECK(relative_error(result.outputs[i], exact.outputs[i]) < tolerance(dtype));
    for (const std::vector<Tensor>& dy : selections(projections(result))) {
      const std::vector<Tensor> expected = backward(op, exact, each(dy, in_double), sample.differentiable);
      for (const InputSet wanted : subsets(sample)) {
        const std::vector<Tensor> got = backward(op, result, dy, wanted);
        for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
          CAPTURE(i);
          const Tensor& gradient = got[static_cast<std::size_t>(i)];
          REQUIRE(gradient.defined() == wanted.contains(i));
          if (!gradient.defined()) continue;
          CHECK(gradient.dtype() == inputs[static_cast<std::size_t>(i)].dtype());
          CHECK(relative_error(gradient, expected[static_cast<std::size_t>(i)]) < tolerance(dtype));
        }
      }
    }
  });
}

TEST_CASE("backward gives the same bits however its tensors come, and leaves what others hold") {
  for_each_case([](const OpSample& sample, DType, const std::vector<Tensor>& inputs) {
    const Operation& op = *sample.op;
    const Result result = forward(op, inputs);
    const Result before{clones(inputs), clones(result.outputs), clones(result.extra_outputs)};
    const std::vector<Tensor> dy = projections(result), kept = clones(dy);
    for (const InputSet wanted : subsets(sample)) {
      const std::vector<Tensor> expected = backward(op, result, dy, wanted);
      for (std::size_t i = 0; i < dy.size(); ++i) CHECK(same_bits(dy[i], kept[i]));
      const auto check = [&](const std::vector<Tensor>& got, std::string_view how) {
        CAPTURE(how);
        for (std::size_t i = 0; i < got.size(); ++i)
          if (expected[i].defined()) CHECK(same_bits(got[i], expected[i]));
      };
      check(backward(op, result, dy, wanted), "again");
      check(backward(op, result, clones(dy), wanted), "with dy to write over");
      check(backward(op, result, dy, wanted, Form::bits), "signs from bits");
      const SmallRowBlocks small(256);
      check(backward(op, result, dy, wanted, Form::copied), "rematerialized block by block");
    }
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].defined()) CHECK(same_bits(inputs[i], before.inputs[i]));
    for (std::size_t i = 0; i < result.extra_outputs.size(); ++i)
      CHECK(same_bits(result.extra_outputs[i], before.extra_outputs[i]));
    for (std::size_t i = 0; i < result.outputs.size(); ++i) CHECK(same_bits(result.outputs[i], before.outputs[i]));
  });
}

TEST_CASE("backward that decodes on several threads gives the bits of one that reads decoded tensors") {
  for_each_case([](const OpSample& sample, DType, const std::vector<Tensor>& inputs) {
    const Operation& op = *sample.op;
    const Result result = forward(op, inputs);
    const std::vector<Tensor> dy = projections(result);
    for (const InputSet wanted : subsets(sample)) {
      const std::vector<Tensor> expected = backward(op, result, dy, wanted, Form::decoded);
      for (const std::int64_t bytes : {1, 256, 1024}) {
        const SmallRowBlocks small(bytes);
        for (const bool overwrites : {false, true}) {
          const std::vector<Tensor> got = backward(op, result, overwrites ? clones(dy) : dy, wanted, Form::quantized);
          for (std::size_t i = 0; i < got.size(); ++i)
            if (expected[i].defined()) CHECK(same_bits(got[i], expected[i]));
        }
      }
    }
  });
}

TEST_CASE("gradients that an op adds to come out as old plus new") {
  for_each_case([](const OpSample& sample, DType dtype, const std::vector<Tensor>& inputs) {
    const Operation& op = *sample.op;
    const Result result = forward(op, inputs);
    const std::vector<Tensor> dy = projections(result);
    for (const InputSet wanted : subsets(sample)) {
      const std::vector<Tensor> alone = backward(op, result, dy, wanted);
      std::vector<Tensor> present(inputs.size());
      std::vector<Tensor> expected(inputs.size());
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!wanted.contains(static_cast<int>(i)) || !op.accumulates_into().contains(static_cast<int>(i))) continue;
        present[i] = sample_values(alone[i].shape(), alone[i].dtype(), 99);
        const std::vector<double> a = present[i].to_vector(), b = alone[i].to_vector();
        std::vector<double> sum(a.size());
        std::transform(a.begin(), a.end(), b.begin(), sum.begin(), std::plus<>());
        expected[i] = Tensor::from(std::span<const double>(sum), alone[i].shape());
      }
      const std::vector<Tensor> got = backward(op, result, dy, wanted, Form::kept, present);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!present[i].defined()) continue;
        CAPTURE(i);
        CHECK(got[i].storage() == present[i].storage());
        CHECK(relative_error(got[i], expected[i]) < tolerance(dtype));
      }
    }
  });
}

TEST_CASE("rows rematerialized have the bits of forward") {
  for_each_case([](const OpSample& sample, DType, const std::vector<Tensor>& inputs) {
    const Operation& op = *sample.op;
    if (op.rematerializes().empty()) return;
    const Result result = forward(op, inputs);
    const std::int64_t rows = result.y().rows();
    const std::vector<Range> ranges{{0, rows}, {0, 1}, {rows - 1, rows}, {rows / 3, rows / 2 + 1}};
    for (const Range range : ranges) {
      CAPTURE(range.begin);
      CAPTURE(range.end);
      std::vector<Tensor> tensors;
      for (const Remat& row : op.rematerializes()) {
        Tensor tensor = result.at(row.from);
        if (tensor.defined() && row.by_rows)
          tensor = tensor.reshape({rows, tensor.count() / rows}).leading(range.begin, range.end).clone();
        tensors.push_back(tensor);
      }
      const Tensor expected = result.y().row_range(range.begin, range.end), out = empty_like(expected);
      const Tensor signs = quant::pack_signs(result.y());
      for (const Tensor& known : {Tensor(), signs}) {
        op.rematerialize({tensors, result.y().shape(), range.begin, known}, out);
        CHECK(same_bits(out, expected));
      }
      const bool rectifies = std::any_of(op.saves().begin(), op.saves().end(), [](const Save& save) {
        return save.from == output && save.need == Need::sign;
      });
      if (!rectifies) continue;
      // From values that are far off: zero where the exact output is, and elsewhere what was, negative or not.
      std::vector<float> off;
      for (const double value : tensors[0].to_vector()) off.push_back(static_cast<float>(0.1 - 0.7 * value));
      tensors[0] = Tensor::from(std::span<const float>(off), tensors[0].shape(), tensors[0].dtype());
      const Tensor cut = empty_like(expected);
      op.rematerialize({tensors, result.y().shape(), range.begin, {}}, cut);
      op.rematerialize({tensors, result.y().shape(), range.begin, signs}, out);
      const std::vector<double> exact = expected.to_vector(), with = out.to_vector(), without = cut.to_vector();
      for (std::size_t i = 0; i < exact.size(); ++i) {
        CAPTURE(i);
        if (exact[i] > 0)
          CHECK((without[i] > 0 ? with[i] == without[i] : with[i] <= 0));
        else
          CHECK(with[i] == 0);
      }
    }
  });
}

TEST_CASE("threads rematerialize rows of their own at once, and allocate nothing for it") {
  for_each_case([](const OpSample& sample, DType, const std::vector<Tensor>& inputs) {
    const Operation& op = *sample.op;
    if (op.rematerializes().empty()) return;
    const Result result = forward(op, inputs);
    const std::int64_t rows = result.y().rows();
    const Tensor out = empty_like(result.y());
    // By row, and whole where the table has it so.
    std::vector<std::vector<Tensor>> tensors(static_cast<std::size_t>(rows));
    for (std::int64_t row = 0; row < rows; ++row)
      for (const Remat& from : op.rematerializes()) {
        const Tensor& all = result.at(from.from);
        tensors[static_cast<std::size_t>(row)].push_back(
            all.defined() && from.by_rows ? all.reshape({rows, all.count() / rows}).leading(row, row + 1) : all);
      }
    const Tensor signs = quant::pack_signs(result.y());
    const Footprint found = footprint(Device::cpu, [&] {
      parallel_tasks(rows, [&](std::int64_t row, int) {
        op.rematerialize({tensors[static_cast<std::size_t>(row)], result.y().shape(), row, signs},
                         out.row_range(row, row + 1));
      });
      return true;
    });
    CHECK(same_bits(out, result.y()));
    CHECK(found.peak == 0);
  });
}

TEST_CASE("a ReLU derived from approximate values opens where the exact ones did, and cuts nothing off there") {
  const Tensor exact = Tensor::from(std::vector<float>{1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6}, {4, 3});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor near = Tensor::from(std::vector<float>{1, 1, -2, -2, -3, 3, 4, nan, 5, -5, -6, 6}, {4, 3});
  const Tensor signs = quant::pack_signs(exact);
  const Bound<Relu> relu{Relu{}};
  const std::vector<float> expected{1, 0, -2, 0, -3, 0, 4, nan, 5, 0, -6, 0};
  for (std::int64_t first = 0; first < 4; ++first) {
    const std::vector<Tensor> rows{near.leading(first, 4).clone()};
    const Tensor out = empty_like(rows[0]);
    relu.rematerialize({rows, exact.shape(), first, signs}, out);
    const Tensor wanted =
        Tensor::from(std::span(expected).subspan(static_cast<std::size_t>(3 * first)), rows[0].shape());
    CHECK(same_bits(out, wanted));
  }
}

TEST_CASE("policies give equal gradients to the bit") {
  for_each_case([](const OpSample& sample, DType, const std::vector<Tensor>& inputs) {
    const auto gradients = [&](std::string_view policy) {
      const std::unique_ptr<MemoryPolicy> how = make_policy(policy);
      Tape tape(*how);
      std::vector<Variable> leaves;
      for (std::size_t i = 0; i < inputs.size(); ++i)
        leaves.push_back(!inputs[i].defined()
                             ? Variable()
                             : Variable(inputs[i], sample.differentiable.contains(static_cast<int>(i))));
      std::vector<std::pair<Variable, Tensor>> losses;
      {
        const Recording recording(tape);
        // Something behind the op has to read its outputs, for an output to be masked or rematerialized.
        RecordedOp recorded = record(sample.op, leaves);
        for (Variable& y : recorded.outputs) {
          Variable out = apply(Relu{}, apply(Gelu{}, std::move(y)));
          const Tensor dy = projection(out.tensor());
          losses.emplace_back(std::move(out), dy);
        }
      }
      tape.backward(std::move(losses));
      std::vector<Tensor> found;
      for (std::size_t i = 0; i < leaves.size(); ++i)
        if (sample.differentiable.contains(static_cast<int>(i))) found.push_back(leaves[i].grad());
      return found;
    };
    const std::vector<Tensor> kept = gradients("keep"), derived = gradients("exact");
    for (std::size_t i = 0; i < kept.size(); ++i) CHECK(same_bits(kept[i], derived[i]));
  });
}

}  // namespace lacuna
