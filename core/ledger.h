// Every byte of tensor memory, by what it is for and who asked for it.
#pragma once

#include "core/device.h"

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

enum class Purpose : std::uint8_t { parameters, gradients, optimizer, saved, transient, workspace, data };

inline constexpr int purpose_count = 7;

std::string_view name_of(Purpose purpose);

/// An interned string: an op's name or a module's path.
class Label {
 public:
  Label() = default;
  explicit Label(std::string_view text);
  std::string_view text() const;
  auto operator<=>(const Label&) const = default;

 private:
  std::uint32_t id_ = 0;  // 0: the empty string
};

struct Owner {
  Purpose purpose = Purpose::transient;
  Label op;    // the op that asked, or what kind of state it is
  Label path;  // the module it asked for
  auto operator<=>(const Owner&) const = default;
};

/// Bytes by purpose.
using Bytes = std::array<std::int64_t, purpose_count>;

inline std::int64_t& at(Bytes& bytes, Purpose purpose) { return bytes[static_cast<std::size_t>(purpose)]; }
inline std::int64_t at(const Bytes& bytes, Purpose purpose) { return bytes[static_cast<std::size_t>(purpose)]; }

struct Held {
  Owner owner;
  std::int64_t bytes = 0;
};

/// The account of one device. Safe to use from several threads.
class Ledger {
 public:
  /// `add` and `move` may throw std::bad_alloc, and then change nothing. `remove` allocates nothing.
  void add(const Owner& owner, std::int64_t bytes);
  void remove(const Owner& owner, std::int64_t bytes) noexcept;
  void move(const Owner& from, const Owner& to, std::int64_t bytes);

  /// What is held now.
  Bytes live() const;
  std::int64_t total() const;
  /// The highest total since the last `reset_peak`.
  std::int64_t peak() const;
  /// Who asked for the bytes that brought it there; nobody where `reset_peak` did.
  Owner brought_to_peak() const;
  /// Each purpose at its own highest since the last `reset_peak`.
  Bytes highest() const;
  /// Who holds what, largest first: now, and when the total was at its peak.
  std::vector<Held> holders() const;
  std::vector<Held> holders_at_peak() const;
  /// Forgets earlier peaks: from now on they start at what is held.
  void reset_peak();

 private:
  /// Copying all entries at each new peak would make a step quadratic in the number of owners: an entry remembers what
  /// it held at the last peak when it first changes after it.
  struct Entry {
    std::int64_t bytes = 0;
    std::int64_t at_peak = 0;      // where it has changed since that peak
    std::uint64_t changed_in = 0;  // the peak after which it last changed
  };
  void change(Entry& entry, std::int64_t bytes);
  void raise_peak(const Owner& owner);
  void before_fall();
  std::int64_t at_peak(const Entry& entry) const;

  mutable std::mutex mutex_;
  std::map<Owner, Entry> account_;
  Owner brought_to_peak_;
  Bytes live_{}, highest_{};
  std::int64_t total_ = 0, peak_ = 0;
  std::uint64_t peaks_ = 0;      // from which the total has fallen again
  bool stands_at_peak_ = false;  // the total stands at a new peak: entries that change now change what they hold there
};

Ledger& ledger(Device device);

/// Names who asks for the memory allocated while it lives. Scopes nest; thread-local.
class AllocationScope {
 public:
  explicit AllocationScope(const Owner& owner);
  ~AllocationScope();
  AllocationScope(const AllocationScope&) = delete;
  AllocationScope& operator=(const AllocationScope&) = delete;

  static Owner current();

 private:
  Owner outer_;
};

/// As `1.50 GiB`.
std::string format_bytes(std::int64_t bytes);

/// The largest holders as lines of a report, `lines` at most.
std::string describe(const std::vector<Held>& holders, int lines);

}  // namespace lacuna
