// Holders: the representations of a saved tensor between forward and backward, one class per way to hold it.
//
// `make_holder` creates a holder from the memory policy's answer (Hold). Backward reads the tensor through it as an
// Operand. A holder derives from HolderBase and has
//
//   static constexpr Hold::Kind kind;
//   std::int64_t bytes() const;                // bytes held
//   Operand::Form read(const ReadRequest&);    // the tensor, as the operand of an op's backward
//   void release();                            // frees it
//
// To add a way to hold a tensor, add a class here, a member of `Holder`, and a line in `make_holder`.
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

/// The op that made a tensor, and the saved tensors from which the op can recompute it.
struct Origin {
  std::shared_ptr<const Operation> op;
  std::vector<SavedTensorPtr> sources;  // in the order of op->rematerializes(); null if an optional input is absent
  std::vector<Shape> shapes;            // the shapes of those tensors as the op saw them
};

struct ReadRequest {
  const Shape& shape;  // the shape to read the tensor in
  Label reader;        // the op, for errors
  bool as_whole;       // another reader follows, so a rematerialized tensor is computed whole and kept
  bool retain_graph;   // backward may run again
};

/// Default implementations for most holders.
struct HolderBase {
  /// Whether values can be read. If not, the tensor accepts no further readers.
  static constexpr bool has_values = true;
  /// Whether it holds slopes of an activation in place of values.
  static constexpr bool has_slopes = false;
  /// Bits per element of a quantized tensor.
  int bits() const { return 0; }
  /// Whether the values it returns differ from those of forward.
  bool is_approximate() const { return false; }
  /// Whether the values were changed in place since forward.
  bool is_changed() const { return false; }
  /// Sign bits (quant::pack_signs), u8 [ceil(count / 8)]; undefined if there are none.
  Tensor signs() const { return {}; }
  /// The saved tensors from which it reads.
  std::span<const SavedTensorPtr> sources() const { return {}; }
  /// Prepares for another backward pass after one is done.
  void rewind() {}
};

/// Holds nothing: every reader works without the tensor.
struct Dropped : HolderBase {
  static constexpr Hold::Kind kind = Hold::drop;
  static constexpr bool has_values = false;
  std::int64_t bytes() const { return 0; }
  Operand::Form read(const ReadRequest&) const { return {}; }
  void release() {}
};

/// Holds the tensor itself.
class Kept : public HolderBase {
 public:
  static constexpr Hold::Kind kind = Hold::keep;
  /// `is_owned`: the memory counts as saved until it is released; otherwise another owner keeps it anyway.
  Kept(const Tensor& values, std::uint64_t version, const Owner& before, const Owner& saved, bool is_owned);
  std::int64_t bytes() const { return is_owned_ && values_.defined() ? values_.bytes() : 0; }
  bool is_changed() const { return values_.defined() && values_.storage()->version() != version_; }
  Operand::Form read(const ReadRequest& request) const { return KeptForm{values_.reshape(request.shape)}; }
  void release();

 private:
  Tensor values_;
  std::uint64_t version_;  // version of the storage in forward
  Owner before_;           // owner of the memory until it was saved
  bool is_owned_;
};

/// Holds one bit per element, which is set if the element is positive.
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

/// Holds 1 to 8 bits per element, and exact signs in addition if an op needs them.
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
  /// For calibration: makes reads return the values quantized a second time with this configuration.
  void set_coarser(const std::optional<quant::QuantConfig>& config) { coarser_ = config; }

 private:
  quant::QuantizedTensor values_;
  Tensor signs_;
  std::optional<quant::QuantConfig> coarser_{};
};

/// Holds 2 bits per element: a point of the activation that reads the tensor at which the slope is about that of
/// forward.
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

/// Recomputes the tensor with the op that made it, as an additional reader of that op's saved tensors.
class Rematerialized : public HolderBase {
 public:
  static constexpr Hold::Kind kind = Hold::rematerialize;
  /// Becomes a reader of the sources of `origin`, which is moved from. `info`: the facts about this tensor.
  Rematerialized(Origin& origin, const SavedTensorInfo& info, Device device, Tensor signs);
  std::int64_t bytes() const { return signs_.defined() ? signs_.bytes() : 0; }
  bool is_approximate() const;
  Tensor signs() const { return signs_; }
  std::span<const SavedTensorPtr> sources() const { return origin_.sources; }
  Operand::Form read(const ReadRequest& request);
  void rewind();
  void release();
  /// Undoes that it reads the sources, before backward.
  void withdraw();

 private:
  Reader reader_of(std::size_t source) const;
  Operand rows(Label reader) const;
  void release_sources();

  Origin origin_;
  Shape shape_;
  DType dtype_;
  Device device_;
  Label op_, path_;
  Need need_;
  Tensor signs_;
  Tensor whole_{};  // defined once computed for several readers
};

/// An input of a checkpointed region that is being recomputed, read from the quantized tensor that forward saved.
class RegionInput : public HolderBase {
 public:
  static constexpr Hold::Kind kind = Hold::keep;
  /// `saved` belongs to the tape whose backward recomputes the region, and is released there.
  explicit RegionInput(SavedTensorPtr saved) : saved_(std::move(saved)) {}
  std::int64_t bytes() const { return 0; }
  bool is_approximate() const { return true; }  // decoded block by block, like Quantized
  Operand::Form read(const ReadRequest& request) const;
  void release() { saved_ = {}; }

 private:
  SavedTensorPtr saved_;
};

/// Holds the tensor, or its quantized copy, in an offload store. The first reader loads it back into memory for all
/// readers.
class Offloaded : public HolderBase {
 public:
  static constexpr Hold::Kind kind = Hold::offload;
  /// `quantized`: the description of the quantized tensor whose bytes are in the store, without the bytes.
  Offloaded(OffloadStore& store, OffloadStore::Id id, const Owner& saved,
            std::optional<quant::QuantizedTensor> quantized = {}, Tensor signs = {});
  std::int64_t bytes() const;
  int bits() const { return quantized_ ? quantized_->config.bits : 0; }
  bool is_approximate() const { return quantized_.has_value(); }
  Tensor signs() const { return signs_; }
  Operand::Form read(const ReadRequest& request);
  void rewind() { unload(); }
  void release();
  /// Loads the quantized tensor; null if the tensor is not quantized.
  Quantized* quantized();

 private:
  void load(bool again);
  void unload();

  OffloadStore* store_;
  OffloadStore::Id id_;
  Owner saved_;
  std::optional<quant::QuantizedTensor> quantized_;
  Tensor signs_;
  Tensor values_{};                   // defined while loaded
  std::optional<Quantized> codes_{};  // the loaded copy of a quantized tensor
};

using Holder = std::variant<Dropped, Kept, SignMask, Quantized, Slopes, Rematerialized, RegionInput, Offloaded>;

/// The inputs of `make_holder`.
struct HolderInputs {
  const Tensor& values;
  std::uint64_t version;  // version of their storage in forward
  const SavedTensorInfo& info;
  const Owner& owner;  // current owner of their memory
  bool is_owned;       // see Kept
  Origin& origin;      // a rematerialized holder moves from it
};

/// Quantizes according to a policy's answer. `key`: the tensor's key; the random rounding depends on key and step.
quant::QuantizedTensor quantize(const Tensor& values, const std::string& key, const Hold& hold);

/// Creates the holder. Allocates before it changes anything, so it can be called again after an out-of-memory error.
Holder make_holder(const Hold& hold, const HolderInputs& tensor);

}  // namespace lacuna
