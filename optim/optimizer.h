// Optimizers update parameters in one pass, in place; they allocate nothing but
// their state.
#pragma once

#include "core/registry.h"
#include "core/schema.h"
#include "nn/module.h"
#include "optim/loss_scale.h"
#include "optim/rate.h"
#include "optim/state.h"
#include "optim/weight_rounding.h"

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lacuna {

/// Parameters with one learning rate and weight decay.
struct ParameterGroup {
  std::vector<Parameter*> parameters;
  double lr_scale = 1;  // times the step's learning rate
  double weight_decay = 0;
};

/// Learning rate and decay of the parameters whose paths match a pattern
/// (core/glob.h).
struct GroupRule {
  std::string pattern;
  std::optional<double> lr_scale, weight_decay;

  static Fields fields();
  std::string problem() const;
};

/// How parameters are divided into groups.
struct GroupRules {
  double weight_decay = 0;
  /// Whether parameters that the model excludes from decay (norms, biases:
  /// Parameter::excluded_from_decay) decay too.
  bool decay_norm_and_bias = true;
  std::vector<GroupRule> rules{};  // the first that matches a path applies, and
                                   // overrides the two members above
  /// Learning rate of each layer relative to the next one: timm's
  /// param_groups_layer_decay (Clark et al. 2020, section 3.2). 1: the same
  /// rate for all layers.
  double layer_decay = 1;
};
/// Divides all parameters of a model. Rejects rules that match nothing.
std::vector<ParameterGroup> parameter_groups(const Module& model, const GroupRules& rules);

/// The matrices of a model's hidden layers: those between its embeddings, before the first block, and its head, behind
/// the last one. Convolutions, and parameters that are excluded from weight decay, are none.
std::set<const Parameter*> hidden_matrices(const Module& model);

struct OptimizerConfig {
  std::vector<ParameterGroup> groups;
  StatePrecision precision = StatePrecision::f32;
  std::uint64_t seed = 1;   // of the draws that round states
  int rank = 0, ranks = 1;  // state and updates are divided among so many
  std::optional<LossScaleSettings> loss_scale{};
  std::set<const Parameter*> hidden_matrices{};          // see the function
  WeightRounding rounding = WeightRounding::stochastic;  // of weights in bf16
};

/// How gradients count in an update. Scalars are tensors on the parameters'
/// device.
struct GradientClip {
  Tensor factor{};                                       // f32 []: times each gradient; undefined: 1
  float limit = std::numeric_limits<float>::infinity();  // of each element's magnitude,
                                                         // after the factor
  Tensor finite{};                                       // i32 []: if it is 0, nothing is updated; undefined: 1
  Tensor updates{};                                      // f64 []: number of updates; undefined: not counted
  Tensor rate{};                                         // f64 []: times each learning rate; undefined: 1
};

/// The arguments of one update of one parameter.
struct Update {
  const Tensor& parameter;     // f32, or bf16
  const Tensor& compensation;  // bf16: what rounding to bf16 lost of the parameter; undefined: nothing is kept
  const Tensor& gradient;      // f32 or bf16, in the parameter's shape
  std::span<const OptimizerState> state;  // one of each kind
  const Tensor& step;                     // i64 [1]: how often the parameter was updated before
  Rate rate;
  const GradientClip& clip;
  std::uint64_t seed;  // of the draws that round states and parameters
  std::uint32_t site;  // the parameter's, of the draws

  Update with_gradient(const Tensor& other) const {
    return {parameter, compensation, other, state, step, rate, clip, seed, site};
  }
  Update with_state(std::span<const OptimizerState> some) const {
    return {parameter, compensation, gradient, some, step, rate, clip, seed, site};
  }
};
/// The device of updates, of which there is at least one.
inline Device device_of(std::span<const Update> updates) { return updates.front().parameter.device(); }

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Whether the size of an update does not depend on the gradients' scale: Adam divides by it, Lion takes signs.
  virtual bool is_scale_invariant() const { return true; }

  /// Updates every trainable parameter that has a gradient, in place.
  void step(double lr, const GradientClip& clip = {});
  /// Updates these parameters. Those that are frozen, have no gradient, or belong to another rank are left out.
  void update(std::span<Parameter* const> parameters, double lr, const GradientClip& clip = {});
  /// Releases the gradients.
  void zero_grad();

  /// Whether each rank updates its own shard; the caller must then broadcast the updated parameters.
  bool is_sharded() const { return ranks_ > 1; }
  /// The rank that updates a parameter: shares are of similar size.
  int owner_of(const Parameter& parameter) const;
  bool holds(const Parameter& parameter) const { return owner_of(parameter) == rank_; }

  /// By which gradients are too large; null: they are as they count.
  const LossScale* loss_scale() const { return loss_scale_ ? &*loss_scale_ : nullptr; }

  /// The tensors that a checkpoint holds, group by group; the part of this rank.
  struct StateTensor {
    std::string name;  // the parameter's path, a dot, and torch.optim's name:
                       // `head.weight.exp_avg`
    Tensor tensor;     // see OptimizerState; or `step`: i64 [1]; or `compensation`: bf16, see WeightRounding
  };
  /// In place of a parameter's path, in the names of the loss scale: `loss_scale.scale`, `loss_scale.good_steps`.
  static constexpr std::string_view loss_scale_name = "loss_scale";
  std::vector<StateTensor> state() const;

 protected:
  using StateKinds = std::function<std::vector<StateKind>(const Parameter&)>;
  /// Allocates zeros for each trainable parameter and each kind of state that it has. The state of a parameter that is
  /// thawed later is allocated at its first update.
  Optimizer(const OptimizerConfig& config, StateKinds kinds);
  /// All parameters have the same kinds.
  Optimizer(const OptimizerConfig& config, std::vector<StateKind> kinds)
      : Optimizer(config, [kinds = std::move(kinds)](const Parameter&) { return kinds; }) {}

  /// Runs the kernel of some updates, at least one, which share clip and seed.
  virtual void update(std::span<const Update> updates) const = 0;

 private:
  struct Entry {
    Parameter* parameter;
    double lr_scale;
    double weight_decay;
    std::vector<OptimizerState> state;  // empty while the parameter is frozen
    Tensor step;                        // i64 [1]: how often the parameter was updated
    Tensor compensation;                // bf16: see Update
    int owner = 0;                      // the rank that updates it
  };
  void assign_owners();
  void allocate_state(Entry& entry) const;
  void update(std::span<Entry* const> entries, double lr, const GradientClip& clip) const;

  StatePrecision precision_;
  std::uint64_t seed_;
  int rank_, ranks_;
  WeightRounding rounding_;
  std::optional<LossScale> loss_scale_;
  StateKinds kinds_;
  std::vector<Entry> entries_;
  std::unordered_map<const Parameter*, std::size_t> index_;
};

/// Options of every optimizer.
struct DecayOptions {
  double weight_decay = 0;
  bool decay_norm_and_bias = true;

  static Fields fields();
};

/// An optimizer by name.
struct OptimizerKind {
  Options options;  // with their defaults
  const DecayOptions& (*decay)(const Options&);
  std::function<std::unique_ptr<Optimizer>(const Options&, const OptimizerConfig&)> make;
};
Registry<OptimizerKind>& optimizers();

/// How an optimizer works on a model.
struct OptimizerOptions {
  StatePrecision precision = StatePrecision::f32;
  std::uint64_t seed = 1;
  GroupRules groups{};  // make_optimizer sets the decays from the optimizer's options
  int rank = 0, ranks = 1;
  std::optional<LossScaleSettings> loss_scale{};         // of activations in f16; nothing: the loss is not scaled
  WeightRounding rounding = WeightRounding::stochastic;  // of weights in bf16
};
/// The optimizer `name` for all parameters of `model`. Rejects unknown names and options, and rules that match nothing.
std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const OptionValues& given, const Module& model,
                                          const OptimizerOptions& options = {});

/// Registers a class with `name`, its `defaults()`, which derive from DecayOptions, and a constructor from them and an
/// OptimizerConfig.
template <class Concrete>
struct RegisterOptimizer {
  RegisterOptimizer() {
    using Own = decltype(Concrete::defaults());
    optimizers().add(Concrete::name,
                     {Concrete::defaults(), [](const Options& given) -> const DecayOptions& { return given.as<Own>(); },
                      [](const Options& given, const OptimizerConfig& config) {
                        return std::make_unique<Concrete>(given.as<Own>(), config);
                      }});
  }
};

}  // namespace lacuna
