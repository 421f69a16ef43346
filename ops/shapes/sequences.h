// The sequences of a batch whose tokens lie one after another.
#pragma once

#include "core/tensor.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lacuna {

class Sequences;
using SequencesPtr = std::shared_ptr<const Sequences>;

/// The offsets of N sequences in tokens [1, T, C]. Like a shape it is known on the host, on `meta` too, and ops
/// have it as an attribute. Sequence i has the rows [begin(i), end(i)), of which the first length(i) are tokens and the
/// others padding. Packed batches have no padding.
class Sequences {
 public:
  /// offsets [N + 1]: 0, and where each sequence ends. Rejects an empty sequence.
  static SequencesPtr packed(std::span<const std::int64_t> offsets);
  /// N sequences of `rows` rows each; lengths [N] in 1 to `rows`, otherwise rejected.
  static SequencesPtr padded(std::span<const std::int64_t> lengths, std::int64_t rows);
  /// The same where a cuda device alone knows the lengths, i64 [N], as in a step that is replayed with others. The host
  /// takes each for `rows`, and its rows for padding.
  static SequencesPtr padded(Tensor lengths, std::int64_t rows);

  std::int64_t count() const { return static_cast<std::int64_t>(lengths_.size()); }
  /// T.
  std::int64_t rows() const { return offsets_.back(); }
  std::int64_t begin(std::int64_t i) const { return offsets_[static_cast<std::size_t>(i)]; }
  std::int64_t end(std::int64_t i) const { return offsets_[static_cast<std::size_t>(i) + 1]; }
  std::int64_t length(std::int64_t i) const { return lengths_[static_cast<std::size_t>(i)]; }
  /// The longest sequence, in tokens.
  std::int64_t longest() const { return longest_; }
  /// Whether lengths are apart from rows, which may be padding. A batch whose texts fill their rows is padded too: ops
  /// compute it as others of its shape.
  bool is_padded() const { return is_padded_; }
  /// The sequence that has a row.
  std::int64_t at(std::int64_t row) const;

  const std::int64_t* offsets() const { return offsets_.data(); }  // [N + 1]
  const std::int64_t* lengths() const { return lengths_.data(); }  // [N]
  /// i64 [N]; undefined: the host knows them.
  const Tensor& lengths_on_device() const { return on_device_; }

 private:
  Sequences(std::vector<std::int64_t> offsets, std::vector<std::int64_t> lengths);

  std::vector<std::int64_t> offsets_, lengths_;
  Tensor on_device_;
  std::int64_t longest_ = 0;
  bool is_padded_ = false;
};

}  // namespace lacuna
