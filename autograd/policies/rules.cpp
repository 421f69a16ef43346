#include "autograd/policies/rules.h"

#include "autograd/block_range.h"
#include "autograd/policies/lossless.h"
#include "autograd/policies/quantizing.h"
#include "core/glob.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>

namespace lacuna {
namespace {

/// The pattern for a path and those that differ from it only in numbers: `blocks.*.attn` for `blocks.3.attn`.
std::string with_any_number(std::string_view path) {
  std::string pattern;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string_view name = path.substr(begin, end - begin);
    const bool number = !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
    if (begin > 0) pattern += '.';
    pattern += number ? "*" : name;
    begin = end + 1;
  }
  return pattern;
}

bool is_for_tensors(const HoldRule& rule) { return rule.how != HoldRule::How::recompute; }
bool matches(const HoldRule& rule, const SavedTensorInfo& info) {
  return is_for_tensors(rule) && matches_glob(rule.path, info.path.text()) && matches_glob(rule.op, info.maker()) &&
         matches_glob(rule.slot, info.name()) &&
         std::any_of(info.readers.begin(), info.readers.end(),
                     [&](const Reader& user) { return matches_glob(rule.user, user.op.text()); });
}
bool can_hold(const HoldRule& rule, const SavedTensorInfo& info) {
  if (rule.how == HoldRule::How::quantize) return can_quantize(info);
  return rule.how != HoldRule::How::slope || slopes_of(info) != nullptr;
}

/// Adds `text` if it is new.
void add_new(std::vector<std::string>& all, std::string text) {
  if (std::ranges::find(all, text) == all.end()) all.push_back(std::move(text));
}

/// A few of the texts as a list for messages.
std::string listed(std::vector<std::string> all) {
  constexpr std::size_t most = 12;
  const bool whole = all.size() <= most;
  all.resize(std::min(most, all.size()));
  return fmt::format("{}{}", fmt::join(all, ", "), whole ? "" : " and others");
}

/// A suggestion for a name without wildcards that is near a known one: `, did you mean attn?`, or nothing.
std::string meant(const std::string& pattern, const std::vector<std::string>& known) {
  const bool is_name = pattern.find_first_of("*?[") == std::string::npos;
  const std::string near = is_name ? nearest_name(pattern, known) : std::string();
  return near.empty() ? near : ", did you mean " + near + "?";
}

}  // namespace

/// Counts the matches of each rule and explains rules with none.
class RuledPolicy::RuleUses {
 public:
  explicit RuleUses(const std::vector<HoldRule>& rules)
      : uses_(rules.size(), Use::none), open_(std::ranges::count_if(rules, is_for_tensors)) {}

  bool used(std::size_t rule) const { return uses_[rule] == Use::used; }

  /// Notes a tensor that rule number `holder` holds; the number of rules: no rule holds it.
  void note(const std::vector<HoldRule>& rules, const SavedTensorInfo& info, std::size_t holder) {
    if (holder < rules.size() && !used(holder)) {
      uses_[holder] = Use::used;
      --open_;
    }
    if (open_ == 0) return;  // every rule has matched
    for (std::size_t i = 0; i < rules.size(); ++i) {
      if (used(i) || !matches(rules[i], info)) continue;
      if (!can_hold(rules[i], info))
        uses_[i] = std::max(uses_[i], Use::impossible);
      else if (i > holder)
        uses_[i] = std::max(uses_[i], Use::too_late);
    }
    if (!info.path.text().empty()) paths_.insert(info.path);
    ops_.emplace(info.maker());
    slots_.insert(info.name());
    for (const Reader& user : info.readers) users_.insert(user.op);
  }

  std::string why_unused(std::size_t index, const HoldRule& rule) const {
    if (uses_[index] == Use::too_late) return "rules before it hold all that it could";
    if (uses_[index] == Use::impossible && rule.how == HoldRule::How::slope)
      return "what matches cannot be quantized, or is read by something besides one GELU or SiLU";
    if (uses_[index] == Use::impossible)
      return "what matches cannot be quantized: less than 4 KiB, statistics, parameters, a batch that is held anyway, "
             "and what is needed to the bit or by its sign alone";
    std::vector<std::string> paths, shown_paths, ops(ops_.begin(), ops_.end()), slots(slots_.begin(), slots_.end()),
        users;
    for (const Label& path : paths_) {
      paths.emplace_back(path.text());
      add_new(shown_paths, with_any_number(path.text()));
    }
    for (const Label& user : users_) users.emplace_back(user.text());
    std::string reason = unknown("path", rule.path, paths, shown_paths);
    if (reason.empty()) reason = unknown("op", rule.op, ops, ops);
    if (reason.empty()) reason = unknown("slot", rule.slot, slots, slots);
    if (reason.empty()) reason = unknown("user", rule.user, users, users);
    return reason.empty() ? "no tensor matches all of it; `lacuna explain` lists them by path, slot and reader"
                          : reason;
  }

 private:
  enum class Use : std::uint8_t { none, impossible, too_late, used };
  /// The reason why `pattern` matches no known name; empty if it matches one. `shown`: the names to list.
  static std::string unknown(std::string_view what, const std::string& pattern, const std::vector<std::string>& known,
                             const std::vector<std::string>& shown) {
    if (std::ranges::any_of(known, [&](const std::string& name) { return matches_glob(pattern, name); })) return {};
    return fmt::format("no tensor has the {} {}{}; there are {}", what, pattern, meant(pattern, known), listed(shown));
  }

  std::vector<Use> uses_;          // [rules]
  std::ptrdiff_t open_;            // number of tensor rules that have held no tensor
  std::set<Label> paths_, users_;  // paths and readers of tensors
  std::set<std::string, std::less<>> ops_, slots_;
};

namespace {

bool quantizes(const HoldRule& rule) { return rule.how == HoldRule::How::quantize || rule.how == HoldRule::How::slope; }

/// Whether a pattern matches a path that lies in no other match of the pattern: `blocks.*` matches `blocks.0` but not
/// `blocks.0.attn` within it. A run of blocks is matched only by its own name, not by patterns for blocks.
bool outermost_match(std::string_view pattern, std::string_view path, std::string_view within) {
  const bool opened_within = parse_block_range(within) ? pattern == within : matches_glob(pattern, within);
  return matches_glob(pattern, path) && (within.empty() || !opened_within);
}

Hold quantized_by(const HoldRule& rule, const SavedTensorInfo& info) {
  const quant::QuantConfig config = rule.by_columns
                                        ? quant::min_error_config(rule.bits, column_groups(info, rule.group_size))
                                        : run_config(info, rule.bits, rule.group_size);
  return hold_quantized({.kind = Hold::keep}, info, config);
}

std::string text_of(const HoldRule& rule) {
  return fmt::format("{{path: {}, op: {}, slot: {}, user: {}, hold: {}}}", rule.path, rule.op, rule.slot, rule.user,
                     hold_text(rule));
}

}  // namespace

RuledPolicy::RuledPolicy(std::unique_ptr<MemoryPolicy> base, std::vector<HoldRule> rules,
                         std::vector<std::string> recompute)
    : MemoryPolicy(base->quantizes() || std::ranges::any_of(rules, lacuna::quantizes)),
      base_(std::move(base)),
      rules_(std::move(rules)),
      uses_(std::make_unique<RuleUses>(rules_)) {
  for (std::string& pattern : recompute) regions_.push_back({.pattern = std::move(pattern)});
  for (const HoldRule& rule : rules_)
    if (rule.how == HoldRule::How::recompute) regions_.push_back({.pattern = rule.path, .rule = &rule});
}

RuledPolicy::~RuledPolicy() = default;

Hold RuledPolicy::decide(const SavedTensorInfo& info) {
  bool stays = false;
  Hold hold = decide_in_memory(info, stays);
  if (store_ && offloads_all_ && !stays && can_offload(hold, info)) hold.store = store_.get();
  return hold;
}

/// `stays`: set to whether a rule keeps the tensor in memory.
Hold RuledPolicy::decide_in_memory(const SavedTensorInfo& info, bool& stays) {
  const auto beside = [&](const Hold& hold) { return MemoryPolicy::quantizes() ? beside_quantized(hold, info) : hold; };
  const auto rule =
      std::ranges::find_if(rules_, [&](const HoldRule& one) { return can_hold(one, info) && matches(one, info); });
  uses_->note(rules_, info, static_cast<std::size_t>(rule - rules_.begin()));
  if (rule == rules_.end()) return beside(base_->decide(info));
  switch (rule->how) {
    case HoldRule::How::quantize:
      return quantized_by(*rule, info);
    case HoldRule::How::slope:
      return {.kind = Hold::quantize, .slopes = slopes_of(info)};
    case HoldRule::How::keep:
      stays = true;
      return {.kind = Hold::keep};
    default:
      return beside(decide_exactly(info));
  }
}

std::int64_t RuledPolicy::recomputes(const ModuleRange& modules, std::string_view within) {
  const bool has_one_name = !modules.is_sequence() || modules.is_whole();
  if (has_one_name) add_new(offered_, std::string(modules.path));
  for (Region& region : regions_) {
    if (has_one_name && outermost_match(region.pattern, modules.path, within)) {
      region.used = true;
      return std::max<std::int64_t>(modules.count, 1);
    }
    const std::optional<BlockRange> run = parse_block_range(region.pattern);
    if (!modules.is_sequence() || !run || run->sequence != modules.path || run->first != modules.first ||
        run->last >= modules.end)
      continue;
    const std::int64_t together = run->count();
    if (within == (together == modules.count ? modules.path : region.pattern)) continue;
    region.used = true;
    return together;
  }
  return base_->recomputes(modules, within);
}

std::vector<std::string> RuledPolicy::unmatched() const {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < rules_.size(); ++i)
    if (is_for_tensors(rules_[i]) && !uses_->used(i))
      all.push_back(fmt::format("memory.rules: no tensor is held by the rule {}: {}", text_of(rules_[i]),
                                uses_->why_unused(i, rules_[i])));
  for (const Region& region : regions_)
    if (region.rule != nullptr && !region.used)
      all.push_back(
          fmt::format("memory.rules: no region is recomputed by the rule {}: none matches, or others come first{}",
                      text_of(*region.rule), offered_beside(region.pattern)));
  for (const Region& region : regions_)
    if (region.rule == nullptr && !region.used)
      all.push_back(
          fmt::format("memory.recompute: {} recomputes nothing: no region of the model matches, or others come "
                      "first{}",
                      region.pattern, offered_beside(region.pattern)));
  return all;
}

/// The regions that could have been recomputed, for the message about `pattern`.
std::string RuledPolicy::offered_beside(const std::string& pattern) const {
  std::vector<std::string> patterns;
  for (const std::string& path : offered_) add_new(patterns, with_any_number(path));
  if (patterns.empty()) return {};
  // A pattern that names an existing region or a run of blocks is spelled correctly.
  const bool known = std::ranges::find(offered_, pattern) != offered_.end() || parse_block_range(pattern);
  std::string near = known ? std::string() : meant(pattern, offered_);
  if (!known && near.empty())
    if (const std::string like = nearest_name(pattern, patterns); !like.empty() && like != pattern)
      near = ", did you mean " + like + "?";
  return fmt::format("{}; there are {}", near, listed(std::move(patterns)));
}

std::optional<std::pair<HoldRule::How, int>> parse_hold(std::string_view text) {
  if (text == "keep") return {{HoldRule::How::keep, 0}};
  if (text == "exact") return {{HoldRule::How::exact, 0}};
  if (text == "slope2") return {{HoldRule::How::slope, 0}};
  if (text == "recompute") return {{HoldRule::How::recompute, 0}};
  if (text.size() == 4 && text.starts_with("int") && text[3] >= '1' && text[3] <= '8')
    return {{HoldRule::How::quantize, text[3] - '0'}};
  return {};
}

std::string hold_text(const HoldRule& rule) {
  switch (rule.how) {
    case HoldRule::How::keep:
      return "keep";
    case HoldRule::How::exact:
      return "exact";
    case HoldRule::How::slope:
      return "slope2";
    case HoldRule::How::recompute:
      return "recompute";
    default:
      return fmt::format("int{}", rule.bits);
  }
}

namespace {

Names hold_names() {
  Names names{"keep", "exact", "recompute"};
  for (int bits = 1; bits <= 8; ++bits) names.push_back(fmt::format("int{}", bits));
  names.emplace_back("slope2");
  return names;
}
Names group_names() { return {"run", "heads", "channels"}; }

/// `hold` sets `how` and `bits`.
const Codec hold_codec{[](const Tree& from, void* value, const Limits& limits, std::string_view, Problems&) {
                         std::string text, expected = detail::read_choice(from, limits, text);
                         auto& rule = *static_cast<HoldRule*>(value);
                         if (const auto hold = parse_hold(text)) {
                           rule.how = hold->first;
                           if (rule.how == HoldRule::How::quantize) rule.bits = hold->second;
                         }
                         return expected;
                       },
                       [](const void* value) -> Tree { return hold_text(*static_cast<const HoldRule*>(value)); },
                       [](const Limits&) -> std::string { return "text"; }};
/// `heads` and `channels` mean the same: the tensor's shape decides.
const Codec groups_codec{
    [](const Tree& from, void* value, const Limits& limits, std::string_view, Problems&) {
      std::string text, expected = detail::read_choice(from, limits, text);
      static_cast<HoldRule*>(value)->by_columns = !text.empty() && text != "run";
      return expected;
    },
    [](const void* value) -> Tree { return static_cast<const HoldRule*>(value)->by_columns ? "channels" : "run"; },
    [](const Limits&) -> std::string { return "text"; }};

}  // namespace

Fields HoldRule::fields() {
  const auto whole = [](void* rule) { return rule; };
  return {field("path", &HoldRule::path, "pattern on the path of the module whose op made the tensor"),
          field("op", &HoldRule::op, "pattern on the op that made it"),
          field("slot", &HoldRule::slot, "pattern on the tensor's name within the module"),
          field("user", &HoldRule::user, "pattern on the ops that read it"),
          {.name = "hold",
           .codec = &hold_codec,
           .address = whole,
           .limits = {.names = hold_names},
           .help = "how the tensor is held",
           .must_be_given = true},
          {.name = "groups",
           .codec = &groups_codec,
           .address = whole,
           .limits = {.names = group_names},
           .help = "elements that share a range"},
          field("group_size", &HoldRule::group_size, group_sizes, group_size_help)};
}

std::string HoldRule::problem() const {
  if (how == How::recompute && (op != "*" || slot != "*" || user != "*"))
    return "`hold: recompute` takes a `path` alone, of a region";
  if (how != How::quantize && (by_columns || group_size != HoldRule{}.group_size))
    return fmt::format("`groups` and `group_size` belong to int1 to int8, got `hold: {}`", hold_text(*this));
  return {};
}

std::unique_ptr<RuledPolicy> with_rules(std::unique_ptr<MemoryPolicy> base, std::vector<HoldRule> rules,
                                        std::vector<std::string> recompute) {
  return std::make_unique<RuledPolicy>(std::move(base), std::move(rules), std::move(recompute));
}

}  // namespace lacuna
