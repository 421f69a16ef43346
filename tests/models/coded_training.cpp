// Whole models under the policies that hold tensors in few bits: what their gradients lose, what their memory is.
#include "autograd/plan/bit_allocation.h"
#include "tests/models/one_coded.h"
#include "tests/models/tiny_models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <tuple>

using namespace lacuna;
using namespace lacuna::test;

namespace {

/// The squared error of the whole gradient in a measure, mean over draws, under a policy.
double true_variance(const Description& description, const Step& exact, MemoryPolicy& policy, ErrorMeasure measure) {
  constexpr int draws = 6;
  double sum = 0;
  for (std::uint32_t draw = 0; draw < draws; ++draw) {
    const Step one = step(description, policy, {}, {}, draw);
    for (const auto& [name, values] : exact.results) {
      if (!is_gradient(name)) continue;
      const std::vector<double>& others = one.results.at(name);
      const bool relative = measure == ErrorMeasure::relative;
      const std::size_t width = values.size() / static_cast<std::size_t>(relative ? exact.rows.at(name) : 1);
      for (std::size_t i = 0; i < values.size();) {
        double square = 0, change = 0;
        for (const std::size_t end = i + width; i < end; ++i) {
          square += values[i] * values[i];
          change += (others[i] - values[i]) * (others[i] - values[i]);
        }
        if (relative && change > 0) change = std::min(change / square, 4.0) * static_cast<double>(width);
        sum += change;  // as counted_error
      }
    }
  }
  return sum / draws;
}

/// Every kind of policy, and combinations.
std::map<std::string, std::unique_ptr<MemoryPolicy>> all_policies() {
  const std::vector<std::string> blocks{"blocks.*", "layer?.*"};
  const auto rule = [](std::string_view op, int bits) {
    HoldRule one;
    one.op = op;
    one.how = HoldRule::How::quantize;
    one.bits = bits;
    return one;
  };
  std::map<std::string, std::unique_ptr<MemoryPolicy>> all;
  for (const std::string& name : memory_policies().names()) all[name] = make_policy(name);
  all["fixed, recompute"] = with_rules(make_policy("fixed"), {}, blocks);
  all["mesa, recompute"] = with_rules(make_policy("mesa"), {}, blocks);
  all["adaptive, recompute"] = with_rules(make_policy("adaptive"), {}, blocks);
  all["exact, rules"] = with_rules(make_policy("exact"), {rule("linear", 2), rule("add", 4)}, {});
  all["fixed, rules, recompute"] = with_rules(make_policy("fixed"), {rule("linear", 2)}, {"blocks.1", "layer1.1"});
  return all;
}

Description vit_of_depth(std::int64_t depth) {
  Description vit = tiny_vit();
  for (HyperParameter& parameter : vit.hyper_parameters)
    if (parameter.key == "depth") parameter.value = whole(depth);
  return vit;
}

/// Its blocks end in ReLU, so that what is derived from codes is derived through chains.
Description resnet_of_depth(std::int64_t depth) {
  Description resnet = tiny_resnet();
  for (HyperParameter& parameter : resnet.hyper_parameters)
    if (parameter.key == "layers") parameter.value = std::vector<std::int64_t>{depth, 2};
  return resnet;
}

}  // namespace

TEST_CASE("coded training: most sensitivities measured in backward are the true ones within a factor of four") {
  struct Case {
    Description model;
    std::vector<std::string> regions;
    int least_tensors;
  };
  const Case cases[] = {
      {tiny_vit(), {}, 10}, {tiny_resnet(), {}, 8}, {tiny_vit(), {"blocks.*"}, 3}, {tiny_resnet(), {"layer?.*"}, 3}};
  for (const Case& one : cases) {
    for (const ErrorMeasure measure : {ErrorMeasure::absolute, ErrorMeasure::relative}) {
      INFO(one.model.name, std::string(one.regions.empty() ? "" : ", blocks recomputed"),
           std::string(measure == ErrorMeasure::relative ? ", relative" : ", absolute"));
      const Step exact = step(one.model, "exact");
      const std::unique_ptr<MemoryPolicy> adaptive =
          with_rules(make_policy("adaptive", {{"bits", 8.0}}), {}, one.regions);
      step(one.model, *adaptive, {}, {}, 4, measure);
      int compared = 0, near = 0;
      for (const auto& [name, values] : adaptive->state()) {
        if (!name.starts_with("tensor ")) continue;
        const std::string key = name.substr(7);
        INFO(key);
        const double measured = values.to_vector()[2] * code_variance(2);
        const std::unique_ptr<MemoryPolicy> alone = with_rules(std::make_unique<OneCoded>(key, 2), {}, one.regions);
        const double truth = true_variance(one.model, exact, *alone, measure);
        ++compared;
        if (measured < 4 * truth && truth < 4 * measured) ++near;
        if (key.ends_with(" recompute")) {  // followed from region to region alone
          CHECK(measured < 1.5 * truth);
          CHECK(truth < 1.5 * measured);
        }
        CHECK(measured < 8 * truth);
        CHECK(truth < 8 * measured);
      }
      CHECK(compared >= one.least_tensors);
      // With regions there are few others, all before the first one.
      if (one.regions.empty()) CHECK(4 * near > 3 * compared);
    }
  }
}

TEST_CASE("coded training: nothing stays saved after backward, whatever the policy") {
  for (const Description& description : {tiny_vit(), tiny_resnet()}) {
    const Step exact = step(description, "exact");
    for (const auto& entry : all_policies()) {
      INFO(description.name, " under ", entry.first);
      for (int pass = 0; pass < 3; ++pass) {  // the first one measures, or learns ranges
        CHECK(step(description, *entry.second).results.at("logits") == exact.results.at("logits"));
        const Bytes live = ledger(Device::cpu).live();
        for (const Purpose purpose : {Purpose::saved, Purpose::transient, Purpose::workspace, Purpose::gradients})
          CHECK(at(live, purpose) == 0);
      }
    }
  }
}

TEST_CASE("coded training: what backward needs besides what is saved does not grow with the number of coded tensors") {
  struct Highest {
    std::int64_t saved, transient, workspace;
  };
  const auto highest = [](const Description& description, MemoryPolicy& policy) {
    step(description, policy);  // measures, where the policy does
    ledger(Device::cpu).reset_peak();
    const Step done = step(description, policy);
    const Bytes bytes = ledger(Device::cpu).highest();
    return Highest{done.saved, at(bytes, Purpose::transient), at(bytes, Purpose::workspace)};
  };
  for (const auto& entry : all_policies()) {
    const std::string& name = entry.first;
    if (name == "fixed, rules, recompute") continue;  // one block is recomputed, and the others are not
    // If nothing is quantized, every fourth block output of a ResNet is kept and those in between are rematerialized
    // from it, so depths that differ by a multiple of four end at the same place of such a chain. From six blocks on,
    // one that is rematerialized from codes lies inside the stage, and its convolutions need the most workspace.
    for (Description (*const of_depth)(std::int64_t) : {vit_of_depth, resnet_of_depth}) {
      INFO(of_depth(8).name, " under ", name);
      const Highest few = highest(of_depth(8), *entry.second), many = highest(of_depth(16), *entry.second);
      CHECK(many.saved > few.saved);
      CHECK(many.transient == few.transient);
      CHECK(many.workspace == few.workspace);
    }
  }
}

TEST_CASE("coded training: recomputed regions whose inputs are coded save less than either, and err as codes do") {
  for (const Description& description : {tiny_vit(), tiny_resnet()}) {
    INFO(description.name);
    const std::vector<std::string> regions{"blocks.*", "layer?.?"};
    const Step exact = step(description, "exact");
    const Step recomputed = step(description, *with_rules(make_policy("exact"), {}, regions));
    double last = 1e9;
    for (const double bits : {2.0, 4.0, 8.0}) {
      INFO(bits, " bits");
      const Step coded = step(description, *make_policy("fixed", {{"bits", bits}}));
      constexpr std::uint32_t draws = 8;
      double square = 0;
      for (std::uint32_t draw = 0; draw < draws; ++draw) {
        const Step both =
            step(description, *with_rules(make_policy("fixed", {{"bits", bits}}), {}, regions), {}, {}, draw);
        CHECK(both.saved < coded.saved);
        CHECK(both.saved < recomputed.saved);
        CHECK(both.results.at("logits") == exact.results.at("logits"));
        square += std::pow(gradient_error(both, exact), 2) / draws;
      }
      const double error = std::sqrt(square);
      CHECK(error > 0);
      // Batch norms and ReLU run again on what the codes say, and some gates are others than in forward: with 2 bits
      // the error is as large as the gradient, from where it falls less than in proportion at first.
      CHECK(error < last / (description.name == "resnet" && bits == 4 ? 1.4 : 2));
      last = error;
    }
    // At 8 bits what is left in the ResNet are gates of ReLU near zero: a fifth of the gradient, whichever way codes
    // round.
    CHECK(last < (description.name == "vit" ? 0.02 : 0.25));
  }
}

TEST_CASE("coded training: the gates of ReLU are exact wherever codes come from") {
  const auto rule = [](HoldRule::How how, std::string path, std::string user) {
    return HoldRule{.path = std::move(path), .user = std::move(user), .how = how, .bits = 8};
  };
  const HoldRule codes = rule(HoldRule::How::quantize, "*", "*"), late = rule(HoldRule::How::quantize, "layer2*", "*"),
                 for_convolutions = rule(HoldRule::How::exact, "*", "conv2d"),
                 nowhere = rule(HoldRule::How::quantize, "nowhere", "*"),
                 early = rule(HoldRule::How::exact, "layer1*", "*");
  const HoldRule of_convolutions{.op = "conv2d", .how = HoldRule::How::quantize, .bits = 8},
      rectified{.op = "batch_norm_relu", .how = HoldRule::How::keep};
  // With frozen convolutions behind them outputs of norms are needed by their sign alone.
  for (const FreezeRules& frozen : {FreezeRules{}, FreezeRules{.train = {"*bn*", "fc*"}, .freeze = {}}})
    for (const Description& description : {tiny_resnet(), tiny_resnet({{"stem", "cifar"}, {"block", "basic"}})}) {
      const OptionValues bits{{"bits", 8.0}};
      const Step exact = step(description, "exact", frozen);
      const double usual = gradient_error(step(description, *make_policy("fixed", bits), frozen), exact);
      CHECK(usual > 0);
      CHECK(usual < 0.01);
      const auto error = [&](std::string_view base, const OptionValues& settings, std::vector<HoldRule> rules) {
        return gradient_error(step(description, *with_rules(make_policy(base, settings), std::move(rules), {}), frozen),
                              exact);
      };
      INFO(usual);
      CHECK(error("exact", {}, {codes}) < 1.5 * usual);
      CHECK(error("exact", {}, {late}) < 1.5 * usual);
      CHECK(error("keep", {}, {codes}) < 1.5 * usual);
      CHECK(error("auto", {}, {codes}) < 1.5 * usual);
      CHECK(error("fixed", bits, {early}) < 1.5 * usual);
      // The additionally kept tensors give exact signs; their quantized sources would not.
      CHECK(error("keep", {}, {of_convolutions}) < 1.5 * usual);
      CHECK(error("fixed", bits, {rectified}) < 1.5 * usual);
      if (frozen.train.empty()) CHECK(error("fixed", bits, {for_convolutions}) < 1.5 * usual);
      // Nothing is kept for gates where no rule codes anything, however many there are.
      CHECK(step(description, *with_rules(make_policy("exact"), {nowhere}, {}), frozen).saved == exact.saved);
    }
}

TEST_CASE("coded training: mesa codes what regions keep, and leaves alone what ops read that are switched off") {
  for (const Description& description : {tiny_vit(), tiny_resnet()}) {
    INFO(description.name);
    const std::vector<std::string> regions{"blocks.*", "layer?.?"};
    const std::int64_t both = step(description, *with_rules(make_policy("mesa"), {}, regions)).saved;
    CHECK(both < step(description, "mesa").saved);
    CHECK(both < step(description, *with_rules(make_policy("exact"), {}, regions)).saved);
    OptionValues off;
    for (const char* const kind : {"linear", "convolution", "matmul", "softmax", "activation", "norm"})
      off[kind] = false;
    CHECK(step(description, *make_policy("mesa", off)).saved > 2 * step(description, "mesa").saved);
  }
  // Who reads no more than a sign does not have what a convolution reads coded.
  const FreezeRules norms{.train = {}, .freeze = {"*bn*", "*downsample.1*"}};
  const Step all = step(tiny_resnet(), *make_policy("mesa"), norms),
             others = step(tiny_resnet(), *make_policy("mesa", {{"convolution", false}}), norms);
  CHECK(all.coded_elements > 0);
  CHECK(others.coded_elements == 0);
}

TEST_CASE("coded training: what is measured in regions has the same bits wherever memory lies") {
  std::vector<std::unique_ptr<char[]>> between;
  std::map<std::string, std::vector<double>> first;
  for (std::size_t i = 0; i < 12; ++i) {
    for (std::size_t j = 0; j <= i; ++j) between.push_back(std::make_unique<char[]>(40 + 112 * ((5 * i + 3 * j) % 7)));
    const std::unique_ptr<MemoryPolicy> policy = with_rules(make_policy("adaptive"), {}, {"layer?.*"});
    step(tiny_resnet(), *policy);
    std::map<std::string, std::vector<double>> numbers;
    for (const auto& [name, values] : policy->state()) numbers[name] = values.to_vector();
    if (i == 0) {
      first = numbers;
      const auto measured = [](const auto& entry) {
        return entry.first.ends_with(" recompute") && entry.second.at(2) > 0;
      };
      REQUIRE(std::count_if(first.begin(), first.end(), measured) > 1);
    }
    CHECK(numbers == first);
  }
}

TEST_CASE(
    "coded training: what adapts has the bits that are asked for at once, whatever a checkpoint was planned for") {
  for (const Description& description : {tiny_vit(), tiny_resnet()}) {
    const auto policy = [](double bits, double group_size) {
      return make_policy("adaptive", {{"bits", bits}, {"group_size", group_size}});
    };
    const std::unique_ptr<MemoryPolicy> before = policy(8, 256);
    for (int pass = 0; pass < 2; ++pass) step(description, *before);
    for (const double group_size : {256.0, 64.0}) {
      INFO(description.name, ", groups of ", group_size);
      const std::unique_ptr<MemoryPolicy> other = policy(2, group_size);
      other->set_state(before->state());
      const std::int64_t most =
          step(description, *make_policy("fixed", {{"bits", 2.0}, {"group_size", group_size}})).saved;
      CHECK(step(description, *other).saved <= most);
      const Step planned = step(description, *other);
      CHECK(planned.saved <= most);
      CHECK(static_cast<double>(planned.coded_bits) > 1.8 * static_cast<double>(planned.coded_elements));
      // The sensitivities are still those that were measured.
      std::map<std::string, double> known;
      for (const auto& [name, values] : before->state())
        if (name.starts_with("tensor ")) known[name] = values.to_vector()[2];
      for (const auto& [name, values] : other->state())
        if (name.starts_with("tensor ")) CHECK(values.to_vector()[2] == known.at(name));
    }
    // With nothing changed the next pass is as it would have been.
    const std::unique_ptr<MemoryPolicy> same = policy(8, 256);
    same->set_state(before->state());
    CHECK(step(description, *same).results == step(description, *before).results);
  }
}

TEST_CASE("coded training: what adapts keeps to its average, and uses it") {
  for (const Description& description : {tiny_vit(), tiny_resnet()}) {
    for (const double bits : {2.0, 2.5, 4.0}) {
      INFO(description.name, " at ", bits);
      const std::unique_ptr<MemoryPolicy> adaptive = make_policy("adaptive", {{"bits", bits}});
      for (int pass = 0; pass < 2; ++pass) {
        const Step done = step(description, *adaptive);
        const double average = static_cast<double>(done.coded_bits) / static_cast<double>(done.coded_elements);
        if (pass > 0 || bits > 2) CHECK(average <= bits);  // the first measures, and takes two bits at least for it
        if (pass > 0) CHECK(average > bits - 0.2);
        if (pass > 0 && bits != 2.5)
          CHECK(done.saved <= step(description, *make_policy("fixed", {{"bits", bits}})).saved);
      }
    }
  }
}
