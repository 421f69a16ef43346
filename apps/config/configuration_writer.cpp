#include "apps/config/configuration.h"
#include "apps/config/group_rules.h"
#include "apps/config/keys.h"
#include "apps/config/memory_rules.h"
#include "apps/config/yaml.h"

#include <fmt/ranges.h>

namespace lacuna::apps {
namespace {

struct ValueWriter {
  std::string operator()(const std::string& value) const { return to_yaml(std::string_view(value)); }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(const std::vector<HoldRule>& rules) const { return write_rules(rules); }
  std::string operator()(const std::vector<GroupRule>& groups) const { return write_groups(groups); }
  template <class T>
  std::string operator()(const std::vector<T>& values) const {
    std::vector<std::string> written;
    for (const T& value : values) written.push_back((*this)(value));
    return fmt::format("[{}]", fmt::join(written, ", "));
  }
};

}  // namespace

std::string to_yaml(const Configuration& configuration) {
  const ValueWriter write;
  Configuration copy = configuration;
  std::string text;
  for (const std::string_view section : sections()) {
    std::vector<std::string> lines;
    for (const Key& key : keys()) {
      if (key.section != section) continue;
      const std::string value = std::visit([&](const auto* field) { return write(*field); }, key.field(copy));
      lines.push_back(fmt::format("{}: {}", key.name, value));
    }
    if (section == "model")
      for (const HyperParameter& option : copy.model.options)
        lines.push_back(fmt::format("{}: {}", option.key, std::visit(write, option.value)));
    const SettingValues none;
    const SettingValues& options = section == "optimizer"  ? copy.optimizer.options
                                   : section == "schedule" ? copy.schedule.options
                                   : section == "memory"   ? copy.memory.options
                                                           : none;
    for (const auto& [name, value] : options) lines.push_back(fmt::format("{}: {}", name, std::visit(write, value)));
    text += fmt::format("{}:\n  {}\n", section, fmt::join(lines, "\n  "));
  }
  return text;
}

}  // namespace lacuna::apps
