#include "apps/train/profile.h"

#include "core/backend.h"
#include "core/parallel.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace lacuna::apps {
namespace {

/// Bytes that a core can move: a cache line a cycle, at 4 GHz.
constexpr double most_giga_a_core = 256;

}  // namespace

void Profile::before(Phase, const Operation&, Label) {
  synchronize(device_);
  begin_ = std::chrono::steady_clock::now();
}

void Profile::after(Phase phase, const Operation& op, Label, const Work& work, std::span<const Tensor>) {
  synchronize(device_);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin_;
  Entry& entry = entries_[std::string(op.name()) + (phase == Phase::forward ? "" : " backward")];
  ++entry.calls;
  entry.work.bytes += work.bytes;
  entry.work.macs += work.macs;
  entry.seconds += seconds.count();
}

std::vector<std::pair<std::string, Profile::Entry>> Profile::slowest_first() const {
  std::vector<std::pair<std::string, Entry>> rows(entries_.begin(), entries_.end());
  std::ranges::stable_sort(rows, [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  return rows;
}

std::string Profile::table(int steps, double seconds) const {
  std::string text = fmt::format("{:<28}{:>7}{:>12}{:>8}{:>14}{:>8}{:>10}\n", "op", "calls", "ms a step", "share",
                                 "bytes a step", "GB/s", "GFLOP/s");
  double seen = 0;
  for (const auto& [name, entry] : slowest_first()) {
    seen += entry.seconds;
    const double giga_a_second = 1e-9 / entry.seconds;
    // An op that hands a tensor on, or a view of it, moves nothing: its bytes over its time are no rate.
    const double bytes_rate = giga_a_second * static_cast<double>(entry.work.bytes);
    text += fmt::format(
        "{:<28}{:>7}{:>12.3f}{:>7.1f}%{:>14}{:>8}{:>10}\n", name, entry.calls / steps, 1e3 * entry.seconds / steps,
        100 * entry.seconds / seconds, format_bytes(entry.work.bytes / steps),
        bytes_rate > most_giga_a_core * threads() ? "" : fmt::format("{:.1f}", bytes_rate),
        entry.work.macs == 0 ? "" : fmt::format("{:.0f}", giga_a_second * 2 * static_cast<double>(entry.work.macs)));
  }
  return text + fmt::format("{:<28}{:>7}{:>12.3f}{:>7.1f}%\n", "between ops, update", "",
                            1e3 * (seconds - seen) / steps, 100 * (seconds - seen) / seconds);
}

nlohmann::ordered_json Profile::json(int steps) const {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& [name, entry] : slowest_first())
    rows.push_back({{"op", name},
                    {"calls", entry.calls / steps},
                    {"seconds", entry.seconds / steps},
                    {"bytes", entry.work.bytes / steps},
                    {"flops", 2 * entry.work.macs / steps}});
  return rows;
}

}  // namespace lacuna::apps
