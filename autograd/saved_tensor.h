// A tensor that is saved between forward and backward.
//
// It starts undecided: ops that need the tensor in backward add themselves as readers, with the precision they need.
// Once no variable names the tensor, or when backward begins, the tape calls `finalize`: the memory policy chooses how
// to hold it (holders/holder.h), for the strongest need of its readers. A tensor without readers is freed. In backward
// each reader calls `release_reader`, and the last call frees the holder.
//
// Example: y = linear(x, weight) with a frozen weight. Linear's `saves` table lists x only for the gradient of the
// weight, which is not wanted, so the tape adds no reader to x, and x is freed. The weight gets a reader for the
// gradient of x; as a parameter it is kept at no cost.
#pragma once

#include "autograd/holders/holder.h"

#include <memory>
#include <optional>
#include <vector>

namespace lacuna {

/// The op that made a tensor; `op` is empty for an input of the program.
struct Producer {
  Label op;
  Label path;
  Source source = output;
  Groups groups = Groups::run;
  std::int64_t heads = 1;
  int occurrence = 0;
};

/// The tape of a saved tensor.
struct TapePlace {
  std::uint64_t tape = 0;
  std::uint64_t pass = 0;  // see SavedTensorInfo
  Label region{};
};

/// Tensors that no variable names any more and that are not finalized yet, oldest first. The tape reserves room for all
/// its tensors, because destructors of variables append to the queue and must not allocate.
using SavedTensorQueue = std::vector<std::weak_ptr<SavedTensor>>;

/// A report of how a tensor is held.
struct SavedTensorReport {
  SavedTensorInfo info;  // its span of readers is empty; use `readers`
  Hold::Kind hold;
  std::int64_t bytes;
  int bits;    // per element, for a quantized tensor
  bool slope;  // holds slopes of the activation that reads it, not values
  bool signs;  // holds sign bits, alone or in addition
  std::vector<Reader> readers;
};

class SavedTensor : public std::enable_shared_from_this<SavedTensor> {
 public:
  SavedTensor(const Tensor& tensor, MemoryPolicy& policy, const TapePlace& place, SavedTensorQueue& queue,
              const Producer& producer);
  ~SavedTensor();
  SavedTensor(const SavedTensor&) = delete;
  SavedTensor& operator=(const SavedTensor&) = delete;

  // Forward: undecided.

  std::uint64_t tape() const { return place_.tape; }
  /// Marks this tensor as an input of a checkpointed region that is being recomputed, decoded from `saved`, which
  /// outlives backward. It is held as `saved` is, so that it is not quantized a second time.
  void set_region_input(SavedTensorPtr saved) { region_input_ = std::move(saved); }
  /// Counts the variables that name the tensor.
  void add_name() { ++names_; }
  /// Removes a name. Removing the last one queues the tensor for `finalize`, which the tape calls before the next op
  /// allocates.
  void remove_name() noexcept;
  /// Sets the tensors from which its op can recompute it.
  void set_origin(Origin origin);
  /// Adds an op that reads the tensor in backward.
  void add_reader(const Reader& reader, Groups groups = Groups::run, std::int64_t heads = 1);
  /// Adds an op that reads the tensor in backward if it is kept for other readers (`is_kept`).
  void add_guest() { ++guests_; }
  void reserve_readers(std::size_t more) { readers_.reserve(readers_.size() + more); }
  /// Undoes the last `add_reader` with this reader.
  void withdraw_reader(const Reader& reader);
  /// Notes that an op takes the tensor as an input. `is_read`: the op's backward may read the tensor, or rematerialize
  /// its output from it.
  void note_use(bool is_read) {
    is_used_ = true;
    may_be_read_ |= is_read;
  }
  /// Adds a reader's hint on which elements share ranges when quantized. The strictest hint counts.
  void add_hint(Groups groups, std::int64_t heads);
  /// Whether the tensor is undecided and lies in this memory.
  bool is_of(const Tensor& tensor) const { return tensor_.defined() && tensor_.storage() == tensor.storage(); }

  /// Asks the policy once and creates the holder.
  void finalize();
  void finalize_if_unnamed();
  /// Whether it is finalized without values, so that it accepts no further reader.
  bool is_discarded() const;
  /// Frees the tensor when its tape is destroyed.
  void discard();

  // Backward: finalized.

  /// The tensor in `shape`, for the op `reader`. If more readers follow, a rematerialized tensor is computed whole and
  /// kept for them.
  Operand operand(const Shape& shape, Label reader);
  /// The tensor for a reader that needs only signs. `optional`: the result is undefined if no signs are held.
  Operand signs(const Shape& shape, Label reader, bool optional);
  /// The values as one tensor.
  Tensor whole(Label reader);
  /// Releases one reader; the last one frees the holder.
  void release_reader();
  /// Sets whether the holder survives the backward pass that begins now, for another pass (retain_graph).
  void set_retained(bool retained) { is_retained_ = retained; }

  // Properties of the tensor.

  SavedTensorInfo info() const;
  std::string key() const { return info().key(); }
  bool is_extra_output() const { return producer_.source.kind == Source::Kind::extra_output; }
  /// Whether backward may read values that differ from forward's: quantized ones, or ones rematerialized from a
  /// quantized tensor. True for an undecided tensor that may still be quantized.
  bool is_approximate() const;
  /// The tensors from which it is, or may be, rematerialized.
  std::span<const SavedTensorPtr> sources() const;
  /// The holder of a quantized tensor; null for other tensors.
  Quantized* quantized();
  /// Whether it is held as it was in forward, in memory or in a store.
  bool is_kept() const;
  /// Whether it has readers and is not dropped.
  bool is_held() const;
  SavedTensorReport report() const;
  /// Bytes held for backward: 0 for a parameter, whose memory is not the tape's.
  std::int64_t held_bytes() const;
  /// Bytes of memory traffic of one reader.
  std::int64_t read_bytes() const;

 private:
  bool is_borrowed() const;
  bool is_changed() const;
  bool is_optional() const;
  bool are_results_unread() const;
  std::int64_t source_bytes() const;
  bool has_cheap_sources() const;
  bool waits_for(const SavedTensor& result) const;
  bool can_be_source(Need need) const;
  bool can_rematerialize() const;
  bool has_approximate_origin() const;
  int chain_below() const;
  void raise_chain_above(int above);
  Hold decide() const;
  Operand read(const Shape& shape, Label reader, bool as_whole);
  void expect_unchanged(Label reader) const;
  void release_waiting() noexcept;
  void free();

  Tensor tensor_;                          // defined until `finalize`
  std::optional<Holder> holder_;           // set by `finalize`
  Origin origin_;                          // valid until `finalize`
  std::vector<SavedTensorPtr> waiting_{};  // sources that are decided after this tensor
  MemoryPolicy& policy_;
  SavedTensorQueue* queue_;  // the tape's; null once the tape is gone
  bool is_queued_ = false;
  TapePlace place_;
  SavedTensorPtr region_input_{};  // see set_region_input
  Producer producer_;
  Shape shape_;
  DType dtype_;
  Device device_;
  std::uint64_t version_;  // version of the storage when it was recorded
  bool is_parameter_;
  Owner owner_;  // owner of the storage before it was saved

  std::vector<Reader> readers_;
  std::size_t guests_ = 0;
  std::size_t done_ = 0;  // number of readers and guests released in this backward pass
  int names_ = 0;
  bool is_retained_ = false;
  bool offers_signs_ = false;  // offers exact signs to optional readers, which would otherwise compute approximate ones
  Need need_ = Need::sign;
  std::vector<std::weak_ptr<SavedTensor>> results_;  // tensors that could be rematerialized from this one
  bool is_used_ = false, may_be_read_ = false;       // see note_use
  int chain_above_ = 0;                              // the longest chain of rematerializations that starts here
};

}  // namespace lacuna
