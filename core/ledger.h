// The account of every byte of tensor memory, by purpose and owner.
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
  Label op;    // the op that allocated the memory, or a kind of state
  Label path;  // the module that ran the op
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
  /// `add` and `move` change nothing if they throw std::bad_alloc. `remove` allocates nothing.
  void add(const Owner& owner, std::int64_t bytes);
  void remove(const Owner& owner, std::int64_t bytes) noexcept;
  void move(const Owner& from, const Owner& to, std::int64_t bytes);

  /// Bytes held now.
  Bytes live() const;
  std::int64_t total() const;
  /// The highest total since the last `reset_peak`.
  std::int64_t peak() const;
  /// The owner whose allocation reached the peak; empty if nothing was allocated since `reset_peak`.
  Owner brought_to_peak() const;
  /// The separate peak of each purpose since the last `reset_peak`.
  Bytes highest() const;
  /// Holders with their bytes now and when the total was at its peak, largest first.
  std::vector<Held> holders() const;
  std::vector<Held> holders_at_peak() const;
  /// Resets the peaks to the bytes held now.
  void reset_peak();

 private:
  /// An entry stores its bytes at the last peak when it first changes after it. Copying all entries at each new peak
  /// would make a step quadratic in the number of owners.
  struct Entry {
    std::int64_t bytes = 0;
    std::int64_t at_peak = 0;      // valid if it has changed since that peak
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
  std::uint64_t peaks_ = 0;      // number of past peaks
  bool stands_at_peak_ = false;  // the total is at a new peak: changes of entries are part of it
};

Ledger& ledger(Device device);

/// Sets the owner of memory allocated on this thread while it exists. Scopes nest.
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

/// Bytes as text, such as `1.50 GiB`.
std::string format_bytes(std::int64_t bytes);

/// A text of at most `lines` lines. Holders with equal bytes whose paths differ only in numbers share a line.
std::string describe(const std::vector<Held>& holders, int lines);

}  // namespace lacuna
