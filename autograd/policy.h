// The interface of memory policies: the question about each saved tensor, and the answer.
#pragma once

#include "autograd/module_range.h"
#include "core/op.h"
#include "core/registry.h"
#include "core/settings.h"
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
  OpKind kind = OpKind::other;                 // of that op
  const quant::SlopeLevels* slopes = nullptr;  // of that op's curve, as Operation::slopes
  Label path;
  Source source{};  // which tensor of that op
  Need need{};
  bool rematerializes = false;  // reads it to rematerialize another tensor, not for a gradient of its own
  bool optional = false;        // can do without it
};

/// The facts about a saved tensor from which a policy decides how to hold it.
struct SavedTensorInfo {
  Label op;                // that made it; empty for an input of the program
  Label path;              // of the module that ran the op
  Source source = output;  // which tensor of that op
  int occurrence = 0;      // how many tensors of this op, path and source came before it on the tape
  Shape shape;
  DType dtype = DType::f32;
  std::int64_t bytes = 0;
  std::uint64_t pass = 0;  // differs from pass to pass
  Label region{};          // the checkpointed region that runs again and holds it meanwhile; empty in forward
  Need need = Need::sign;  // the strongest of its readers
  Groups groups = Groups::run;
  std::int64_t heads = 1;
  bool optional = false;           // every reader can do without it: it may be dropped
  bool parameter = false;          // lives on anyway: keeping it costs nothing
  bool borrowed = false;           // an input that the caller still holds: a quantized copy would come besides
  bool can_rematerialize = false;  // its op can compute it again from tensors that are held
  bool approximate = true;         // those tensors are quantized, or may still be
  int chain = 0;                   // ops that rematerializing it runs in a row at most, itself included
  bool results_unread = false;     // no reader needs the tensors that could be rematerialized from this one
  std::span<const Reader> readers;

  /// An input of the program: no op made it.
  bool is_input() const { return op.text().empty(); }
  /// The op that made it, or `input`.
  std::string_view maker() const { return is_input() ? "input" : op.text(); }
  /// Which of its module's tensors it is: `linear`, `add #2` of an op's second, `layer_norm statistic 0`.
  std::string name() const;
  /// The same in every step of the same program: its path and its name.
  std::string key() const;
};

/// Ranges of column groups that are carried from step to step, so that a tensor is quantized in one pass over it. The
/// estimate moves by `1 − decay` of the way to what each step has seen (Mesa, section 3.2).
struct RunningRanges {
  double decay = 0.9;
  bool symmetric = false;            // about zero: [-m, m], m the largest magnitude
  std::vector<quant::Range> ranges;  // [groups]; empty before the first step
};

/// A policy's answer: how a saved tensor is held until backward.
struct Hold {
  enum Kind : std::uint8_t {
    drop,           // not at all: every reader can do without it
    keep,           // as it is
    rematerialize,  // computed again by the op that made it, from tensors that are held
    sign_mask,      // one bit an element
    quantize,
    offload,  // in a store, as it is or quantized: of reports; a policy answers `keep` or `quantize` with `store`
  };
  Kind kind = keep;
  quant::QuantConfig config{};                 // of `quantize`
  bool signs = false;                          // of `quantize` and `rematerialize`: the exact signs are kept besides
  const quant::SlopeLevels* slopes = nullptr;  // of `quantize`: 2 bits of the curve's slope at each element, no value
  RunningRanges* running = nullptr;  // of `quantize` by columns: where the ranges come from; null: from the tensor
  std::uint64_t draw = 0;            // of `quantize`: which of the step's random draws rounds it
  OffloadStore* store = nullptr;     // of `keep` and `quantize`: the bytes go there, as long as it takes them
};

std::string_view name_of(Hold::Kind kind);

class MemoryPolicy;
/// Throws if a policy's answer does not suit the tensor: `drop` is for optional tensors, `rematerialize` for those that
/// can be, `sign_mask` for Need::sign, `quantize` for Need::value and below.
void expect_valid(const Hold& hold, const SavedTensorInfo& info, const MemoryPolicy& policy);

/// Figures that a policy has measured for each saved tensor, for reports: by the tensor's key, then by name.
using TensorFigures = std::map<std::string, std::map<std::string, double>>;

/// Decides how saved tensors are held, and which parts of a model are recomputed.
class MemoryPolicy {
 public:
  /// `quantizes`: whether `decide` may ever answer `quantize`. Without, rematerialized tensors are known to be exact.
  explicit MemoryPolicy(bool quantizes = false) : quantizes_(quantizes) {}
  virtual ~MemoryPolicy() = default;
  bool quantizes() const { return quantizes_; }

  virtual std::string_view name() const = 0;
  /// Called once for each saved tensor that is not a parameter. The answer must suit the tensor (expect_valid).
  virtual Hold decide(const SavedTensorInfo& info) = 0;
  /// How many of `modules`, from the first on, are one region that saves its input alone and runs again in backward;
  /// 0: none. `within`: the region that runs again at the moment and contains them; empty in forward.
  virtual std::int64_t recomputes(const ModuleRange& modules, std::string_view within);
  /// State that the next step depends on, by name: tensors on the CPU.
  virtual std::map<std::string, Tensor> state() const { return {}; }
  /// Throws, and changes nothing, if `state` could not have returned that.
  virtual void set_state(const std::map<std::string, Tensor>& state);
  /// Ranges or sensitivities as they are now, which metrics.jsonl notes over training.
  virtual TensorFigures figures() const { return {}; }

 private:
  bool quantizes_;
};

/// A policy by name.
struct MemoryPolicyKind {
  std::vector<Setting> settings;
  std::function<std::unique_ptr<MemoryPolicy>(const Settings&)> make;
};
Registry<MemoryPolicyKind>& memory_policies();

/// The policy `name`; rejects unknown names and settings.
std::unique_ptr<MemoryPolicy> make_policy(std::string_view name, const SettingValues& settings = {});

/// Registers a class with `name`, a table `settings()` and a constructor from Settings.
template <class Policy>
struct RegisterPolicy {
  RegisterPolicy() {
    memory_policies().add(Policy::policy_name,
                          {Policy::settings(), [](const Settings& given) { return std::make_unique<Policy>(given); }});
  }
};

}  // namespace lacuna
