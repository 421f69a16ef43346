// The interface of memory policies: the facts about each saved tensor (SavedTensorInfo), and the decision (Hold).
#pragma once

#include "autograd/module_range.h"
#include "core/op.h"
#include "core/registry.h"
#include "core/schema.h"
#include "core/tensor.h"
#include "ops/quantize/quantize.h"
#include "ops/quantize/slope.h"

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

class OffloadStore;

/// One reader of a saved tensor in the backward pass.
struct Reader {
  Label op;
  OpKind kind = OpKind::other;                 // the op's kind
  const quant::SlopeLevels* slopes = nullptr;  // the op's Operation::slopes
  Label path;
  Source source{};  // which tensor of that op
  Need need{};
  bool rematerializes = false;  // reads it to rematerialize another tensor, not to compute a gradient
  bool optional = false;        // works without the tensor

  bool operator==(const Reader&) const = default;
};

/// The facts about a saved tensor from which a policy decides how to hold it.
struct SavedTensorInfo {
  Label op;                // the op that made it; empty for an input of the program
  Label path;              // path of the module that ran the op
  Source source = output;  // which tensor of that op
  int occurrence = 0;      // number of earlier tensors on the tape with this op, path and source
  Shape shape;
  DType dtype = DType::f32;
  std::int64_t bytes = 0;
  std::uint64_t pass = 0;  // id of the forward pass
  Label region{};          // the region whose recompute saves the tensor; empty in forward
  Need need = Need::sign;  // the strongest need of its readers
  Groups groups = Groups::run;
  std::int64_t heads = 1;
  bool optional = false;           // every reader works without it, so it may be dropped
  bool parameter = false;          // a parameter, which exists anyway: keeping it costs nothing
  bool borrowed = false;           // an input that the caller still holds: a quantized copy would add memory
  bool can_rematerialize = false;  // its op can recompute it from held tensors
  bool approximate = true;         // the tensors it is recomputed from are quantized, or may still be
  int chain = 0;                   // length of the longest chain of ops to rematerialize it, its own included
  bool results_unread = false;     // no reader needs the tensors that could be rematerialized from this one
  std::span<const Reader> readers;

  /// Whether it is an input of the program, which no op made.
  bool is_input() const { return op.text().empty(); }
  /// The name of the op that made it, or `input`.
  std::string_view maker() const { return is_input() ? "input" : op.text(); }
  /// Its name within the module: `linear`, `add #2` for the second `add`, `layer_norm statistic 0`.
  std::string name() const;
  /// Its path and name, which are equal in every step of the same program.
  std::string key() const;
};

/// Running estimates of the ranges of column groups, so that quantizing takes one pass over the tensor. Each step moves
/// an estimate by `1 − decay` of the way to the observed range (Mesa, section 3.2).
struct RunningRanges {
  double decay = 0.9;
  bool symmetric = false;            // symmetric about zero: [-m, m], m the largest magnitude
  std::vector<quant::Range> ranges;  // [groups]; empty before the first step
};

/// A policy's answer: how a saved tensor is held until backward.
struct Hold {
  enum Kind : std::uint8_t {
    drop,           // not held: every reader works without it
    keep,           // unchanged
    rematerialize,  // recomputed by the op that made it, from held tensors
    sign_mask,      // one bit per element
    quantize,
    offload,  // in a store, unchanged or quantized. For reports only; a policy answers `keep` or `quantize` with
              // `store`
  };
  Kind kind = keep;
  quant::QuantConfig config{};  // for `quantize`
  bool signs = false;           // for `quantize` and `rematerialize`: also keeps the exact signs
  // For `quantize`: stores 2 bits of the activation's slope per element, no values.
  const quant::SlopeLevels* slopes = nullptr;
  RunningRanges* running = nullptr;  // for `quantize` by columns: the running ranges to use; null: the tensor's own
  std::uint64_t draw = 0;            // for `quantize`: selects the step's random draws that round it
  OffloadStore* store = nullptr;     // for `keep` and `quantize`: offloads the bytes there if there is room
};

std::string_view name_of(Hold::Kind kind);

class MemoryPolicy;
/// Throws if a policy's answer is invalid for the tensor: `drop` requires an optional tensor, `rematerialize` one that
/// can be rematerialized, `sign_mask` Need::sign, `quantize` Need::value or weaker.
void expect_valid(const Hold& hold, const SavedTensorInfo& info, const MemoryPolicy& policy);

/// Values that a policy has measured for each saved tensor, for reports: by the tensor's key, then by name.
using TensorFigures = std::map<std::string, std::map<std::string, double>>;

/// Decides how saved tensors are held, and which parts of a model are recomputed.
class MemoryPolicy {
 public:
  /// `quantizes`: whether `decide` may ever answer `quantize`. If not, rematerialized tensors are known to be exact.
  explicit MemoryPolicy(bool quantizes = false) : quantizes_(quantizes) {}
  virtual ~MemoryPolicy() = default;
  bool quantizes() const { return quantizes_; }

  virtual std::string_view name() const = 0;
  /// Called once for each saved tensor that is not a parameter. The answer must be valid for the tensor (expect_valid).
  virtual Hold decide(const SavedTensorInfo& info) = 0;
  /// The number of leading modules of `modules` to checkpoint as one region, which saves only its input and is
  /// recomputed in backward; 0: none. `within`: the enclosing region that is being recomputed; empty in forward.
  virtual std::int64_t recomputes(const ModuleRange& modules, std::string_view within);
  /// State on which the next step depends, by name, as CPU tensors.
  virtual std::map<std::string, Tensor> state() const { return {}; }
  /// Restores the state. Throws and changes nothing if `state` is not valid for this policy.
  virtual void set_state(const std::map<std::string, Tensor>& state);
  /// Current ranges or sensitivities, which metrics.jsonl records during training.
  virtual TensorFigures figures() const { return {}; }

 private:
  bool quantizes_;
};

/// A policy by name.
struct MemoryPolicyKind {
  Options options;  // with their defaults
  std::function<std::unique_ptr<MemoryPolicy>(const Options&)> make;
};
Registry<MemoryPolicyKind>& memory_policies();

/// Creates the policy `name`. Rejects unknown names and settings.
std::unique_ptr<MemoryPolicy> make_policy(std::string_view name, const OptionValues& options = {});

/// Registers a policy class that has a `policy_name` and a constructor from its options.
template <class Policy, class PolicyOptions>
struct RegisterPolicy {
  RegisterPolicy() {
    memory_policies().add(Policy::policy_name, {PolicyOptions(), [](const Options& given) {
                                                  return std::make_unique<Policy>(given.as<PolicyOptions>());
                                                }});
  }
};

}  // namespace lacuna
