#include "autograd/plan/memory_plan.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace lacuna {

using nlohmann::ordered_json;

bool MemoryPlan::quantizes() const {
  return std::ranges::any_of(tensors, [](const auto& entry) { return entry.second.bits != exact_bits; });
}

bool MemoryPlan::offloads() const {
  return std::ranges::any_of(tensors, [](const auto& entry) { return entry.second.offloaded; });
}

std::string to_json(const MemoryPlan& plan) {
  ordered_json tensors = ordered_json::object();
  for (const auto& [key, choice] : plan.tensors) {
    if (choice.offloaded) {
      tensors[key] = "offload";
      continue;
    }
    if (choice.kept)
      tensors[key] = "keep";
    else if (choice.bits == exact_bits)
      tensors[key] = "exact";
    else
      tensors[key] = choice.bits;
  }
  const ordered_json json{{"text", plan.text},         {"bytes", plan.bytes},           {"seconds", plan.seconds},
                          {"variance", plan.variance}, {"group_size", plan.group_size}, {"regions", plan.regions},
                          {"tensors", tensors}};
  return json.dump(2) + "\n";
}

MemoryPlan parse_plan(std::string_view text, const std::string& source) {
  const ordered_json json = ordered_json::parse(text, nullptr, false);
  if (!json.is_object()) reject("{}: expected a memory plan as a JSON object", source);
  const auto member = [&](const char* key, auto is_valid, const char* expected) -> const ordered_json& {
    const auto found = json.find(key);
    if (found == json.end() || !is_valid(*found)) reject("{}: expected `{}`: {}", source, key, expected);
    return *found;
  };
  const auto is_number = [](const ordered_json& value) {
    return value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() >= 0;
  };
  const auto is_whole = [](const ordered_json& value) {
    return value.is_number_integer() && value.get<std::int64_t>() >= 0;
  };
  MemoryPlan plan;
  plan.text = member(
      "text", [](const ordered_json& value) { return value.is_string(); }, "the plan in words");
  plan.bytes = member("bytes", is_whole, "a whole number");
  plan.seconds = member("seconds", is_number, "time of a step relative to an exact one");
  plan.variance = member("variance", is_number, "a number, 0 or more");
  plan.group_size = member("group_size", is_whole, "a whole number from 64 to 1024");
  if (plan.group_size < 64 || plan.group_size > 1024)
    reject("{}: group_size: expected 64 to 1024, got {}", source, plan.group_size);
  const auto is_list = [](const ordered_json& value) {
    return value.is_array() && std::ranges::all_of(value, [](const ordered_json& each) { return each.is_string(); });
  };
  plan.regions = member("regions", is_list, "a list of paths").get<std::vector<std::string>>();
  const auto is_map = [](const ordered_json& value) { return value.is_object(); };
  for (const auto& [key, value] : member("tensors", is_map, "choices by the key of a saved tensor").items()) {
    MemoryPlan::Choice& choice = plan.tensors[key];
    if (value == "keep" || value == "exact" || value == "offload") {
      choice.kept = value == "keep";
      choice.offloaded = value == "offload";
      continue;
    }
    if (value.is_number_integer())
      choice.bits = static_cast<int>(std::clamp<std::int64_t>(value.get<std::int64_t>(), 0, 99));
    if (choice.bits < 1 || choice.bits > 8)
      reject("{}: tensors: {}: expected keep, exact, offload or 1 to 8 bits, got {}", source, key, value.dump());
  }
  return plan;
}

}  // namespace lacuna
