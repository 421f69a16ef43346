#include "core/ledger.h"

#include "core/error.h"

#include <algorithm>
#include <deque>
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

std::vector<Held> largest_first(const std::map<Owner, std::int64_t>& account) {
  std::vector<Held> holders;
  for (const auto& [owner, bytes] : account)
    if (bytes != 0) holders.push_back({owner, bytes});
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
    at_peak_is_stale_ = true;
  }
}

// Copying the account at every new peak would cost more than the allocations: it is copied when the total first falls.
void Ledger::before_fall() {
  if (at_peak_is_stale_) {
    at_peak_ = account_;
    at_peak_is_stale_ = false;
  }
}

void Ledger::add(const Owner& owner, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  account_[owner] += bytes;
  at(live_, owner.purpose) += bytes;
  at(highest_, owner.purpose) = std::max(at(highest_, owner.purpose), at(live_, owner.purpose));
  total_ += bytes;
  raise_peak(owner);
}

void Ledger::remove(const Owner& owner, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  before_fall();
  account_[owner] -= bytes;
  at(live_, owner.purpose) -= bytes;
  total_ -= bytes;
}

void Ledger::move(const Owner& from, const Owner& to, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  account_[from] -= bytes;
  account_[to] += bytes;
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
  return largest_first(account_);
}

std::vector<Held> Ledger::holders_at_peak() const {
  const std::lock_guard lock(mutex_);
  return largest_first(at_peak_is_stale_ ? account_ : at_peak_);
}

void Ledger::reset_peak() {
  const std::lock_guard lock(mutex_);
  std::erase_if(account_, [](const auto& entry) { return entry.second == 0; });
  peak_ = total_;
  brought_to_peak_ = {};
  highest_ = live_;
  at_peak_is_stale_ = true;
}

Ledger& ledger(Device device) {
  static std::array<Ledger, device_count> ledgers;
  return ledgers[static_cast<std::size_t>(device)];
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
  std::string text;
  for (const Held& held : holders) {
    if (lines-- == 0) break;
    text += fmt::format("  {:>12}  {:<10}  {:<16}  {}\n", format_bytes(held.bytes), name_of(held.owner.purpose),
                        held.owner.op.text(), held.owner.path.text());
  }
  return text;
}

}  // namespace lacuna
