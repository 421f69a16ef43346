// A tensor between forward and backward.
//
// While a variable names the tensor, it collects its readers: the ops whose backward needs it, and how exactly. When no
// variable names it any more, or when backward begins, the tape finalizes it: the memory policy decides, once, whether
// it is dropped, kept, rematerialized from other saved tensors, reduced to signs, or quantized. In backward every
// reader releases it, and the last one frees it.
#pragma once

#include "autograd/policy.h"
#include "ops/operand.h"

#include <memory>
#include <vector>

namespace lacuna {

class SavedTensor;
using SavedTensorPtr = std::shared_ptr<SavedTensor>;

/// The op that made a tensor, and the saved tensors from which it can compute it again.
struct Origin {
  std::shared_ptr<const Operation> op;
  std::vector<SavedTensorPtr> sources;  // as op->rematerializes(); null where an optional input is absent
  std::vector<Shape> shapes;            // the shapes those tensors had for the op
};

/// The op that made a tensor; `op` is empty for an input of the program.
struct Producer {
  Label op;
  Label path;
  Source source = output;
  Groups groups = Groups::run;
  std::int64_t heads = 1;
  int occurrence = 0;
};

/// Tensors that no variable names any more, in the order in which they were released. Has room for every tensor of its
/// tape, so that a destructor adds to it without allocating.
using SavedTensorQueue = std::vector<std::weak_ptr<SavedTensor>>;

/// How a tensor is held, for reports.
struct SavedTensorReport {
  SavedTensorInfo facts;  // without readers, which are in `users`
  Hold::Kind hold;
  std::int64_t bytes;
  int bits;    // of quantized tensors
  bool slope;  // the quantized values are slopes of the curve
  bool signs;  // one bit an element, alone or besides
  std::vector<Reader> users;
};

class SavedTensor : public std::enable_shared_from_this<SavedTensor> {
 public:
  SavedTensor(const Tensor& tensor, MemoryPolicy& policy, std::uint64_t tape, SavedTensorQueue& queue,
              const Producer& maker);
  ~SavedTensor();
  SavedTensor(const SavedTensor&) = delete;
  SavedTensor& operator=(const SavedTensor&) = delete;

  std::uint64_t tape() const { return tape_; }

  /// A variable names the tensor. An extra output has none: the tensor that may be rematerialized from it does.
  void hold() { ++names_; }
  /// The last release queues the tensor: its tape finalizes it before the next op allocates.
  void release() noexcept;
  void finalize_if_unnamed();

  void set_origin(Origin origin);
  void add_user(const Reader& user, Groups groups = Groups::run, std::int64_t heads = 1);
  /// The reader added last does not need it after all.
  void withdraw_user();
  void finalize();
  /// The tape is gone, and with it all readers.
  void discard();
  /// Finalized in a way that allows no further reader.
  bool is_discarded() const { return settled_ && (how_ == Hold::drop || how_ == Hold::sign_mask); }

  /// The tensor as backward reads it, in `shape`; `reader` is the op that errors name. A tensor that several readers
  /// would rematerialize is rematerialized as a whole by the first one, and kept for the others.
  Operand operand(const Shape& shape, Label reader);
  /// The same for a reader that needs signs only. `optional`: undefined unless they were kept.
  Operand signs(const Shape& shape, Label reader, bool optional);
  /// The values as one tensor.
  Tensor whole(Label reader);
  void release_reader();
  /// Whether, after the walk back that begins now, everything is to be held as before it, for another one.
  void set_retained(bool retained) { retained_ = retained; }

  /// Adds the quantized tensors that its values come from: itself, or those it is rematerialized from.
  void gather_coded(std::vector<SavedTensor*>& coded);
  std::string key() const { return facts().key(); }
  /// For calibration: from now on decoded as if it had so few bits; 0: as it is.
  void set_probe(int bits) { probe_bits_ = bits; }

  /// Undecided, and in this memory.
  bool is_of(const Tensor& tensor) const { return tensor_.defined() && tensor_.storage() == tensor.storage(); }
  /// Somebody reads it, and it is not dropped.
  bool is_held() const { return !users_.empty() && how_ != Hold::drop; }
  SavedTensorReport report() const;
  /// An op takes the tensor as an input. `reads`: backward may read it for that op, or rematerialize from it.
  void note_use(bool reads) {
    used_ = true;
    may_be_read_ |= reads;
  }
  /// The strictest hint of how its elements group, of several readers.
  void add_hint(Groups groups, std::int64_t heads);

  Hold::Kind how() const { return how_; }
  SavedTensorInfo facts() const;
  /// Bytes held because of it: none for a parameter or a tensor that is rematerialized.
  std::int64_t held_bytes() const;
  /// Bits an element of a quantized tensor, without ranges and signs; 0 of others.
  int bits() const { return how_ == Hold::quantize ? codes_.config.bits : 0; }
  bool keeps_slope() const { return slopes_ != nullptr; }
  bool keeps_signs() const { return mask_.defined(); }
  /// Bytes that a reader sees.
  std::int64_t read_bytes() const;

 private:
  bool is_aux() const { return maker_.source.kind == Source::Kind::extra_output; }
  /// An input of the program that the caller still holds.
  bool borrowed() const;
  bool usable_as_source(Need need) const;
  bool can_rematerialize() const;
  Hold decide() const;
  void encode(const Hold& decision);
  /// As it is held, for a tensor that is not kept.
  Operand held_operand(const Shape& shape, Label reader) const;
  quant::QuantConfig coarser_config() const;
  /// Decoding or deriving it yields approximate values: again by blocks for each reader, never as a whole to share.
  bool is_coded() const;
  /// Every user can do without it.
  bool is_optional() const;
  /// QuantizedTensor hold it, or what it is derived from, or may when it settles.
  bool may_be_coded() const;
  /// What it could be derived from is coded, or may still be.
  bool found_approximately() const;
  int chain_below() const;
  void raise_chain_above(int above);
  bool stale() const { return tensor_.defined() && tensor_.storage()->version() != version_; }
  void check_version(Label reader) const;
  void release_origin();
  void free();

  Tensor tensor_;
  Tensor mask_;               // u8 [ceil(count / 8)]
  bool shows_signs_ = false;  // kept where its sources may be coded: who could find the signs from those reads it
  quant::QuantizedTensor codes_;
  const quant::SlopeLevels* slopes_ = nullptr;  // the codes are of slopes
  int probe_bits_ = 0;
  MemoryPolicy& policy_;
  SavedTensorQueue* queue_;  // of its tape; null once that is gone
  bool queued_ = false;
  std::uint64_t tape_;
  Producer maker_;
  Shape shape_;
  DType dtype_;
  Device device_;
  std::uint64_t version_;
  bool parameter_;
  Owner owner_;  // of the storage, before it was saved

  std::vector<Reader> users_;
  std::size_t left_ = 0;  // readers that are done
  int names_ = 0;         // variables, see hold()
  bool settled_ = false;
  bool retained_ = false;
  bool costs_nothing_ = false;  // a parameter, or a batch that the caller holds
  Hold::Kind how_ = Hold::keep;
  Need need_ = Need::sign;
  Origin origin_;
  std::vector<std::weak_ptr<SavedTensor>> derived_;  // tensors that could be rematerialized from this one
  bool used_ = false, may_be_read_ = false;          // by ops that take it as an input
  int chain_above_ = 0;                              // the longest chain of derivations that stands on this slot
};

}  // namespace lacuna
