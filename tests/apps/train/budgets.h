// What the tests of budgets share.
#pragma once

#include "apps/config/configuration.h"
#include "apps/train/budget.h"
#include "apps/train/measure.h"
#include "core/error.h"
#include "core/ledger.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

namespace lacuna::apps::budgets {

/// On `meta` nothing is computed: rates are nominal, and bits are worth what sizes say.
inline Configuration configured(const std::string& model, const std::string& memory,
                                const std::string& device = "auto") {
  return parse_configuration(
      fmt::format("model: {}\nmemory: {}\ntrain: {{batch_size: 8, device: {}}}\n", model, memory, device), "a.yaml");
}

inline std::int64_t saved(const Configuration& configuration) {
  return at(measure(configuration, Device::meta).memory, Purpose::saved);
}

inline std::string refusal(Configuration configuration) {
  try {
    fit_budget(configuration, Rates{});
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::input);
    return error.what();
  }
  return {};
}

inline constexpr const char* vit = "{name: vit_cifar, num_classes: 10, depth: 6}";
inline constexpr const char* resnet = "{name: resnet20, num_classes: 10}";

}  // namespace lacuna::apps::budgets
