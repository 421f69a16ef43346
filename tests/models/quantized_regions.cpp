// Tensors of checkpointed regions that run again, held as the memory policy has them.
#include "core/ledger.h"
#include "tests/models/tiny_models.h"

#include <doctest/doctest.h>

using namespace lacuna;
using namespace lacuna::test;

namespace {

Description wide_vit() {
  Description vit = tiny_vit();
  for (HyperParameter& parameter : vit.hyper_parameters)
    if (parameter.key == "embed_dim") parameter.value = whole(96);
  return vit;
}

std::int64_t most_saved(const Description& description, MemoryPolicy& policy) {
  ledger(Device::meta).reset_peak();
  step(description, policy, {}, {.device = Device::meta});
  return at(ledger(Device::meta).highest(), Purpose::saved);
}

}  // namespace

TEST_CASE("regions: a tensor is quantized with the same draws in forward and while its region runs again") {
  const HoldRule of_linear{.path = "blocks.*.fc1", .op = "linear", .how = HoldRule::How::quantize, .bits = 4};
  const auto with_regions = [&](std::vector<std::string> regions) {
    return step(wide_vit(), *with_rules(make_policy("exact"), {of_linear}, std::move(regions)));
  };
  const Step in_forward = with_regions({}), exact = step(wide_vit(), "exact");
  CHECK(gradient_error(in_forward, exact) > 0);
  for (const std::vector<std::string>& regions :
       {std::vector<std::string>{"blocks.*"}, {"blocks.1"}, {"blocks", "blocks.*"}, {"blocks.*", "blocks.*.attn"}}) {
    CAPTURE(regions.size());
    CHECK(with_regions(regions).results == in_forward.results);
  }
}

TEST_CASE("regions: what a region saves while it runs again takes the policy's bits") {
  const std::vector<std::string> blocks{"blocks.*"};
  const std::int64_t exact = most_saved(wide_vit(), *with_rules(make_policy("exact"), {}, blocks));
  std::int64_t before = exact;
  for (const double bits : {8.0, 4.0, 2.0}) {
    CAPTURE(bits);
    for (const char* const name : {"fixed", "adaptive"}) {
      CAPTURE(name);
      const std::int64_t saved = most_saved(wide_vit(), *with_rules(make_policy(name, {{"bits", bits}}), {}, blocks));
      CHECK(saved < before);
      if (name == std::string_view("adaptive")) before = saved;
    }
  }
  CHECK(before < exact / 4);
}

TEST_CASE("regions: lossless policies have the bits of keep, and nothing stays saved") {
  const Step keep = step(wide_vit(), "keep");
  for (const char* const name : {"keep", "exact", "auto"})
    for (const std::vector<std::string>& regions : {std::vector<std::string>{"blocks.*"}, {"blocks", "blocks.*"}})
      CHECK(step(wide_vit(), *with_rules(make_policy(name), {}, regions)).results == keep.results);
  for (const char* const name : {"fixed", "mesa", "adaptive"}) {
    const std::unique_ptr<MemoryPolicy> policy = with_rules(make_policy(name), {}, {"blocks", "blocks.*"}),
                                        again = with_rules(make_policy(name), {}, {"blocks", "blocks.*"});
    for (int i = 0; i < 2; ++i) CHECK(step(wide_vit(), *policy).results == step(wide_vit(), *again).results);
    CHECK(at(ledger(Device::cpu).live(), Purpose::saved) == 0);
    const std::unique_ptr<MemoryPolicy> resumed = with_rules(make_policy(name), {}, {"blocks", "blocks.*"});
    resumed->set_state(policy->state());
    CHECK(step(wide_vit(), *resumed).results == step(wide_vit(), *policy).results);
  }
}
