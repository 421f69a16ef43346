#include "apps/budget.h"

#include "apps/fit.h"

#include "apps/measure.h"
#include "autograd/coded_policies.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace lacuna::apps {
namespace {

constexpr int exact_bits = 32;

/// Blocks of a sequence that are recomputed as one: `blocks.4-7`.
struct Segment {
  std::string sequence;
  std::int64_t first, count;

  std::string block(std::int64_t i) const { return fmt::format("{}.{}", sequence, first + i); }
  std::string path() const {
    return count == 1 ? block(0) : fmt::format("{}.{}-{}", sequence, first, first + count - 1);
  }
  Segment part(std::int64_t from, std::int64_t size) const { return {sequence, first + from, size}; }
};

/// Notes which tensors could be coded, which regions there are, and which of them stand in a row.
class Survey final : public MemoryPolicy {
 public:
  std::string_view name() const override { return "survey"; }
  Decision settle(const SlotFacts& facts) override {
    if (worth_coding(facts) && !facts.derivable) {
      const std::pair<std::string, std::string> slot{facts.path.text(),
                                                     facts.op.text().empty() ? "input" : facts.op.text()};
      if (known_.insert(slot).second) slots_.push_back(slot);
    }
    return {.hold = Hold::keep};
  }
  bool recomputes(std::string_view path, std::string_view) override {
    if (std::find(regions_.begin(), regions_.end(), path) == regions_.end()) regions_.emplace_back(path);
    return false;
  }
  std::int64_t recomputes_together(std::string_view sequence, std::int64_t first, std::int64_t count,
                                   std::string_view) override {
    if (first == 0) sequences_.push_back({std::string(sequence), 0, count});
    return 0;
  }
  const std::vector<std::pair<std::string, std::string>>& slots() const { return slots_; }  // path, op
  const std::vector<std::string>& regions() const { return regions_; }
  const std::vector<Segment>& sequences() const { return sequences_; }

 private:
  std::set<std::pair<std::string, std::string>> known_;
  std::vector<std::pair<std::string, std::string>> slots_;
  std::vector<std::string> regions_;
  std::vector<Segment> sequences_;
};

/// The forward pass of a training step, for the survey to see.
void look_at(const Configuration& configuration, Survey& survey) {
  Training training(configuration, Device::meta);
  Tape tape(survey);
  const std::vector<MicroBatch> batch = made_up_batch(configuration, training.model());
  const Recording recording(tape);
  training.loss(batch.front());
}

class Fitting {
 public:
  Fitting(Configuration& configuration, std::int64_t budget)
      : configuration_(configuration), budget_(budget), of_saved_(configuration.memory.budget_of == "saved") {
    look_at(configuration, survey_);
    for (const std::string& region : survey_.regions()) {
      const bool inner = std::any_of(blocks_.begin(), blocks_.end(),
                                     [&](const std::string& block) { return region.starts_with(block + "."); });
      (inner ? parts_ : blocks_).push_back(region);
    }
  }

  void run(bool codes) {
    const Plan exact{.bits = exact_bits};
    if (fits(exact)) return choose(exact);
    if (codes ? with_codes() : without_codes()) return;
    const int fewest = codes ? 2 : exact_bits;
    std::int64_t least = bytes_of({.bits = fewest});
    for (std::int64_t length = 1; length <= longest_sequence(); ++length)
      least = std::min(least, bytes_of({.bits = fewest, .recompute = paths_of(segments(length))}));
    reject("memory.budget: {} do not suffice for a training step with batches of {}: the least that one takes is {}",
           format_bytes(budget_), configuration_.train.batch_size, format_bytes(least));
  }

 private:
  struct Plan {
    int bits = exact_bits;                                      // of tensors that can be coded
    int more_bits = 0;                                          // of `better` ones
    std::vector<std::pair<std::string, std::string>> better{};  // path and op
    std::vector<std::string> recompute{};
  };

  static bool lies_in(const std::string& path, const std::string& region) {
    if (path == region || path.starts_with(region + ".")) return true;
    const std::optional<BlockRun> run = parse_block_run(region);
    if (!run) return false;
    for (std::int64_t i = run->first; i <= run->last; ++i)
      if (lies_in(path, fmt::format("{}.{}", run->sequence, i))) return true;
    return false;
  }
  std::vector<std::string> first_blocks(std::int64_t count) const { return {blocks_.begin(), blocks_.begin() + count}; }

  /// Path and op of the tensors that the plan leaves to be held.
  std::vector<std::pair<std::string, std::string>> held(const Plan& plan) const {
    std::vector<std::pair<std::string, std::string>> slots;
    for (const auto& slot : survey_.slots())
      if (std::ranges::none_of(plan.recompute, [&](const std::string& region) { return lies_in(slot.first, region); }))
        slots.push_back(slot);
    return slots;
  }

  void write(const Plan& plan, Configuration& configuration) const {
    Configuration::Memory& memory = configuration.memory;
    memory.options.insert_or_assign("bits", static_cast<double>(plan.bits));
    memory.recompute = plan.recompute;
    memory.rules.clear();
    for (const auto& [path, op] : plan.better) {
      HoldRule& rule = memory.rules.emplace_back(HoldRule{.path = path, .op = op});
      rule.how = plan.more_bits == exact_bits ? HoldRule::How::exact : HoldRule::How::code;
      if (plan.more_bits != exact_bits) rule.bits = plan.more_bits;
    }
  }

  std::int64_t bytes_of(const Plan& plan) const {
    Configuration candidate = configuration_;
    write(plan, candidate);
    const Measurement measured = measure(candidate, Device::meta);
    return of_saved_ ? at(measured.memory, Purpose::saved) : highest_need(measured);
  }
  bool fits(const Plan& plan) const { return bytes_of(plan) <= budget_; }

  /// The largest value in [0, high] for which the plan fits, given that it does for 0.
  template <class MakePlan>
  std::int64_t most(std::int64_t high, const MakePlan& make) const {
    std::int64_t low = 0;
    while (low < high) {
      const std::int64_t middle = (low + high + 1) / 2;
      if (fits(make(middle)))
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }

  /// With more bits for as many tensors as fit: first ones first, then whichever still does.
  Plan filled(Plan plan) const {
    const auto slots = held(plan);
    const auto with_first = [&](std::int64_t n) {
      Plan more = plan;
      more.better.assign(slots.begin(), slots.begin() + n);
      return more;
    };
    const std::int64_t first = most(std::ssize(slots), with_first);
    plan = with_first(first);
    for (auto slot = slots.begin() + first; slot != slots.end(); ++slot) {
      plan.better.push_back(*slot);
      if (!fits(plan)) plan.better.pop_back();
    }
    return plan;
  }

  bool with_codes() {
    const std::int64_t blocks = std::ssize(blocks_);
    struct Stage {
      int bits, more_bits;
      bool recomputes;
    };
    constexpr std::array stages{Stage{8, exact_bits, false}, Stage{4, 8, false}, Stage{4, 8, true}, Stage{3, 4, false},
                                Stage{3, 4, true},           Stage{2, 3, false}, Stage{2, 3, true}};
    for (const Stage& stage : stages) {
      const auto plan = [&](std::int64_t recomputed) {
        return Plan{.bits = stage.bits, .more_bits = stage.more_bits, .recompute = first_blocks(recomputed)};
      };
      const std::int64_t all = stage.recomputes ? blocks : 0;
      if (!fits(plan(all))) continue;
      choose(filled(plan(all - most(all, [&](std::int64_t n) { return plan(all - n); }))));
      return true;
    }
    return false;
  }

  std::int64_t longest_sequence() const {
    std::int64_t longest = 1;
    for (const Segment& sequence : survey_.sequences()) longest = std::max(longest, sequence.count);
    return longest;
  }

  /// Every sequence in pieces of at most `length` blocks, as equal as can be.
  std::vector<Segment> segments(std::int64_t length) const {
    std::vector<Segment> all;
    for (const Segment& sequence : survey_.sequences()) {
      const std::int64_t pieces = (sequence.count + length - 1) / length;
      for (std::int64_t i = 0; i < pieces; ++i) {
        const std::int64_t begin = sequence.count * i / pieces;
        all.push_back(sequence.part(begin, sequence.count * (i + 1) / pieces - begin));
      }
    }
    return all;
  }
  static std::vector<std::string> paths_of(const std::vector<Segment>& segments) {
    std::vector<std::string> paths;
    for (const Segment& segment : segments) paths.push_back(segment.path());
    return paths;
  }

  /// What may be recomputed in place of a whole segment, the least work first.
  std::vector<std::vector<std::string>> less_than(const Segment& segment) const {
    std::vector<std::vector<std::string>> choices{{}};
    for (std::int64_t count = 1; count < segment.count; ++count) choices.push_back({segment.part(0, count).path()});
    if (const std::int64_t half = segment.count / 2; half > 0) {  // no less work, but less at once
      choices.push_back({segment.part(0, half).path(), segment.part(half, segment.count - half).path()});
      return choices;
    }
    std::vector<std::string> parts;
    for (const std::string& part : parts_)
      if (lies_in(part, segment.path())) parts.push_back(part);
    for (const std::string& part : parts) choices.push_back({part});
    if (parts.size() > 1) choices.push_back(parts);
    return choices;
  }

  bool without_codes() {
    for (std::int64_t length = 1; length <= longest_sequence(); ++length) {
      const std::vector<Segment> all = segments(length);
      Plan plan{.recompute = paths_of(all)};
      if (!fits(plan)) continue;
      for (auto segment = all.rbegin(); segment != all.rend(); ++segment) {  // give back what fits
        for (const std::vector<std::string>& choice : less_than(*segment)) {
          Plan less = plan;
          std::erase(less.recompute, segment->path());
          less.recompute.insert(less.recompute.end(), choice.begin(), choice.end());
          if (!fits(less)) continue;
          plan = std::move(less);
          break;
        }
      }
      choose(plan);
      return true;
    }
    return false;
  }

  void choose(const Plan& plan) {
    const std::int64_t bytes = bytes_of(plan), slots = std::ssize(held(plan));
    write(plan, configuration_);
    const auto width = [](int bits) {
      return bits == exact_bits ? std::string("exact") : fmt::format("in {} bits", bits);
    };
    std::string how = fmt::format("{} tensors {}", slots - std::ssize(plan.better), width(plan.bits));
    if (!plan.better.empty()) how = fmt::format("{} tensors {}, {}", plan.better.size(), width(plan.more_bits), how);
    if (!plan.recompute.empty()) {
      const auto whole = std::ranges::count_if(blocks_, [&](const std::string& block) {
        return std::ranges::any_of(plan.recompute, [&](const std::string& region) { return lies_in(block, region); });
      });
      const auto parts = std::ranges::count_if(
          plan.recompute, [&](const std::string& region) { return std::ranges::find(parts_, region) != parts_.end(); });
      how += fmt::format("; recomputed: {} of {} blocks", whole, blocks_.size());
      if (parts > 0) how += fmt::format(" and {} parts of others", parts);
      if (whole > 0) how += fmt::format(", in {} regions", std::ssize(plan.recompute) - parts);
    }
    configuration_.memory.why =
        fmt::format("budget of {} {}: {}; {} used ({:.0f} %){}", format_bytes(budget_), of_saved_ ? "saved" : "in all",
                    how, format_bytes(bytes), 100.0 * static_cast<double>(bytes) / static_cast<double>(budget_),
                    plan.bits == exact_bits && plan.recompute.empty() ? ": everything fits as it is" : "");
  }

  Configuration& configuration_;
  std::int64_t budget_;
  bool of_saved_;
  Survey survey_;
  std::vector<std::string> blocks_, parts_;  // regions, and regions within them
};

}  // namespace

std::int64_t parse_bytes(const std::string& text) {
  struct Unit {
    std::string_view name;
    double bytes;
  };
  constexpr Unit units[] = {{"", 1},         {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                            {"TiB", 0x1p40}, {"KB", 1e3}, {"MB", 1e6},     {"GB", 1e9}};
  std::size_t end = 0;
  double number = 0;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception&) {
  }
  const std::size_t unit_begin = std::min(text.find_first_not_of(' ', end), text.size());
  for (const Unit& unit : units)
    if (end > 0 && text.substr(unit_begin) == unit.name && number > 0 && number * unit.bytes < 0x1p62)
      return static_cast<std::int64_t>(number * unit.bytes);
  reject("memory.budget: expected bytes as 6GiB, 1.5GB or 800MiB, got {}", text);
}

std::vector<std::string> recomputable_blocks(const Configuration& configuration) {
  Survey survey;
  look_at(configuration, survey);
  std::vector<std::string> patterns;
  for (std::string pattern : survey.regions()) {
    const std::size_t digits = pattern.find_last_not_of("0123456789") + 1;
    if (digits == pattern.size()) continue;  // a part of a block: `blocks.0.mlp`
    pattern.replace(digits, std::string::npos, "*");
    if (std::ranges::find(patterns, pattern) == patterns.end()) patterns.push_back(std::move(pattern));
  }
  return patterns;
}

void fit_budget(Configuration& configuration) {
  Configuration::Memory& memory = configuration.memory;
  if (memory.policy != "auto" || memory.options.contains("bits")) return;
  if (memory.budget.empty()) reject("memory.policy: auto needs memory.budget: how much memory there is, as 6GiB");
  if (!memory.rules.empty() || !memory.recompute.empty())
    reject("memory.policy: auto chooses `rules` and `recompute` itself: expected none");
  const auto codes = memory.options.find("codes");
  Fitting(configuration, parse_bytes(memory.budget))
      .run(codes == memory.options.end() || std::get<bool>(codes->second));
}

}  // namespace lacuna::apps
