// Helpers shared by the tests of offload stores.
#pragma once

#include "autograd/offload_store.h"
#include "autograd/policies/rules.h"
#include "core/ledger.h"
#include "ops/curves/activation.h"
#include "ops/norms/layer_norm.h"
#include "ops/products/linear.h"
#include "tests/autograd/graphs.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna {

/// Gradients of a few layers under a policy, with its tensors in `store`, of which `in_memory` may be on the device
/// too.
inline std::vector<std::vector<double>> gradients_of_layers(std::string_view name,
                                                            const std::shared_ptr<OffloadStore>& store, int passes = 1,
                                                            const std::vector<HoldRule>& rules = {},
                                                            Device device = Device::cpu, std::int64_t in_memory = 0) {
  const std::unique_ptr<RuledPolicy> policy = with_rules(make_policy(name), rules);
  if (store) policy->set_store(store, true);
  const auto make_leaf = [&](const Shape& shape, std::uint32_t site, Purpose purpose) {
    const Tensor tensor = test_values(shape, site, DType::f32).to(device);
    tensor.set_purpose(purpose);
    return Variable(tensor, true, "leaf" + std::to_string(site));
  };
  const Variable x = make_leaf({16, 64, 64}, 1, Purpose::data);
  std::vector<Variable> weights;
  for (std::uint32_t i = 2; i < 8; ++i) weights.push_back(make_leaf({64, 64}, i, Purpose::parameters));
  const Variable scale = make_leaf({64}, 9, Purpose::parameters), bias = make_leaf({64}, 10, Purpose::parameters);
  const RandomStateScope random({.seed = 3, .step = 1});
  Tape tape(*policy);
  const Recording recording(tape);
  Variable h = x;
  for (const Variable& weight : weights)
    h = apply(Gelu{}, apply(Linear{}, apply(LayerNorm{}, std::move(h), scale, bias), weight, Variable()));
  const Variable loss = total(std::move(h));
  tape.finalize();
  const auto saved = [&] { return at(ledger(device).live(), Purpose::saved); };
  const std::int64_t before_backward = saved();
  for (int pass = 0; pass < passes; ++pass) {
    for (const Variable& leaf : weights) Variable(leaf).set_grad({});
    tape.backward(loss, {.retain_graph = pass + 1 < passes});
  }
  if (store) {
    // The input and statistics of norms, of 12 tensors or more.
    CHECK(before_backward < 2 * x.tensor().bytes() + in_memory);
    CHECK(store->bytes() == 0);
  }
  CHECK(saved() == 0);
  std::vector<std::vector<double>> all{x.grad().to_vector()};
  for (const Variable& weight : weights) all.push_back(weight.grad().to_vector());
  return all;
}

/// Bytes on the device at the peak of a step of a few layers under `exact`, with its tensors in `store`.
inline std::int64_t peak_of_layers(Device device, std::shared_ptr<OffloadStore> store) {
  const std::unique_ptr<RuledPolicy> policy = with_rules(make_policy("exact"), {});
  policy->set_store(std::move(store), true);
  ledger(device).reset_peak();
  const std::int64_t before = ledger(device).total();
  Tape tape(*policy);
  const Recording recording(tape);
  Variable h(Tensor::zeros({16, 64, 64}, DType::f32, device, Purpose::data), true);
  for (int i = 0; i < 6; ++i) h = apply(Gelu{}, std::move(h));  // without workspaces, which differ by device
  const Variable loss = total(std::move(h));
  tape.backward(loss);
  return ledger(device).peak() - before;
}

}  // namespace lacuna
