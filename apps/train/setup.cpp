#include "apps/train/setup.h"

#include "apps/config/model_folder.h"
#include "apps/config/model_options.h"
#include "apps/config/resolve.h"
#include "apps/train/nonfinite.h"
#include "apps/train/offload.h"
#include "apps/train/run_folder.h"
#include "autograd/policies/planned.h"
#include "autograd/tape.h"
#include "core/parallel.h"
#include "data/class_sampler.h"
#include "data/tensor_dataset.h"
#include "models/folders/folder.h"
#include "models/folders/transformers.h"
#include "models/tasks/class_targets.h"
#include "nn/norm.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>

namespace lacuna::apps {

namespace {

struct OpenedWeights {
  std::optional<ModelFolder> folder;
  FolderWeights weights;
};
/// A checkpoint that the run, which may be training on, removes meanwhile is looked for again.
OpenedWeights open_weights(const std::filesystem::path& from) {
  constexpr int attempts = 20;
  for (int attempt = 1;; ++attempt) {
    const std::filesystem::path path = weights_path(from, "model.from");
    try {
      const std::optional<ModelFolder> folder = read_model_folder(path);
      return {folder, lacuna::open_weights(path, folder)};
    } catch (const Error&) {
      std::error_code ignored;
      if (std::filesystem::exists(path, ignored) || attempt == attempts) throw;
    }
  }
}

/// The first number whose label is another in the folder than in the data set, where both have the same labels.
std::optional<std::size_t> misplaced_label(const std::vector<std::string>& folder,
                                           const std::vector<std::string>& data) {
  if (folder.size() != data.size() || !std::ranges::is_permutation(folder, data)) return {};
  const auto differs = std::ranges::mismatch(folder, data).in1;
  if (differs == folder.end()) return {};
  return static_cast<std::size_t>(differs - folder.begin());
}

/// The folder that `key` names, of a run one of its checkpoints.
std::filesystem::path folder_of(const std::filesystem::path& from, std::string_view key) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const CheckpointPath point = checkpoint_path(from);
  if (fs::is_regular_file(point.run / "config.yaml", ignored) && fs::is_directory(point.run / "checkpoints", ignored)) {
    if (point.checkpoint.empty())
      reject("{1}: {0} is a run; its weights are those of {0}/last or {0}/best", from.string(), key);
    return RunFolder::open(point.run).checkpoint(point.checkpoint);
  }
  return point.checkpoint.empty() ? point.run : from;  // perhaps a checkpoint that was copied out of its run
}

/// Adapters as the configuration says, on top of loaded weights.
LoadedAdapter adapt(const Experiment& experiment, Model& model, bool new_head) {
  const Configuration::Adapter& adapter = experiment.adapter;
  const std::vector<std::string> all{"all-linear"};
  const std::string& from = experiment.weights;
  const std::string base = from.empty() ? from : std::filesystem::absolute(from).lexically_normal().string();
  if (adapter.from.empty()) {
    add_adapters(model, {.kind = adapter.name,
                         .settings = adapter.options,
                         .targets = adapter.targets.empty() ? all : adapter.targets,
                         .base = base});
    return {};
  }
  const std::filesystem::path path = folder_of(adapter.from, "adapter.from");
  const AdapterFolder folder(is_adapter_folder(path / average_folder) ? path / average_folder : path,
                             tensor_names_of(experiment.architecture.family));
  AdapterOptions options = folder.options(model, adapter.name == "none" ? "" : adapter.name);
  options.base = base;
  for (const auto& [name, value] : adapter.options) options.settings.insert_or_assign(name, value);
  add_adapters(model, options);
  return model.context().device == Device::meta ? folder.check(model, new_head) : folder.load(model, new_head);
}

/// Into `made`, the weights of model.from.
void load_base(const Experiment& experiment, bool new_head, MadeModel& made) {
  OpenedWeights opened = open_weights(experiment.weights);
  const WeightFiles& file = opened.weights.files;
  LoadOptions& options = opened.weights.options;
  options.new_head = new_head;
  const bool planned = made.model->context().device == Device::meta;
  made.weights = planned ? check_weights(*made.model, file, options) : load_weights(*made.model, file, options);
  made.file = file.path();
  const LoadedWeights& loaded = made.weights;
  if (!loaded.prefix.empty()) made.notes.push_back(fmt::format("names without `{}`", loaded.prefix));
  made.notes.insert(made.notes.end(), loaded.adapted.begin(), loaded.adapted.end());
  if (!loaded.left_out.empty()) made.notes.push_back(fmt::format("left out: {}", fmt::join(loaded.left_out, ", ")));
  if (!opened.folder) return;
  made.notes.insert(made.notes.end(), opened.folder->notes.begin(), opened.folder->notes.end());
  const std::vector<std::string>& labels = experiment.samples.classes;
  if (const auto number = misplaced_label(opened.folder->labels, labels); number && !loaded.new_head) {
    const std::string difference =
        fmt::format("label {} is {} in {}, and {} in the data set {}", *number, opened.folder->labels[*number],
                    opened.folder->config.string(), labels[*number], experiment.data.name);
    if (!new_head) reject("{}: its classes have another order", difference);
    made.notes.push_back(difference);
  }
}

}  // namespace

MadeModel make_model(const Experiment& experiment, Device device, bool new_head) {
  const Configuration::Train& train = experiment.train;
  MadeModel made;
  const DType type = precision_type(train.precision, device);
  if (device == Device::meta) made.model = std::move(*experiment.checked);
  if (!made.model || made.model->context().dtype != type)
    made.model = experiment.architecture.build(
        {.device = device, .seed = static_cast<std::uint64_t>(train.seed), .dtype = type});
  // A head that the adapter brings takes the place of one for other classes.
  if (!experiment.weights.empty()) load_base(experiment, new_head || !experiment.adapter.from.empty(), made);
  if (experiment.adapter.used()) made.adapter = adapt(experiment, *made.model, new_head);
  return made;
}

std::unique_ptr<Model> make_adapted_model(const std::filesystem::path& folder, const ModelFolder& described,
                                          DType dtype, Device device) {
  namespace fs = std::filesystem;
  const fs::path average = folder / average_folder;
  const AdapterFolder adapter(is_adapter_folder(average) ? average : folder,
                              tensor_names_of(describe_model(described.model, described.hyper_parameters).family));
  std::error_code ignored;
  const std::map<std::string, std::string> trained = fs::exists(folder / manifest_file, ignored)
                                                         ? read_progress(folder).identity
                                                         : std::map<std::string, std::string>();
  const auto seed = trained.find("train.seed"), hash = trained.find("weights of model.from");
  std::unique_ptr<Model> model =
      build_model(described.model, described.hyper_parameters,
                  {.device = device, .seed = seed == trained.end() ? 1 : std::stoull(seed->second), .dtype = dtype});
  const fs::path base = adapter.base();
  if (base.empty() && seed == trained.end())
    reject("{}: expected the folder of the base in `base_model_name_or_path`, got none", adapter.path().string());
  if (!base.empty()) {
    if (!fs::exists(base, ignored))
      reject("{} is an adapter of the weights in {}, which does not exist (any more)", folder.string(), base.string());
    const OpenedWeights opened = open_weights(base);
    LoadOptions options = opened.weights.options;
    options.new_head = true;
    load_weights(*model, opened.weights.files, options);
  }
  AdapterOptions options = adapter.options(*model);
  options.base = base.string();
  add_adapters(*model, options);
  if (hash != trained.end() && model->adaptation()->base_hash != hash->second)
    reject("{}: the weights in {} are not those that the adapter was trained on", folder.string(), base.string());
  adapter.load(*model);
  return model;
}

void take_weights_of(const std::filesystem::path& checkpoint, Experiment& experiment) {
  if (is_adapter_folder(checkpoint))
    experiment.adapter = {.name = experiment.adapter.name, .from = checkpoint.string(), .targets = {}, .options = {}};
  else
    experiment.weights = checkpoint.string();
}

std::filesystem::path weights_path(const std::filesystem::path& from, std::string_view key) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path path = folder_of(from, key);
  if (!fs::is_directory(path, ignored)) return path;
  if (is_adapter_folder(path))
    reject("{}: {} holds an adapter: expected the weights that it belongs to, and adapter.from={} beside them", key,
           path.string(), from.string());
  // The average is what the checkpoint was evaluated by.
  for (const std::string_view average : {average_file, former_average_file})
    if (fs::exists(path / average, ignored)) return path / average;
  return path;
}

std::unique_ptr<RuledPolicy> make_memory_policy(const Experiment& experiment, Device device) {
  const Configuration::Memory& memory = experiment.memory;
  std::shared_ptr<OffloadStore> store;
  if (!experiment.plan || experiment.plan->offloads()) store = make_store(memory, device);
  std::unique_ptr<RuledPolicy> policy =
      experiment.plan ? with_rules(std::make_unique<PlannedPolicy>(*experiment.plan, memory.policy, store.get()), {})
                      : with_rules(make_policy(memory.policy, memory.options), memory.rules, memory.recompute);
  policy->set_store(std::move(store), !experiment.plan);
  return policy;
}

void refuse_unmatched(const RuledPolicy& policy) {
  std::vector<std::string> lines = policy.unmatched();
  if (const auto* const planned = dynamic_cast<const PlannedPolicy*>(&policy.base())) lines = planned->unmatched();
  if (!lines.empty()) reject("{}", fmt::join(lines, "\n"));
}

std::unique_ptr<Task> make_task(const Experiment& experiment, const Model& model) {
  OptionValues options = experiment.task.options;
  // Synthetic batches have no class counts, so use uniform weights.
  if (const auto found = options.find("class_weights"); found != options.end() && found->second == Tree("balanced"))
    found->second =
        fmt::format("{}", fmt::join(std::vector<int>(static_cast<std::size_t>(model.num_classes()), 1), ","));
  for (const Field& field : tasks().get(experiment.task.name).options.fields())
    if (const auto found = options.find(field.name); field.path == PathKind::path && found != options.end()) {
      std::string& from = found->second.text;
      if (!from.empty()) from = weights_path(from, fmt::format("task.{}", field.name)).string();
    }
  std::unique_ptr<Task> task = lacuna::make_task(experiment.task.name, options, model);
  DatasetInfo data = experiment.samples;
  if (const TransformOptions& given = experiment.data.images; !given.mean.empty()) {
    data.mean.assign(given.mean.begin(), given.mean.end());
    data.deviation.assign(given.deviation.begin(), given.deviation.end());
  }
  task->see(data);
  return task;
}

void count_class_weights(const Dataset& samples, Experiment& experiment) {
  const auto found = experiment.task.options.find("class_weights");
  if (found == experiment.task.options.end() || found->second != Tree("balanced")) return;
  found->second = balanced_weights(count_classes(samples, experiment.model.num_classes));
}

namespace {

std::optional<LossScaleSettings> loss_scale_of(const Configuration::Train& train) {
  if (train.precision != "f16") return {};
  return LossScaleSettings{.initial = train.init_scale, .growth_interval = train.growth_interval};
}

}  // namespace

Setup::Setup(const Experiment& experiment, Device device, Communicator& ranks)
    : ranks_(ranks),
      threads_(static_cast<int>(experiment.train.threads)),
      tf32_(experiment.train.precision == "tf32"),
      policy_(make_memory_policy(experiment, device)),
      step_options_{
          .clipping = {.norm = experiment.train.clip_norm,
                       .parameter_norm = experiment.train.clip_parameter_norm,
                       .value = experiment.train.clip_value},
          .in_backward = experiment.optimizer.in_backward,
          .seed = static_cast<std::uint64_t>(experiment.train.seed),
          .exchange = {.sent = experiment.ranks.exchange == "bf16" ? std::optional(DType::bf16) : std::nullopt},
          .input_gradients = experiment.image_gradient,
          .graph = experiment.train.graph && experiment.memory.budget.empty()} {
  MadeModel made = make_model(experiment, device, true);
  model_ = std::move(made.model);
  loaded_weights_ = std::move(made.weights);
  weights_notes_ = std::move(made.notes);
  loaded_adapter_ = made.adapter;
  weights_file_ = std::move(made.file);
  const Configuration::Optimizer& optimizer = experiment.optimizer;
  std::vector<GroupRule> rules = optimizer.groups;
  if (const TaskKind& kind = tasks().get(experiment.task.name); kind.heads) {
    classifier_ = std::move(model_);
    for (Parameter* const parameter : classifier_->parameters()) parameter->set_trainable(false);
    std::unique_ptr<ProbeHeads> heads =
        kind.heads(read_options(fmt::format("task {}", experiment.task.name), kind.options, experiment.task.options),
                   *classifier_);
    rules = heads->rate_rules();
    heads_ = heads.get();
    model_ = std::move(heads);
  }
  task_ = make_task(experiment, *model_);
  if (model_->adaptation())
    freeze_matches_ = freeze_below_adapters(*model_, experiment.freeze);
  else if (!experiment.freeze.train.empty() || !experiment.freeze.freeze.empty())
    freeze_matches_ = freeze(*model_, experiment.freeze, model_->heads());
  const Configuration::Ranks& shared = experiment.ranks;
  const bool shards = shared.shard != "none";
  step_options_.shard_gradients = shared.shard == "gradients";
  step_options_.exchange.in_8_bits = shared.exchange == "int8";
  optimizer_ = make_optimizer(optimizer.name, optimizer.options, *model_,
                              {.precision = state_precision(optimizer.state),
                               .seed = step_options_.seed,
                               .groups = {.rules = rules, .layer_decay = optimizer.layer_decay},
                               .rank = shards ? experiment.process.rank : 0,
                               .ranks = shards ? experiment.process.ranks : 1,
                               .loss_scale = loss_scale_of(experiment.train)});
  if (experiment.ranks.sync_batch_norm)
    for (Module* const module : model_->modules())
      if (auto* const norm = dynamic_cast<nn::BatchNorm2d*>(module)) norm->synchronize(ranks_);
  if (optimizer.gradients == "bf16")
    for (Parameter* parameter : model_->parameters()) parameter->set_gradient_type(DType::bf16);
  if (const double decay = experiment.train.ema_decay; decay > 0) {
    const AverageWarmup warmup = experiment.train.ema_warmup;
    average_ = shards ? std::make_unique<WeightAverage>(*model_, *optimizer_, ranks_, decay, warmup)
                      : std::make_unique<WeightAverage>(*model_, decay, warmup);
  }
  if (heads_ != nullptr && device == Device::meta && device_of(experiment).kind != DeviceKind::cuda)
    for (const Split split : {Split::train, Split::validation})
      planned_features_.push_back(
          allocate_features(describe_dataset(experiment.data.name, dataset_options(experiment, split)).size));
}

NamedTensors Setup::allocate_features(std::int64_t samples) const {
  SampleFields fields = model_->inputs();
  for (const SampleField& target : task_->targets()) fields.push_back(target);
  const Device device = model_->context().device;  // what the loader reads lies on the host
  return allocate_samples(fields, samples, device.kind == DeviceKind::cuda ? Device::cpu : device, "features");
}

std::int64_t Setup::planned_features() const {
  std::int64_t bytes = 0;
  for (const NamedTensors& split : planned_features_)
    for (const auto& [name, tensor] : split) bytes += tensor.bytes();
  return bytes;
}

void Setup::set_policy(std::unique_ptr<RuledPolicy> policy) { policy_ = std::move(policy); }

std::int64_t Setup::trainable_count() const {
  std::int64_t count = 0;
  for (const Parameter* parameter : model_->parameters())
    if (parameter->trainable()) count += parameter->tensor().count();
  return count;
}

std::int64_t Setup::parameter_count() const {
  return model_->parameter_count() + (classifier_ ? classifier_->parameter_count() : 0);
}

}  // namespace lacuna::apps
