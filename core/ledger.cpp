#include "core/ledger.h"

#include "core/error.h"
#include "core/module_path.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <unordered_map>

namespace lacuna {
namespace {

struct Interned {
  std::mutex mutex;
  std::deque<std::string> texts{""};
  std::unordered_map<std::string_view, std::uint32_t> ids{{"", 0}};
};

Interned& interned() {
  static Interned table;
  return table;
}

thread_local Owner current_owner;

/// Sorts `holders`, given in the order of owners, and removes those without bytes.
std::vector<Held> largest_first(std::vector<Held> holders) {
  std::erase_if(holders, [](const Held& held) { return held.bytes == 0; });
  std::stable_sort(holders.begin(), holders.end(), [](const Held& a, const Held& b) { return a.bytes > b.bytes; });
  return holders;
}

}  // namespace

std::string_view name_of(Purpose purpose) {
  constexpr std::string_view names[] = {"parameters", "gradients", "optimizer", "saved",
                                        "transient",  "workspace", "data"};
  return names[static_cast<std::size_t>(purpose)];
}

Label::Label(std::string_view text) {
  Interned& table = interned();
  const std::lock_guard lock(table.mutex);
  if (const auto found = table.ids.find(text); found != table.ids.end()) {
    id_ = found->second;
    return;
  }
  id_ = static_cast<std::uint32_t>(table.texts.size());
  table.texts.emplace_back(text);
  table.ids.emplace(table.texts.back(), id_);
}

std::string_view Label::text() const {
  Interned& table = interned();
  const std::lock_guard lock(table.mutex);
  return table.texts[id_];
}

void Ledger::raise_peak(const Owner& owner) {
  if (total_ > peak_) {
    peak_ = total_;
    brought_to_peak_ = owner;
    stands_at_peak_ = true;
  }
}

void Ledger::before_fall() {
  if (stands_at_peak_) ++peaks_;
  stands_at_peak_ = false;
}

void Ledger::change(Entry& entry, std::int64_t bytes) {
  if (entry.changed_in != peaks_) {
    entry.at_peak = entry.bytes;
    entry.changed_in = peaks_;
  }
  entry.bytes += bytes;
}

std::int64_t Ledger::at_peak(const Entry& entry) const {
  return stands_at_peak_ || entry.changed_in != peaks_ ? entry.bytes : entry.at_peak;
}

void Ledger::add(const Owner& owner, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  change(account_[owner], bytes);
  at(live_, owner.purpose) += bytes;
  at(highest_, owner.purpose) = std::max(at(highest_, owner.purpose), at(live_, owner.purpose));
  total_ += bytes;
  raise_peak(owner);
}

void Ledger::remove(const Owner& owner, std::int64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  before_fall();
  // An owner without an entry holds nothing, so `bytes` is 0.
  if (const auto found = account_.find(owner); found != account_.end()) change(found->second, -bytes);
  at(live_, owner.purpose) -= bytes;
  total_ -= bytes;
}

void Ledger::move(const Owner& from, const Owner& to, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  Entry& receiver = account_[to];  // may throw, so it comes before any change
  change(account_[from], -bytes);
  change(receiver, bytes);
  at(live_, from.purpose) -= bytes;
  at(live_, to.purpose) += bytes;
  at(highest_, to.purpose) = std::max(at(highest_, to.purpose), at(live_, to.purpose));
}

Bytes Ledger::live() const {
  const std::lock_guard lock(mutex_);
  return live_;
}

std::int64_t Ledger::total() const {
  const std::lock_guard lock(mutex_);
  return total_;
}

std::int64_t Ledger::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

Owner Ledger::brought_to_peak() const {
  const std::lock_guard lock(mutex_);
  return brought_to_peak_;
}

Bytes Ledger::highest() const {
  const std::lock_guard lock(mutex_);
  return highest_;
}

std::vector<Held> Ledger::holders() const {
  const std::lock_guard lock(mutex_);
  std::vector<Held> holders;
  for (const auto& [owner, entry] : account_) holders.push_back({owner, entry.bytes});
  return largest_first(std::move(holders));
}

std::vector<Held> Ledger::holders_at_peak() const {
  const std::lock_guard lock(mutex_);
  std::vector<Held> holders;
  for (const auto& [owner, entry] : account_) holders.push_back({owner, at_peak(entry)});
  return largest_first(std::move(holders));
}

void Ledger::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = total_;
  brought_to_peak_ = {};
  highest_ = live_;
  stands_at_peak_ = true;
}

Ledger& ledger(Device device) {
  static std::array<std::array<Ledger, max_devices>, device_kind_count> ledgers;
  expect(device.index < max_devices, "there is no device {}", name_of(device));
  return ledgers[static_cast<std::size_t>(device.kind)][device.index];
}

AllocationScope::AllocationScope(const Owner& owner) : outer_(current_owner) { current_owner = owner; }
AllocationScope::~AllocationScope() { current_owner = outer_; }
Owner AllocationScope::current() { return current_owner; }

std::string format_bytes(std::int64_t bytes) {
  constexpr std::string_view units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, units[unit]);
}

std::string describe(const std::vector<Held>& holders, int lines) {
  struct Alike {
    Held first;
    std::string path;
    std::int64_t count = 0;
  };
  std::vector<Alike> all;
  for (const Held& held : holders) {
    const std::string path = with_any_number(held.owner.path.text());
    const auto same = std::ranges::find_if(all, [&](const Alike& one) {
      return one.path == path && one.first.bytes == held.bytes && one.first.owner.op == held.owner.op &&
             one.first.owner.purpose == held.owner.purpose;
    });
    if (same == all.end())
      all.push_back({held, path, 1});
    else
      ++same->count;
  }
  std::ranges::stable_sort(all, std::greater{}, [](const Alike& one) { return one.count * one.first.bytes; });
  std::string text;
  for (const Alike& one : all) {
    if (lines-- == 0) break;
    const bool single = one.count == 1;
    text += fmt::format("  {:>6}{:>12}  {:<10}  {:<16}  {}\n", single ? "" : fmt::format("{} ×", one.count),
                        format_bytes(one.first.bytes), name_of(one.first.owner.purpose), one.first.owner.op.text(),
                        single ? one.first.owner.path.text() : one.path);
  }
  return text;
}

}  // namespace lacuna
