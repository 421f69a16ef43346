// Holders: how a saved tensor waits for backward, one class for each way.
//
// `make_holder` makes one of the memory policy's answer (Hold). Backward reads the tensor through it as an Operand. A
// holder derives from HolderBase and has
//
//   static constexpr Hold::Kind kind;
//   std::int64_t bytes() const;                // that it takes
//   Operand::Form read(const ReadRequest&);    // the tensor, as the operand of an op's backward
//   void release();                            // frees it
//
// A new way to hold a tensor is a class here, a member of `Holder`, and a line of `make_holder`.
#pragma once

#include "autograd/offload_store.h"
#include "autograd/policy.h"
#include "ops/operand.h"

#include <memory>
#include <span>
#include <variant>
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

struct ReadRequest {
  const Shape& shape;  // to read the tensor in
  Label reader;        // the op, for errors
  bool as_whole;       // another reader follows: a rematerialized tensor is computed whole and kept for it
  bool retain_graph;   // backward may run again
};

/// The part that most holders share.
struct HolderBase {
  /// Whether values can be read: otherwise the tensor takes no further readers.
  static constexpr bool has_values = true;
  /// Whether it keeps slopes of a curve in place of values.
  static constexpr bool has_slopes = false;
  /// Bits per element of a quantized tensor.
  int bits() const { return 0; }
  /// Whether the values that are read differ from those of forward.
  bool is_approximate() const { return false; }
  /// Whether somebody changed the values in place.
  bool is_changed() const { return false; }
  /// Sign bits (quant::pack_signs), u8 [ceil(count / 8)]; undefined if there are none.
  Tensor signs() const { return {}; }
  /// The saved tensors that it reads.
  std::span<const SavedTensorPtr> sources() const { return {}; }
  /// A backward pass is done, and another one may follow.
  void rewind() {}
};

/// Nothing: every reader can do without.
struct Dropped : HolderBase {
  static constexpr Hold::Kind kind = Hold::drop;
  static constexpr bool has_values = false;
  std::int64_t bytes() const { return 0; }
  Operand::Form read(const ReadRequest&) const { return {}; }
  void release() {}
};

/// The tensor itself.
class Kept : public HolderBase {
 public:
  static constexpr Hold::Kind kind = Hold::keep;
  /// `is_owned`: the memory counts as saved until it is released; otherwise somebody else keeps it anyway.
  Kept(const Tensor& values, std::uint64_t version, const Owner& before, const Owner& saved, bool is_owned);
  std::int64_t bytes() const { return is_owned_ && values_.defined() ? values_.bytes() : 0; }
  bool is_changed() const { return values_.defined() && values_.storage()->version() != version_; }
  Operand::Form read(const ReadRequest& request) const { return KeptForm{values_.reshape(request.shape)}; }
  void release();

 private:
  Tensor values_;
  std::uint64_t version_;  // of the storage in forward
  Owner before_;           // of the memory until it was saved
  bool is_owned_;
};

/// One bit per element: whether it is positive.
class SignMask : public HolderBase {
 public:
  static constexpr Hold::Kind kind = Hold::sign_mask;
  static constexpr bool has_values = false;
  explicit SignMask(Tensor bits) : bits_(std::move(bits)) {}
  std::int64_t bytes() const { return bits_.defined() ? bits_.bytes() : 0; }
  Tensor signs() const { return bits_; }
  Operand::Form read(const ReadRequest&) const { return SignForm{bits_}; }
  void release() { bits_ = {}; }

 private:
  Tensor bits_;
};

/// 1 to 8 bits per element, and exact signs besides if an op needs them.
class Quantized : public HolderBase {
 public:
  static constexpr Hold::Kind kind = Hold::quantize;
  Quantized(quant::QuantizedTensor values, Tensor signs) : values_(std::move(values)), signs_(std::move(signs)) {}
  std::int64_t bytes() const;
  int bits() const { return values_.config.bits; }
  bool is_approximate() const { return true; }
  Tensor signs() const { return signs_; }
  Operand::Form read(const ReadRequest&) const { return QuantizedForm{values_, signs_, coarser_}; }
  void release();

  const quant::QuantConfig& config() const { return values_.config; }
  /// For calibration: reads as if the values were quantized a second time, with this.
  void set_coarser(const std::optional<quant::QuantConfig>& config) { coarser_ = config; }

 private:
  quant::QuantizedTensor values_;
  Tensor signs_;
  std::optional<quant::QuantConfig> coarser_{};
};

/// 2 bits per element: where on the curve that reads the tensor the slope is about that of forward.
class Slopes : public HolderBase {
 public:
  static constexpr Hold::Kind kind = Hold::quantize;
  static constexpr bool has_values = false, has_slopes = true;
  Slopes(Tensor bits, const quant::SlopeLevels& levels) : bits_(std::move(bits)), levels_(&levels) {}
  std::int64_t bytes() const { return bits_.defined() ? bits_.bytes() : 0; }
  int bits() const { return 2; }
  bool is_approximate() const { return true; }
  Operand::Form read(const ReadRequest&) const { return SlopeForm{bits_, levels_}; }
  void release() { bits_ = {}; }

 private:
  Tensor bits_;
  const quant::SlopeLevels* levels_;
};

/// Computed again by the op that made it, as one more reader of the tensors it comes from.
class Rematerialized : public HolderBase {
 public:
  static constexpr Hold::Kind kind = Hold::rematerialize;
  /// Becomes a reader of the sources of `origin`, which it moves from. `info`: of this tensor.
  Rematerialized(Origin& origin, const SavedTensorInfo& info, Device device, Tensor signs);
  std::int64_t bytes() const { return signs_.defined() ? signs_.bytes() : 0; }
  bool is_approximate() const;
  Tensor signs() const { return signs_; }
  std::span<const SavedTensorPtr> sources() const { return origin_.sources; }
  Operand::Form read(const ReadRequest& request);
  void rewind();
  void release();

 private:
  Operand rows(Label reader) const;
  void release_sources();

  Origin origin_;
  Shape shape_;
  DType dtype_;
  Device device_;
  Label op_, path_;
  Tensor signs_;
  Tensor whole_{};  // once it is computed for several readers
};

/// An input of a checkpointed region that runs again, read from the tensor that forward saved in few bits.
class RegionInput : public HolderBase {
 public:
  static constexpr Hold::Kind kind = Hold::keep;
  /// `saved` belongs to the tape whose backward runs the region, and is released there.
  explicit RegionInput(SavedTensorPtr saved) : saved_(std::move(saved)) {}
  std::int64_t bytes() const { return 0; }
  bool is_approximate() const { return true; }  // decoded by blocks, as Quantized
  Operand::Form read(const ReadRequest& request) const;
  void release() { saved_ = {}; }

 private:
  SavedTensorPtr saved_;
};

/// In a store: the tensor itself, or its quantized bytes. The first reader brings it back into memory for all of them.
class Offloaded : public HolderBase {
 public:
  static constexpr Hold::Kind kind = Hold::offload;
  /// `quantized`: what the bytes in the store are of, without them.
  Offloaded(OffloadStore& store, OffloadStore::Id id, const Owner& saved,
            std::optional<quant::QuantizedTensor> quantized = {}, Tensor signs = {});
  std::int64_t bytes() const;
  int bits() const { return quantized_ ? quantized_->config.bits : 0; }
  bool is_approximate() const { return quantized_.has_value(); }
  Tensor signs() const { return signs_; }
  Operand::Form read(const ReadRequest& request);
  void rewind() { unload(); }
  void release();
  /// Brings it back; null where it is not quantized.
  Quantized* quantized();

 private:
  void load(bool again);
  void unload();

  OffloadStore* store_;
  OffloadStore::Id id_;
  Owner saved_;
  std::optional<quant::QuantizedTensor> quantized_;
  Tensor signs_;
  Tensor values_{};                   // while it is back
  std::optional<Quantized> codes_{};  // the same, of a quantized tensor
};

using Holder = std::variant<Dropped, Kept, SignMask, Quantized, Slopes, Rematerialized, RegionInput, Offloaded>;

/// The inputs from which a holder is made.
struct HolderInputs {
  const Tensor& values;
  std::uint64_t version;  // of their storage in forward
  const SavedTensorInfo& info;
  const Owner& owner;  // of their memory until now
  bool is_owned;       // see Kept
  Origin& origin;      // a rematerialized tensor moves from it
};

/// Quantizes as a policy's answer says. `key`: of the tensor; its rounding is random by key and step.
quant::QuantizedTensor quantize(const Tensor& values, const std::string& key, const Hold& hold);

/// Allocates before it changes anything: after running out of memory it can be called again.
Holder make_holder(const Hold& hold, const HolderInputs& tensor);

}  // namespace lacuna
