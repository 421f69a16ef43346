// Everything that a run trains, built from a configuration: model, task, frozen parameters, optimizer, policy.
#pragma once

#include "apps/config/experiment.h"
#include "autograd/policies/rules.h"
#include "core/parallel.h"
#include "models/io/adapter_folder.h"
#include "models/io/weights.h"
#include "models/probe.h"
#include "models/trainer.h"
#include "ops/products/tf32.h"

#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna {
struct ModelFolder;
}

namespace lacuna::apps {

struct MadeModel {
  std::unique_ptr<Model> model{};
  LoadedWeights weights{};           // of `model.from`
  std::filesystem::path file{};      // that they are from; empty: none
  std::vector<std::string> notes{};  // changes made to the weights, and warnings, for people
  LoadedAdapter adapter{};           // of `adapter.from`
};

/// The file with the weights that `key` names: a file, a folder with one, or a checkpoint of a run, whose average of
/// the weights is taken where it has one, since it was evaluated by that.
std::filesystem::path weights_path(const std::filesystem::path& from, std::string_view key);

/// The model of a resolved configuration, with the weights of `model.from` where that is set. `new_head`: whether the
/// heads keep their initial values where the file has none, or others.
MadeModel make_model(const Experiment& experiment, Device device, bool new_head);

/// Freezes what the configuration says. Returns the matches of each pattern of `freeze:`.
std::vector<FreezeMatch> freeze(const Experiment& experiment, Model& model);

/// The description of a folder that PEFT has written, which names its base. `base`, where not empty, is where that lies
/// now.
ModelFolder describe_adapter(const std::filesystem::path& folder, const std::filesystem::path& base = {});

/// Refuses a base that is another one than the checkpoint's adapter was trained on, or stored in other `types` (rules
/// of freeze.weights).
void require_same_base(const std::filesystem::path& checkpoint, const Model& model,
                       const std::vector<std::string>& types);

/// The key beside a checkpoint's identity for the rules of freeze.weights, joined by blanks; empty: none.
inline const std::string weight_types_key = "freeze.weights";

/// The model of a folder with an adapter and a config.json, such as a checkpoint, whose description is `described`:
/// with the weights of the base that the adapter names, or of `base` where that is not empty, which must be those it
/// was trained on.
std::unique_ptr<Model> make_adapted_model(const std::filesystem::path& folder, const ModelFolder& described,
                                          DType dtype, Device device = Device::cpu,
                                          const std::filesystem::path& base = {});

/// Lets a configuration have the weights of a checkpoint, which are whole ones or, on top of model.from, an adapter.
void take_weights_of(const std::filesystem::path& checkpoint, Experiment& experiment);

/// The task of a configuration, for its model.
std::unique_ptr<Task> make_task(const Experiment& experiment, const Model& model);

/// Gives `task.class_weights: balanced` its numbers.
void count_class_weights(const Dataset& samples, Experiment& experiment);

class Setup {
 public:
  /// Builds everything on `device` and sets the number of threads. `ranks` train it together.
  Setup(const Experiment& experiment, Device device, Communicator& ranks = single_process());

  /// The module that the steps train: the model, or heads on its features.
  Model& model() { return *model_; }
  const Model& model() const { return *model_; }
  /// Null where the model itself is trained.
  const ProbeHeads* heads() const { return heads_; }
  /// The whole model.
  Model& classifier() { return classifier_ ? *classifier_ : *model_; }
  const Model& classifier() const { return classifier_ ? *classifier_ : *model_; }
  /// Memory for the features and targets of as many samples.
  NamedTensors allocate_features(std::int64_t samples) const;
  /// Bytes of the features of the whole data set, which are held on `meta`; 0 where there are none, or they lie beside
  /// a GPU in the host's memory.
  std::int64_t planned_features() const;
  const Task& task() const { return *task_; }
  Optimizer& optimizer() { return *optimizer_; }
  /// The running mean of the weights, which is evaluated in their place; null where none is kept.
  WeightAverage* average() { return average_.get(); }
  /// In place of the configuration's.
  void set_policy(std::unique_ptr<RuledPolicy> policy);
  RuledPolicy& policy() { return *policy_; }
  const RuledPolicy& policy() const { return *policy_; }
  /// The matches of each pattern of `freeze:`.
  const std::vector<FreezeMatch>& freeze_matches() const { return freeze_matches_; }
  const LoadedWeights& loaded_weights() const { return loaded_weights_; }
  const LoadedAdapter& loaded_adapter() const { return loaded_adapter_; }
  /// The file that the weights are from; empty: none.
  const std::filesystem::path& weights_file() const { return weights_file_; }
  const std::vector<std::string>& weights_notes() const { return weights_notes_; }
  std::int64_t trainable_count() const;
  /// The number of all parameters, with those of heads.
  std::int64_t parameter_count() const;
  /// The state that steps change.
  TrainedState state() { return state(*policy_); }

  /// How its steps are taken.
  const StepOptions& step_options() const { return step_options_; }
  /// Takes its steps, under its policy or another one.
  Trainer trainer() { return trainer(*policy_); }
  Trainer trainer(MemoryPolicy& policy) { return {state(policy), *task_, step_options_}; }

 private:
  TrainedState state(MemoryPolicy& policy) {
    return {*model_, *optimizer_, policy, average_.get(), {}, classifier_.get(), ranks_, stored_};
  }

  Communicator& ranks_;
  std::unique_ptr<Communicator> gpus_;  // of the same ranks, for layers on cuda that need them; may be null
  ThreadCountScope threads_;
  Tf32Scope tf32_;
  std::unique_ptr<RuledPolicy> policy_;
  std::unique_ptr<Model> model_, classifier_;  // the latter null where it is the former
  DType stored_;                               // of weights in checkpoints
  const ProbeHeads* heads_ = nullptr;          // `model_`, where it is heads
  std::vector<NamedTensors> planned_features_;
  std::unique_ptr<Task> task_;
  LoadedWeights loaded_weights_;
  LoadedAdapter loaded_adapter_;
  std::filesystem::path weights_file_;
  std::vector<std::string> weights_notes_;
  std::vector<FreezeMatch> freeze_matches_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<WeightAverage> average_;
  StepOptions step_options_;
};

/// The policy with its rules and regions; of `auto` the one that replays the plan. Its tensors are on `device`.
std::unique_ptr<RuledPolicy> make_memory_policy(const Experiment& experiment, Device device);

/// Refuses a policy whose rules, regions or planned tensors applied to nothing, after a forward pass of the whole
/// model.
void refuse_unmatched(const RuledPolicy& policy);

}  // namespace lacuna::apps
