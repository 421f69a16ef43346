#include "apps/train/exchange_plan.h"

#include "apps/config/resolve.h"
#include "apps/train/measure.h"
#include "apps/train/setup.h"
#include "autograd/observer.h"
#include "optim/gradient_exchange.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace lacuna::apps {
namespace {

/// Adds up what ops take in backward.
class BackwardTime final : public Observer {
 public:
  explicit BackwardTime(const CostTable& costs) : costs_(costs) {}
  void before(Phase, const Operation&, Label) override {}
  void after(Phase phase, const Operation&, Label, const Work& work, std::span<const Tensor>) override {
    if (phase == Phase::backward) seconds_ += costs_.op_seconds(work.macs, work.bytes);
  }
  double seconds() const { return seconds_; }

 private:
  const CostTable& costs_;
  double seconds_ = 0;
};

/// A number and one of the units.
double parse(const std::string& text, std::initializer_list<std::pair<std::string_view, double>> units,
             const std::string& expected) {
  std::size_t end = 0;
  double number = -1;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception&) {
  }
  for (const auto& [name, factor] : units)
    if (number > 0 && std::isfinite(number) && text.substr(end) == name) return number * factor;
  reject("expected {}, got {}", expected, text);
}

}  // namespace

double parse_bandwidth(const std::string& text) {
  return parse(text, {{"Mbit", 1.25e5}, {"Gbit", 1.25e8}, {"MB", 1e6}, {"GB", 1e9}},
               "--bandwidth as 1Gbit, 10Gbit or 12.5GB (a second)");
}

double parse_latency(const std::string& text) {
  return parse(text, {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}, "--latency as 50us or 1ms");
}

ExchangePlan plan_exchange(const Experiment& experiment, const Network& network, const CostTable& costs) {
  Setup setup(experiment, Device::meta);
  const int ranks = experiment.process.ranks;
  ExchangePlan plan{.ranks = ranks, .network = network};
  std::int64_t updated = 0;  // bytes of parameters
  std::int64_t elements = 0;
  for (const Parameter* parameter : setup.model().parameters()) {
    if (!parameter->trainable()) continue;
    elements += parameter->tensor().count();
    updated += parameter->tensor().bytes();
  }
  const bool in_8_bits = experiment.ranks.exchange == "int8", to_owners = experiment.ranks.shard == "gradients";
  const bool halves = experiment.optimizer.gradients == "bf16" || experiment.ranks.exchange == "bf16";
  plan.gradients =
      in_8_bits ? QuantizedSum::bytes_sent(elements) : elements * (halves ? size_of(DType::bf16) : size_of(DType::f32));
  // A ring's bytes and messages: Thakur et al. 2005, "Optimization of Collective Communication Operations in MPICH".
  const double share = (ranks - 1.0) / ranks;
  const std::int64_t bucket = bucket_bytes_for(updated);
  // Buckets are counted in the gradients' own type.
  const double buckets_of_all = std::max(1.0, std::ceil(static_cast<double>(updated) / static_cast<double>(bucket)));
  const auto seconds_of = [&](double bytes, double passes, double buckets) {
    return passes * (share * bytes / network.bandwidth + buckets * (ranks - 1) * network.latency);
  };
  const auto bytes = static_cast<double>(plan.gradients);
  // To the owners: slices are summed, and each rank sends its slice on, of which an Nth is for each owner.
  const double passes = to_owners ? 1 + 1.0 / ranks : 2;
  plan.seconds = seconds_of(bytes, passes, buckets_of_all);
  if (device_of(experiment).kind != DeviceKind::cuda) {
    BackwardTime time(costs);
    measure(setup, experiment, {.observer = &time});
    const double backward = time.seconds() / static_cast<double>(experiment.train.accumulate);  // the last micro-batch
    const double last = seconds_of(bytes / buckets_of_all, passes, 1);
    plan.overlap = {backward, ranks == 1 ? 0 : std::max(0.0, plan.seconds - last - backward) + last};
  }
  plan.sent = static_cast<std::int64_t>(passes * share * bytes);
  plan.buffers = ranks == 1 ? 0 : std::min(bucket, plan.gradients) * (2 * ranks + 1) / ranks;
  if (in_8_bits && ranks > 1)  // what it rounded off, and in QuantizedSum two arrays in f32 and two in 8 bits
    plan.buffers = elements * 4 + std::min(bucket / 4, elements) * (10 * ranks + 4) / ranks;
  if (experiment.ranks.shard != "none") {  // parameters come back after the step
    const double back = seconds_of(static_cast<double>(updated), 1, buckets_of_all);
    plan.sent += static_cast<std::int64_t>(share * static_cast<double>(updated));
    plan.seconds += back;
    if (plan.overlap) plan.overlap->exposed += back;
  }
  return plan;
}

std::string to_text(const ExchangePlan& plan, const std::string& bandwidth) {
  std::string text =
      fmt::format("{} ranks: each sends {} a step and holds {} for it; {:.3g} s with --bandwidth {}, ", plan.ranks,
                  format_bytes(plan.sent), format_bytes(plan.buffers), plan.seconds, bandwidth);
  if (!plan.overlap) return text + "less what a backward pass hides, whose time on the GPU is not known here\n";
  return text + fmt::format("{:.3g} s of them on top of the step (a backward pass takes about {:.3g} s)\n",
                            plan.overlap->exposed, plan.overlap->backward);
}

nlohmann::ordered_json to_json(const ExchangePlan& plan) {
  nlohmann::ordered_json json{{"ranks", plan.ranks},
                              {"gradient_bytes", plan.gradients},
                              {"sent_bytes", plan.sent},
                              {"buffer_bytes", plan.buffers},
                              {"bytes_per_second", plan.network.bandwidth},
                              {"message_seconds", plan.network.latency},
                              {"seconds", plan.seconds}};
  if (plan.overlap) {
    json["backward_seconds"] = plan.overlap->backward;
    json["exposed_seconds"] = plan.overlap->exposed;
  }
  return json;
}

}  // namespace lacuna::apps
