// Optimizers: what turns gradients into new parameters, in one pass and without memory of its own beyond its state.
#pragma once

#include "core/registry.h"
#include "core/settings.h"
#include "nn/module.h"
#include "optim/formulas.h"
#include "optim/state.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lacuna {

/// Parameters that are updated alike.
struct ParameterGroup {
  std::vector<Parameter*> parameters;
  double lr_scale = 1;  // times the step's learning rate
  double weight_decay = 0;
};

/// Parameters whose paths match a pattern (core/glob.h), with what differs for them.
struct GroupRule {
  std::string pattern;
  std::optional<double> lr_scale, weight_decay;
};

/// How a model's parameters differ in rate and decay.
struct GroupRules {
  double weight_decay = 0;
  /// Whether norms, biases and what else the model excludes from decay (Parameter::excluded_from_decay) decays too.
  bool decay_norm_and_bias = true;
  std::vector<GroupRule> rules{};  // the first that matches a path holds, also against the two above
  /// Each layer's rate is this times the next one's: timm's param_groups_layer_decay (Clark et al. 2020, section 3.2).
  /// 1: all learn alike.
  double layer_decay = 1;
};
/// All parameters of a model. Rejects rules that match nothing.
std::vector<ParameterGroup> parameter_groups(const Module& model, const GroupRules& rules);

/// What an optimizer is made for.
struct Trained {
  std::vector<ParameterGroup> groups;
  StatePrecision precision = StatePrecision::f32;
  std::uint64_t seed = 1;  // of the draws with which states are rounded
};

/// The arguments of one pass over one parameter.
struct Update {
  const Tensor& parameter;                // f32
  const Tensor& gradient;                 // f32 or bf16, in the parameter's shape
  std::span<const OptimizerState> state;  // as the kinds
  std::int64_t step;                      // of this parameter, from 1
  double lr;
  double weight_decay;
  formula::CountedGradient counted;
  std::uint64_t key;  // of the draws with which states are rounded; that of state k is key + k
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Whether a parameter's update is as large however large its gradients are: Adam divides by them, Lion takes signs.
  virtual bool is_scale_invariant() const = 0;

  /// Updates every trainable parameter that has a gradient, in place.
  void step(double lr, formula::CountedGradient counted = {});
  /// The same for one parameter: nothing happens to one that is frozen or has no gradient. Nothing is allocated, but
  /// for the state of a parameter that was thawed just now.
  void update(const Parameter& parameter, double lr, formula::CountedGradient counted = {});
  /// Releases the gradients.
  void zero_grad();

  /// What a checkpoint holds beside the parameters, group by group.
  struct StateTensor {
    std::string name;  // the parameter's path, a dot, and torch.optim's name: `head.weight.exp_avg`
    Tensor tensor;     // see OptimizerState; or `step`: i64 [1] on the host
  };
  std::vector<StateTensor> state() const;

 protected:
  /// Allocates zeros for each trainable parameter and each kind of state; a parameter that is thawed later gets its
  /// state at its first update.
  Optimizer(const Trained& trained, std::vector<StateKind> kinds);

  /// One pass over one parameter.
  virtual void update(const Update& what) const = 0;

 private:
  struct Entry {
    Parameter* parameter;
    double lr_scale;
    double weight_decay;
    std::vector<OptimizerState> state;  // as the kinds; empty while the parameter is frozen
    Tensor step;                        // i64 [1] on the host: how often the parameter was updated
  };
  void allocate_state(Entry& entry) const;
  void update(Entry& entry, double lr, formula::CountedGradient counted) const;

  StatePrecision precision_;
  std::uint64_t seed_;
  std::vector<StateKind> kinds_;
  std::vector<Entry> entries_;
  std::unordered_map<const Parameter*, std::size_t> index_;
};

/// An optimizer by name. `settings` includes `weight_decay` and `decay_norm_and_bias`.
struct OptimizerKind {
  std::vector<Setting> settings;
  std::function<std::unique_ptr<Optimizer>(const Settings&, const Trained&)> make;
};
Registry<OptimizerKind>& optimizers();

/// What holds for any optimizer.
struct OptimizerOptions {
  StatePrecision precision = StatePrecision::f32;
  std::uint64_t seed = 1;
  GroupRules groups{};  // the decays are set from the optimizer's settings
};
/// The optimizer `name` for all parameters of `model`; rejects unknown names and settings, and rules that match
/// nothing.
std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const SettingValues& settings, const Module& model,
                                          const OptimizerOptions& options = {});

/// Registers a class with `name`, a default `weight_decay`, a table `settings` of what else it can be told, and a
/// constructor from (Settings, Trained).
template <class Concrete>
struct RegisterOptimizer {
  RegisterOptimizer() {
    std::vector<Setting> settings{
        {"weight_decay", Concrete::weight_decay, not_negative, "pull of the parameters towards zero"},
        {"decay_norm_and_bias", true, {}, "whether norms, biases, class token and positions decay too"}};
    for (const Setting& setting : Concrete::settings()) settings.push_back(setting);
    optimizers().add(Concrete::name, {std::move(settings), [](const Settings& given, const Trained& trained) {
                                        return std::make_unique<Concrete>(given, trained);
                                      }});
  }
};

}  // namespace lacuna
