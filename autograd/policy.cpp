#include "autograd/policy.h"

namespace lacuna {

std::string_view name_of(Hold::Kind kind) {
  constexpr std::string_view names[] = {"drop", "keep", "rematerialize", "sign mask", "quantize", "offload"};
  return names[kind];
}

void expect_valid(const Hold& hold, const SavedTensorInfo& info, const MemoryPolicy& policy) {
  const bool is_valid = [&] {
    switch (hold.kind) {
      case Hold::keep:
        return true;
      case Hold::drop:
        return info.optional;
      case Hold::rematerialize:
        return info.can_rematerialize;
      case Hold::sign_mask:
        return info.need == Need::sign;
      case Hold::quantize:
        return policy.quantizes() && info.need <= Need::value && is_floating(info.dtype);
      case Hold::offload:
        return false;
    }
    return false;
  }();
  expect(is_valid, "the policy {} answers `{}` for {}, a tensor of {} that is needed as {}{}", policy.name(),
         name_of(hold.kind), info.key(), name_of(info.dtype), name_of(info.need),
         hold.kind == Hold::quantize && !policy.quantizes() ? ", and says that it quantizes nothing" : "");
}

std::string SavedTensorInfo::name() const {
  std::string name(maker());
  if (source.kind == Source::Kind::output && source.index > 0) name += fmt::format(" output {}", source.index);
  if (source.kind == Source::Kind::extra_output) name += fmt::format(" statistic {}", source.index);
  if (occurrence > 0) name += fmt::format(" #{}", occurrence + 1);
  return name;
}

std::string SavedTensorInfo::key() const { return fmt::format("{} {}", path.text(), name()); }

std::int64_t MemoryPolicy::recomputes(const ModuleRange&, std::string_view) { return 0; }

void MemoryPolicy::set_state(const std::map<std::string, Tensor>& state) {
  if (!state.empty())
    reject("memory policy {}: a checkpoint of another policy: it has no state {}", name(), state.begin()->first);
}

Registry<MemoryPolicyKind>& memory_policies() {
  static Registry<MemoryPolicyKind> registry("memory policy");
  return registry;
}

std::unique_ptr<MemoryPolicy> make_policy(std::string_view name, const OptionValues& options) {
  const MemoryPolicyKind& kind = memory_policies().get(name);
  return kind.make(read_options(fmt::format("memory policy {}", name), kind.options, options));
}

}  // namespace lacuna
