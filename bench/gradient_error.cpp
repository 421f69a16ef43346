// Measures the gradient error that quantized saved tensors cause: of whole policies, of each kind of tensor and each
// tensor alone, and through single activation functions. Compares the bits that two sensitivity measurements lead to.
//
//     bench_gradient_error CONFIG.yaml STEPS DRAWS [key=value ...]
//
// Trains STEPS steps under `exact`, then computes the gradient of one more batch with DRAWS different draws of the
// rounding, under every policy, or only under the configuration's `memory` if that is not `exact`. The configuration
// must have no other randomness (no dropout). Prints Markdown.
#include "apps/config/resolve.h"
#include "apps/train/machine_costs.h"
#include "apps/train/planning.h"
#include "apps/train/setup.h"
#include "autograd/tape.h"
#include "bench/bench.h"
#include "data/loader.h"
#include "ops/curves/activation.h"
#include "ops/quantize/sign_mask.h"
#include "tests/models/one_coded.h"

#include <algorithm>
#include <cstdlib>
#include <map>

using namespace lacuna;

namespace {

double square(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

/// Accumulates the errors of approximations of a vector.
class Errors {
 public:
  /// `ends`: the end of each part of the vector, in order.
  explicit Errors(std::vector<float> exact, std::vector<std::size_t> ends = {})
      : exact_(std::move(exact)), sum_(exact_.size()), ends_(std::move(ends)) {}

  void add(std::span<const float> values) {
    for (std::size_t i = 0; i < exact_.size(); ++i) {
      const double error = static_cast<double>(values[i]) - static_cast<double>(exact_[i]);
      sum_[i] += error;
      squares_ += error * error;
    }
    for (std::size_t i = 0; const std::size_t end : ends_) {
      const std::size_t begin = i;
      double part = 0;
      for (; i < end; ++i) part += std::pow(static_cast<double>(values[i]) - static_cast<double>(exact_[i]), 2);
      if (const double whole = square(std::span(exact_).subspan(begin, end - begin)); whole > 0)
        by_parts_ += part / whole * static_cast<double>(end - begin) / static_cast<double>(exact_.size());
    }
    ++count_;
  }
  /// The same relative to each part, averaged over parts weighted by size.
  double relative_by_parts() const { return std::sqrt(by_parts_ / count_); }
  /// Root mean squared error of one draw, relative to the vector's norm.
  double relative() const { return std::sqrt(squares_ / count_ / square(exact_)); }
  /// Estimated error of the mean over infinitely many draws: the part explained by the draws' variance is subtracted.
  double bias() const {
    double mean = 0;
    for (const double error : sum_) mean += error * error / (count_ * count_);
    const double scatter = (squares_ - count_ * mean) / (count_ - 1);
    return std::sqrt(std::max(0.0, mean - scatter / count_) / square(exact_));
  }
  /// The same relative to each part, averaged over parts weighted by size.
  double bias_by_parts() const {
    double mean = 0;  // squared error of the mean over draws
    for (std::size_t i = 0; const std::size_t end : ends_) {
      const std::size_t begin = i;
      double part = 0;
      for (; i < end; ++i) part += std::pow(sum_[i] / count_, 2);
      if (const double whole = square(std::span(exact_).subspan(begin, end - begin)); whole > 0)
        mean += part / whole * static_cast<double>(end - begin) / static_cast<double>(exact_.size());
    }
    const double scatter = (by_parts_ - count_ * mean) / (count_ - 1);
    return std::sqrt(std::max(0.0, mean - scatter / count_));
  }

 private:
  std::vector<float> exact_;  // [values]
  std::vector<double> sum_;   // [values]: sum of errors
  std::vector<std::size_t> ends_;
  double squares_ = 0, by_parts_ = 0, count_ = 0;
};

/// A policy like `base`, except that the gates of activations are computed from the codes instead of saved signs.
class GatesFromCodes final : public MemoryPolicy {
 public:
  explicit GatesFromCodes(std::unique_ptr<MemoryPolicy> base)
      : MemoryPolicy(base->quantizes()), base_(std::move(base)) {}
  std::string_view name() const override { return base_->name(); }
  Hold decide(const SavedTensorInfo& info) override {
    Hold decision = base_->decide(info);
    decision.signs = false;
    return decision;
  }

 private:
  std::unique_ptr<MemoryPolicy> base_;
};

/// A model after some training, and a batch.
class Subject {
 public:
  Subject(const apps::Experiment& configuration, int steps) : setup_(configuration, apps::device_of(configuration)) {
    Loader loader(apps::batches_of(
        configuration, open_dataset(configuration.data.name, apps::dataset_options(configuration, Split::train)),
        Split::train));
    const auto next = [&] { return *loader.next(); };
    double loss = 0;
    for (int i = 0; i < steps; ++i) loss = setup_.trainer().step({next()}, i, configuration.optimizer.lr).loss;
    batch_ = next();
    fmt::print("{}, batch {}, after {} steps (loss {:.3f})\n", configuration.model.name, configuration.train.batch_size,
               steps, loss);
  }

  /// A tensor that is saved quantized.
  struct Coded {
    std::string key, path, maker;
    std::int64_t values;
    int bits;
  };
  struct Pass {
    std::vector<float> gradient;      // concatenated over all parameters
    std::vector<std::size_t> ends{};  // end of each parameter row in `gradient`
    std::int64_t saved = 0;           // bytes
    std::vector<Coded> coded{};       // in forward order
  };
  Pass pass(MemoryPolicy& policy, std::uint32_t draw) {
    const RandomStateScope random({.seed = 1, .step = draw});
    Pass done;
    Tape tape(policy);
    Variable loss = [&] {
      const Recording recording(tape);
      return setup_.trainer().loss(
          {{"images", batch_["images"].clone(Purpose::data)},  // a copy, because forward frees it
           {"labels", batch_["labels"].clone(Purpose::data)}});
    }();
    for (const Tape::SavedTensorReport& slot : tape.report())
      if (slot.hold == Hold::quantize)
        done.coded.push_back({slot.info.key(), std::string(slot.info.path.text()), std::string(slot.info.maker()),
                              slot.info.shape.count(), slot.bits});
    tape.backward(loss);
    done.saved = tape.saved_bytes();
    for (const Parameter* parameter : setup_.model().parameters()) {
      if (!parameter->trainable()) continue;
      const Tensor gradient = parameter->grad();
      done.gradient.insert(done.gradient.end(), gradient.data<float>(), gradient.data<float>() + gradient.count());
      const std::int64_t rows = rows_alike(gradient.shape());
      for (std::int64_t row = rows; row > 0; --row)
        done.ends.push_back(done.gradient.size() - static_cast<std::size_t>((row - 1) * gradient.count() / rows));
    }
    setup_.optimizer().zero_grad();
    return done;
  }

  /// Runs passes in which the policy learns ranges and sensitivities.
  void learn(MemoryPolicy& policy) {
    for (std::uint32_t draw = 0; draw < learning; ++draw) {
      const RandomStateScope random({.seed = 1, .step = draw});
      setup_.trainer().calibrate(batch_, policy);
      pass(policy, draw);
    }
  }
  /// Prints a row of the table.
  void report(std::string_view title, MemoryPolicy& policy, const Pass& exact, int draws) {
    learn(policy);
    Errors errors(exact.gradient, exact.ends);
    std::int64_t saved = 0;
    for (int draw = 0; draw < draws; ++draw) {
      const Pass one = pass(policy, learning + static_cast<std::uint32_t>(draw));
      errors.add(one.gradient);
      saved = one.saved;
    }
    fmt::print("| {} | {:.2f} | {:.2f} × | {:.4f} | {:.4f} | {:.4f} | {:.4f} |\n", title,
               static_cast<double>(saved) / (1 << 20), static_cast<double>(exact.saved) / static_cast<double>(saved),
               errors.relative(), errors.bias(), errors.relative_by_parts(), errors.bias_by_parts());
    std::fflush(stdout);
  }
  /// The errors under a policy that needs no learning.
  Errors errors_of(MemoryPolicy& policy, const Pass& exact, int draws) {
    Errors errors(exact.gradient, exact.ends);
    for (int draw = 0; draw < draws; ++draw) errors.add(pass(policy, static_cast<std::uint32_t>(draw)).gradient);
    return errors;
  }

 private:
  static constexpr std::uint32_t learning = 2;
  apps::Setup setup_;
  Batch batch_;
};

void head() {
  fmt::print(
      "\n| policy | saved, MiB | less than `exact` | error | bias | by row: error | bias |\n| --- | --- | --- | "
      "--- | --- | --- | --- |\n");
}

void whole_policies(Subject& subject, const Subject::Pass& exact, int draws) {
  head();
  const auto row = [&](std::string_view title, std::string_view name, const OptionValues& settings) {
    subject.report(title, *make_policy(name, settings), exact, draws);
  };
  row("`mesa`", "mesa", {});
  for (const double bits : {8.0, 4.0, 3.0, 2.0, 1.0})
    row(fmt::format("`fixed`, {:g}", bits), "fixed", {{"bits", bits}});
  for (const double bits : {4.0, 3.0, 2.5, 2.0})
    for (const bool by_draws : {false, true})
      row(fmt::format("`adaptive`, {:g}{}", bits, by_draws ? ", measured by draws" : ""), "adaptive",
          {{"bits", bits}, {"by_draws", by_draws}});
  for (const double bits : {8.0, 4.0}) {
    GatesFromCodes policy(make_policy("fixed", {{"bits", bits}}));
    subject.report(fmt::format("`fixed`, {:g}, signs read off the codes", bits), policy, exact, draws);
    const std::unique_ptr<MemoryPolicy> regions =
        with_rules(make_policy("fixed", {{"bits", bits}}), {}, {"blocks.*", "layer?.*"});
    subject.report(fmt::format("`fixed`, {:g}, blocks recomputed", bits), *regions, exact, draws);
  }
}

/// Quantizes the tensors of one kind and keeps all others exact.
void kinds_alone(Subject& subject, const Subject::Pass& exact, const Subject::Pass& fixed, int draws) {
  std::map<std::string, int> kinds;
  for (const Subject::Coded& tensor : fixed.coded) ++kinds[tensor.maker];
  fmt::print("\n| made by | tensors | error at 8 bits | 4 bits | 2 bits |\n| --- | --- | --- | --- | --- |\n");
  for (const auto& [kind, count] : kinds) {
    fmt::print("| {} | {} |", kind, count);
    for (const int bits : {8, 4, 2}) {
      HoldRule rule;
      rule.op = kind;
      rule.how = HoldRule::How::quantize;
      rule.bits = bits;
      const std::unique_ptr<MemoryPolicy> policy = with_rules(make_policy("exact"), {rule}, {});
      fmt::print(" {:.5f} |", subject.errors_of(*policy, exact, draws).relative());
    }
    fmt::print("\n");
  }
}

/// Quantizes one tensor and keeps all others exact; also prints the bits `adaptive` assigns to it with each
/// measurement, at 2.5 bits on average.
void tensors_alone(Subject& subject, const Subject::Pass& exact, const Subject::Pass& fixed, int draws) {
  std::map<std::string, int> given[2];  // bits per tensor: measured in backward, by draws
  for (const bool by_draws : {false, true}) {
    const std::unique_ptr<MemoryPolicy> policy = make_policy("adaptive", {{"bits", 2.5}, {"by_draws", by_draws}});
    subject.learn(*policy);
    for (const Subject::Coded& tensor : subject.pass(*policy, 2).coded)
      given[by_draws ? 1 : 0][tensor.key] = tensor.bits;
  }
  fmt::print(
      "\n| tensor | made by | values, thousands | error at 4 bits | 2 bits | by row: 4 bits | 2 bits | bits, measured "
      "in backward | by draws |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  int same = 0, next = 0;
  for (const Subject::Coded& tensor : fixed.coded) {
    std::string by_size, by_row;
    for (const int bits : {4, 2}) {
      test::OneCoded policy(tensor.key, bits);
      const Errors errors = subject.errors_of(policy, exact, draws);
      by_size += fmt::format(" {:.5f} |", errors.relative());
      by_row += fmt::format(" {:.4f} |", errors.relative_by_parts());
    }
    const int in_backward = given[0].at(tensor.key), by_draws = given[1].at(tensor.key);
    same += in_backward == by_draws;
    next += std::abs(in_backward - by_draws) == 1;
    fmt::print("| {} | {} | {:.1f} |{}{} {} | {} |\n", tensor.path,
               std::string_view(tensor.key).substr(tensor.path.size() + 1), static_cast<double>(tensor.values) / 1e3,
               by_size, by_row, in_backward, by_draws);
    std::fflush(stdout);
  }
  fmt::print("\nOf {} tensors {} get the same bits by both measurements, {} one bit more or less, {} differ by more.\n",
             fixed.coded.size(), same, next, fixed.coded.size() - static_cast<std::size_t>(same + next));
}

/// Standard normal values, like activations before an activation function.
Tensor normal_values(std::int64_t count) {
  const RandomStream stream{.seed = 5, .step = 0, .site = random_site("values")};
  std::vector<float> values(static_cast<std::size_t>(count));
  constexpr double turn = 6.283185307179586;
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sqrt(-2 * std::log(1 - static_cast<double>(stream.uniform(2 * i)))) *
                                   std::cos(turn * static_cast<double>(stream.uniform(2 * i + 1))));
  return Tensor::from(std::span<const float>(values), {count});
}

/// Compares values and slopes of activation functions at decoded points with those at the exact points.
void curves(int draws) {
  using Curve = std::function<Tensor(const Tensor& at)>;
  const auto value_of = [](auto op) -> Curve {
    return [op](const Tensor& at) {
      const Tensor y = empty_like(at);
      Bound(op).rematerialize({.tensors = {&at, 1}, .shape = at.shape(), .first_row = 0, .signs = {}}, y);
      return y;
    };
  };
  const auto slope_of = [](auto op) -> Curve {
    return [op](const Tensor& at) {
      Grads grads(1, {0});
      const std::vector<Tensor> inputs{at};
      Bound(op).backward({Tensor::full(at.shape(), 1, at.dtype(), at.device())},
                         bench::KeptTensors(op.saves, inputs, at, {}), grads);
      return grads[0];
    };
  };
  const Tensor x = normal_values(1 << 16).reshape({1 << 8, 1 << 8}), signs = quant::pack_signs(x);
  const std::vector<std::pair<std::string, Curve>> all{{"the value itself", [](const Tensor& at) { return at; }},
                                                       {"GELU", value_of(Gelu{})},
                                                       {"GELU's slope", slope_of(Gelu{})},
                                                       {"SiLU", value_of(Silu{})},
                                                       {"SiLU's slope", slope_of(Silu{})},
                                                       {"ReLU, by exact signs",
                                                        [&](const Tensor& at) {
                                                          const Tensor y = empty_like(at);
                                                          quant::rectify(at, signs, 0, y);
                                                          return y;
                                                        }},
                                                       {"ReLU, by the decoded signs", value_of(Relu{})},
                                                       {"ReLU's slope, by the decoded signs", slope_of(Relu{})}};
  fmt::print(
      "\n| of a quantized x | 8 bits: error, bias | 4 bits | 3 bits | 2 bits | 1 bit |\n"
      "| --- | --- | --- | --- | --- | --- |\n");
  for (const auto& one : all) {
    const auto& curve = one.second;
    const auto vector = [&](const Tensor& at) {
      const Tensor y = curve(at);
      return std::vector<float>(y.data<float>(), y.data<float>() + y.count());
    };
    fmt::print("| {} |", one.first);
    for (const int bits : {8, 4, 3, 2, 1}) {
      Errors errors(vector(x));
      const Tensor decoded = empty_like(x);
      for (int draw = 0; draw < draws; ++draw) {
        const quant::QuantizedTensor quantized =
            quant::quantize(x, quant::min_error_config(bits, {}), static_cast<std::uint64_t>(draw));
        quant::dequantize(quantized, 0, x.count(), decoded);
        errors.add(vector(decoded));
      }
      fmt::print(" {:.4f}, {:.4f} |", errors.relative(), errors.bias());
    }
    fmt::print("\n");
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) {
    fmt::print(stderr, "bench_gradient_error CONFIG.yaml STEPS DRAWS [key=value ...]\n");
    return 2;
  }
  try {
    const int steps = std::atoi(arguments[2]), draws = std::max(2, std::atoi(arguments[3]));
    const std::vector<std::string> overrides(arguments + 4, arguments + count);
    apps::Experiment configuration = apps::resolve(apps::read_configuration(arguments[1], overrides));
    apps::plan_memory(configuration, apps::machine_costs());
    const apps::Experiment own = configuration;
    configuration.memory = {};
    configuration.plan.reset();
    Subject subject(configuration, steps);
    const std::unique_ptr<MemoryPolicy> exact = make_policy("exact");
    const Subject::Pass truth = subject.pass(*exact, 0);
    fmt::print("`exact` saves {:.2f} MiB; {} draws\n", static_cast<double>(truth.saved) / (1 << 20), draws);
    const apps::Configuration::Memory& memory = own.memory;
    if (memory.policy != "exact" || !memory.recompute.empty() || !memory.rules.empty()) {
      head();
      subject.report("as configured", *apps::make_memory_policy(own, Device::cpu), truth, draws);
      return 0;
    }
    whole_policies(subject, truth, draws);
    const Subject::Pass fixed = subject.pass(*make_policy("fixed"), 0);
    kinds_alone(subject, truth, fixed, std::min(draws, 4));
    tensors_alone(subject, truth, fixed, std::min(draws, 4));
    curves(4 * draws);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
