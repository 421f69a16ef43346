// What a memory policy is asked and what it answers.
#pragma once

#include "autograd/sensitivity.h"
#include "core/op.h"
#include "core/registry.h"
#include "core/settings.h"
#include "ops/quantize/affine.h"
#include "ops/quantize/slope.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// One reader of a saved tensor in the backward pass.
struct Reader {
  Label op;
  Label path;
  Source source{};  // which tensor of that op
  Need need{};
  bool rematerializes = false;  // reads it to rematerialize another tensor, not for a gradient of its own
  bool optional = false;        // can do without it
};

/// All that is known of a tensor when the last variable that names it lets go.
struct SavedTensorInfo {
  Label op;                // what made it: an op, or empty for an input of the program
  Label path;              // in which module
  Source source = output;  // which tensor of that op
  int occurrence = 0;      // how many tensors of this op, path and source came before it on the tape
  Shape shape;
  DType dtype = DType::f32;
  std::int64_t bytes = 0;
  Need need = Need::sign;  // the strongest among the users
  Groups groups = Groups::run;
  std::int64_t heads = 1;
  bool optional = false;           // every user can do without it: it may be dropped
  bool parameter = false;          // lives on anyway: keeping it costs nothing
  bool borrowed = false;           // an input of the program that its caller holds anyway: codes would come besides
  bool can_rematerialize = false;  // one cheap pass over tensors that are kept anyway yields it
  bool approximate = true;         // what it could be derived from is coded, or may still be
  int chain = 0;                   // passes such a derivation would take at most, itself included
  std::span<const Reader> users;

  /// An input of the program: no op made it.
  bool is_input() const { return op.text().empty(); }
  /// The op that made it, or `input`.
  std::string_view maker() const { return is_input() ? "input" : op.text(); }
  /// Which of its module's tensors it is: `linear`, `add #2` of an op's second, `layer_norm statistic 0`.
  std::string name() const;
  /// Names the slot in every step of the same program: its path and its name.
  std::string key() const;
};

/// How a tensor waits for backward.
enum class Hold : std::uint8_t { drop, keep, rematerialize, sign_mask, quantize };

std::string_view name_of(Hold hold);

/// Ranges of column groups that are carried from step to step, so that a tensor is coded in one pass over it. The
/// estimate moves by `1 − decay` of the way to what each step has seen (Mesa, section 3.2).
struct RunningRanges {
  double decay = 0.9;
  std::vector<quant::Range> ranges;  // [groups]; empty before the first step
};

/// A policy's answer.
struct Decision {
  Hold hold = Hold::keep;
  quant::QuantConfig coding{};  // of `code`
  bool signs = false;           // of `code` and `derive`: the exact signs are kept besides, one bit an element
  const quant::SlopeLevels* slopes = nullptr;  // of `code`: the slope there is all that is kept, in 2 bits
  RunningRanges* running = nullptr;  // of `code` by columns: where the ranges come from; null: from the tensor
  std::uint64_t draw = 0;            // of `code`: which of the step's draws rounds it
};

/// Modules `first` to before `end` of a sequence of `count`: `blocks.0`, `blocks.1` and so on of `blocks`.
struct SequencePart {
  std::string_view path;
  std::int64_t first, end, count;
  bool whole() const { return first == 0 && end == count; }
};

/// A function from facts to holders. What it carries from step to step is its state, which a checkpoint holds.
class MemoryPolicy {
 public:
  virtual ~MemoryPolicy() = default;
  virtual std::string_view name() const = 0;
  /// Asked once a tensor that somebody needs, parameters apart. `derive` is for can_rematerialize ones, `mask` for
  /// needs of a sign, `code` for needs of a value.
  virtual Decision decide(const SavedTensorInfo& facts) = 0;
  /// Whether `settle` may answer `code`: then what is derived, or read in place of a sign, may be approximate.
  virtual bool quantizes() const { return false; }
  /// Whether the module at `path` runs again in backward and saves nothing but its input. `within`: the region that
  /// runs again at the moment and has the module in it; empty in forward.
  virtual bool recomputes(std::string_view path, std::string_view within);
  /// How many of the modules of `part` of a sequence, from its first on, run again in backward as one region, so that
  /// only the first one's input is saved; 0: none do.
  virtual std::int64_t recomputes_together(const SequencePart& part, std::string_view within);
  /// Told before a pass whether it is the first of its step. In another, gradients of those before it are held, and
  /// what is due to be measured waits for the next step. Whoever does not tell has a pass a step.
  virtual void begin_pass(bool /*first_of_step*/) {}
  /// Whether the next pass is one that measures. If so, a pass over part of the batch may go before it (a trial, see
  /// `Tape::set_trial`, then `end_study`): what is to be measured is measured there, with less memory than in a whole
  /// pass, which then is one like the others.
  virtual bool begin_study() { return false; }
  /// Where backward is to note how sensitive the gradient is to the codes, or null. Asked once a pass.
  virtual SensitivityRecord* sensitivity_record() { return nullptr; }
  /// What is to be measured by further passes over the batch before the next one, or null. Whoever does not ask has it
  /// measured in backward.
  virtual DrawStudy* draw_study() { return nullptr; }
  /// What was to be measured has been.
  virtual void end_study() {}
  /// After how many passes at least it measures again how to hold the next, the first being one that measures; 0:
  /// never.
  virtual std::int64_t measures_every() const { return 0; }
  /// A backward pass is over.
  virtual void end_pass() {}
  /// What was asked for and has applied to nothing so far, a line each.
  virtual std::vector<std::string> unmatched() const { return {}; }

  /// What the next step depends on, by name: tensors on the host.
  virtual std::map<std::string, Tensor> state() const { return {}; }
  /// Refuses, and changes nothing, where that is not a state that `state` could have given.
  virtual void set_state(const std::map<std::string, Tensor>& state);
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
