#include "apps/train/memory_plan.h"

#include <algorithm>
#include <functional>

namespace lacuna::apps {

int MemoryPlan::bits_of(const SavedTensorName& tensor) const {
  const auto own = others.find(tensor);
  return own == others.end() ? bits : own->second;
}

void write_plan(const MemoryPlan& plan, Configuration::Memory& memory) {
  memory.options.insert_or_assign("bits", static_cast<double>(plan.bits));
  memory.options.erase("left_over");
  memory.recompute = plan.recompute;
  memory.rules.clear();
  const auto group_size = memory.options.find("group_size");
  for (const auto& [name, bits] : plan.others) {
    HoldRule& rule = memory.rules.emplace_back(HoldRule{.path = name.first, .slot = name.second});
    rule.how = bits == exact_bits ? HoldRule::How::exact : HoldRule::How::quantize;
    if (bits != exact_bits) rule.bits = bits;
    if (group_size != memory.options.end())
      rule.group_size = static_cast<std::int64_t>(std::get<double>(group_size->second));
  }
  for (const SavedTensorName& name : plan.kept)
    memory.rules.push_back({.path = name.first, .slot = name.second, .how = HoldRule::How::keep});
}

MemoryPlan read_plan(const Configuration::Memory& memory, const StepSurvey& found) {
  MemoryPlan plan{.bits = static_cast<int>(std::get<double>(memory.options.at("bits"))), .recompute = memory.recompute};
  for (const HoldRule& rule : memory.rules) {
    const bool of_op = rule.slot == "*";
    if (rule.how == HoldRule::How::keep) {
      plan.kept.emplace_back(rule.path, of_op ? rule.op : rule.slot);
      continue;
    }
    for (const Codable& tensor : found.tensors)
      if (tensor.name.first == rule.path && (of_op ? tensor.op == rule.op : tensor.name.second == rule.slot))
        plan.others[tensor.name] = rule.how == HoldRule::How::exact ? exact_bits : rule.bits;
  }
  return plan;
}

std::vector<std::string> describe(const MemoryPlan& plan, const StepSurvey& found, const RegionChoices& choices) {
  std::vector<std::string> how;
  std::map<int, std::int64_t, std::greater<>> tensors;  // by their bits
  for (const Codable& tensor : found.tensors) ++tensors[plan.bits_of(tensor.name)];
  for (const auto& [bits, count] : tensors)
    how.push_back(
        fmt::format("{} {}", counted(count, "tensor"), bits == exact_bits ? "exact" : "in " + counted(bits, "bit")));
  if (found.tensors.empty() && plan.bits != exact_bits) how.emplace_back("images in 8 bits");
  if (!plan.kept.empty()) how.push_back(fmt::format("{} kept that could be derived", plan.kept.size()));
  if (plan.recompute.empty()) return how;
  const auto whole = std::ranges::count_if(choices.blocks(), [&](const std::string& block) {
    return std::ranges::any_of(plan.recompute, [&](const std::string& region) { return lies_in(block, region); });
  });
  const auto parts = std::ranges::count_if(plan.recompute, [&](const std::string& region) {
    return std::ranges::find(choices.parts(), region) != choices.parts().end();
  });
  std::string again = "recomputed";
  if (whole > 0 || parts == 0) again += fmt::format(" {} of {} blocks", whole, choices.blocks().size());
  if (whole > 0 && parts > 0) again += " and";
  if (parts > 0)
    again += fmt::format(" {} of blocks by {}", counted(parts, "part"), parts == 1 ? "itself" : "themselves");
  if (whole > std::ssize(plan.recompute) - parts)
    again += ", in " + counted(std::ssize(plan.recompute) - parts, "region");
  how.push_back(std::move(again));
  return how;
}

std::string counted(std::ptrdiff_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace lacuna::apps
