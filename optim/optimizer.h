// Optimizers: what turns gradients into new parameters, in one pass and without memory of its own beyond its state.
#pragma once

#include "core/registry.h"
#include "core/settings.h"
#include "nn/module.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// Parameters that are updated alike.
struct ParameterGroup {
  std::vector<Parameter*> parameters;
  double lr_scale = 1;  // times the step's learning rate
  double weight_decay = 0;
};

/// All parameters of a model. With `decay_norm_and_bias` false, norms, biases and what else the model
/// excludes from decay stand in a group without it.
std::vector<ParameterGroup> parameter_groups(const Module& model, double weight_decay, bool decay_norm_and_bias);

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every trainable parameter that has a gradient, in place. Each gradient counts `gradient_factor` times:
  /// the mean over accumulated micro-batches and clipping need no pass of their own.
  void step(double lr, double gradient_factor = 1);
  /// Releases the gradients.
  void zero_grad();

  /// What a checkpoint holds beside the parameters, in the order of the parameters.
  struct StateTensor {
    std::string name;  // the parameter's path, a dot, and torch.optim's name: `head.weight.exp_avg`
    Tensor tensor;     // f32, in the parameter's shape; or `step`: i64 [1] on the host
  };
  std::vector<StateTensor> state() const;

 protected:
  /// Allocates zeros for each trainable parameter and each name of a state; a parameter that is thawed later gets its
  /// state at its first update.
  Optimizer(std::vector<ParameterGroup> groups, std::vector<std::string_view> state_names);

  /// All tensors f32, in the parameter's shape.
  struct Update {
    const Tensor& parameter;
    const Tensor& gradient;
    std::span<const Tensor> state;  // as the names
    std::int64_t step;              // of this parameter, from 1
    double lr;
    double weight_decay;
    double gradient_factor;
  };
  /// One pass over one parameter.
  virtual void update(const Update& what) const = 0;

 private:
  struct Entry {
    Parameter* parameter;
    double lr_scale;
    double weight_decay;
    std::vector<Tensor> state;  // as the names; empty while the parameter is frozen
    Tensor step;                // i64 [1] on the host: how often the parameter was updated
  };
  void allocate_state(Entry& entry) const;

  std::vector<std::string_view> state_names_;
  std::vector<Entry> entries_;
};

/// An optimizer by name. `settings` includes `weight_decay` and `decay_norm_and_bias`.
struct OptimizerKind {
  std::vector<Setting> settings;
  std::function<std::unique_ptr<Optimizer>(const Settings&, std::vector<ParameterGroup>)> make;
};
Registry<OptimizerKind>& optimizers();

/// The optimizer `name` for all parameters of `model`; rejects unknown names and settings.
std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const SettingValues& settings, const Module& model);

/// Registers a class with `name`, a default `weight_decay`, a table `settings` of what else it can be told, and a
/// constructor from (Settings, groups).
template <class Concrete>
struct RegisterOptimizer {
  RegisterOptimizer() {
    std::vector<Setting> settings{
        {"weight_decay", Concrete::weight_decay, not_negative, "pull of the parameters towards zero"},
        {"decay_norm_and_bias", true, {}, "whether norms, biases, class token and positions decay too"}};
    for (const Setting& setting : Concrete::settings()) settings.push_back(setting);
    optimizers().add(Concrete::name,
                     {std::move(settings), [](const Settings& given, std::vector<ParameterGroup> groups) {
                        return std::make_unique<Concrete>(given, std::move(groups));
                      }});
  }
};

}  // namespace lacuna
