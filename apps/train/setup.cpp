#include "apps/train/setup.h"

#include "apps/config/model_folder.h"
#include "apps/config/model_options.h"
#include "apps/config/paths.h"
#include "apps/config/resolve.h"
#include "apps/train/nonfinite.h"
#include "apps/train/offload.h"
#include "apps/train/run_folder.h"
#include "autograd/policies/planned.h"
#include "autograd/tape.h"
#include "core/parallel.h"
#include "data/class_names.h"
#include "data/class_sampler.h"
#include "data/tensor_dataset.h"
#include "models/folders/folder.h"
#include "models/folders/transformers.h"
#include "models/tasks/class_targets.h"
#include "nn/norm.h"
#include "nn/weight_formats.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <sstream>

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
    if (std::error_code ignored; attempt == attempts && !std::filesystem::exists(path, ignored))
      reject("model.from: {}; model.from=FOLDER names where the weights are now", missing_text(from.string()));
    try {
      const std::optional<ModelFolder> folder = read_model_folder(path);
      return {folder, lacuna::open_weights(path, folder)};
    } catch (const Error&) {
      std::error_code ignored;
      if (std::filesystem::exists(path, ignored)) throw;
    }
  }
}

/// Whether a folder's head is for other classes than the data's, which only training may go on from. Adds a note where
/// names do not decide that.
bool is_for_other_classes(const ModelFolder& folder, const Experiment& experiment, const Model& model, bool training,
                          std::vector<std::string>* notes) {
  const std::vector<std::string>& classes = experiment.samples.classes;
  const std::int64_t count = model.num_classes();
  if (model.heads().empty() || count != std::ssize(classes) || folder.label_offset > 0) return false;
  const auto stored = folder.labels.empty() ? count : std::ssize(folder.labels);
  const std::optional<JoinedClasses> joined = join_classes(folder.labels, stored, classes);
  const bool same = joined && joined->is_same(count);
  if (!same && !training)
    reject("{}: expected data with the model's classes in their order: {}; data.labels names them in their order",
           folder.config.string(), both_lists(folder.labels, classes));
  if (notes == nullptr || stored != count) return !same;
  if (!same) notes->push_back(fmt::format("the classifier starts anew: {}", both_lists(folder.labels, classes)));
  if (same && joined->by_place)
    notes->push_back(fmt::format("classes are joined by number, since names are on one side alone: {}",
                                 both_lists(folder.labels, classes)));
  return !same;
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

/// Into `options` of the folder adapter.from, the configuration's. Only dropout may differ: the others give the stored
/// values their meaning.
void take_settings(const Configuration::Adapter& adapter, const Model& model, AdapterOptions& options) {
  const nn::AdapterKind& kind = nn::adapters().get(options.kind);
  const std::string owner = "adapter " + options.kind;
  const Options theirs = read_options(owner, kind.options, options.settings),
                given = read_options(owner, kind.options, adapter.options);
  for (const auto& [name, value] : adapter.options) {
    const Field& field = *kind.options.find(name);
    const Tree said = theirs.write(field);
    if (name != "dropout" && given.write(field) != said)
      reject("adapter.{0} is {1}, but {2} in the folder that adapter.from names: leave adapter.{0} out", name,
             to_yaml(value), to_yaml(said));
    options.settings.insert_or_assign(name, value);
    for (auto& [path, own] : options.layer_settings)
      if (name == "dropout") own.insert_or_assign(name, value);
  }
  if (adapter.targets.empty()) return;
  const std::set<std::string> stored(options.targets.begin(), options.targets.end());
  if (target_paths(model, adapter.targets) != stored)
    reject(
        "adapter.targets: the folder that adapter.from names has other layers ({} of them, the first {}): leave "
        "adapter.targets out",
        stored.size(), *stored.begin());
}

std::map<std::string, std::string> identity_of(const std::filesystem::path& checkpoint) {
  std::error_code ignored;
  if (!std::filesystem::exists(checkpoint / manifest_file, ignored)) return {};
  return read_progress(checkpoint).identity;
}

/// The rules of freeze.weights that a checkpoint was trained with, joined by blanks.
std::string types_of(const std::map<std::string, std::string>& identity) {
  const auto found = identity.find(weight_types_key);
  return found == identity.end() ? std::string() : found->second;
}
std::string_view in_words(const std::string& types) {
  return types.empty() ? "the types of its folder" : std::string_view(types);
}

/// Adapters as the configuration says, on top of loaded weights.
LoadedAdapter adapt(const Experiment& experiment, Model& model, bool new_head, std::vector<std::string>& notes) {
  const Configuration::Adapter& adapter = experiment.adapter;
  const std::string& from = experiment.weights;
  const std::string base = from.empty() ? from : std::filesystem::absolute(from).lexically_normal().string();
  if (adapter.from.empty()) {
    add_adapters(model, {.kind = adapter.name, .settings = adapter.options, .targets = adapter.targets, .base = base});
    return {};
  }
  const std::filesystem::path path = folder_of(adapter.from, "adapter.from");
  const AdapterFolder folder(is_adapter_folder(path / average_folder) ? path / average_folder : path,
                             tensor_names_of(experiment.architecture.family));
  const std::map<std::string, std::string> trained = identity_of(path);
  const std::string then = types_of(trained), now = fmt::format("{}", fmt::join(experiment.freeze.weights, " "));
  if (!trained.empty() && then != now)
    notes.push_back(
        fmt::format("the adapter was trained on weights in {}, here they are in {}", in_words(then), in_words(now)));
  AdapterOptions options = folder.options(model, adapter.name == "none" ? "" : adapter.name);
  options.base = base;
  take_settings(adapter, model, options);
  add_adapters(model, options);
  const std::optional<ModelFolder> described = read_model_folder(path);
  const bool other = described && is_for_other_classes(*described, experiment, model, new_head, &notes);
  const AdapterFolder::Head head = other      ? AdapterFolder::Head::kept
                                   : new_head ? AdapterFolder::Head::kept_for_other_shapes
                                              : AdapterFolder::Head::loaded;
  return model.context().device == Device::meta ? folder.check(model, head) : folder.load(model, head);
}

/// Into `made`, the weights of model.from.
void load_base(const Experiment& experiment, bool new_head, MadeModel& made) {
  OpenedWeights opened = open_weights(experiment.weights);
  WeightFiles& file = opened.weights.files;
  if (const TensorNames* const names = made.model->backbone_names()) file.rename(*names);
  LoadOptions& options = opened.weights.options;
  // A head that the adapter brings takes the place of one for other classes.
  const bool brought = !experiment.adapter.from.empty();
  options.new_head = new_head || brought;
  // The classes of a folder whose model is the backbone here are not the model's.
  const bool of_whole =
      opened.folder && describe_model(opened.folder->model, {}).family == experiment.architecture.family;
  options.other_classes = of_whole && is_for_other_classes(*opened.folder, experiment, *made.model, options.new_head,
                                                           brought ? nullptr : &made.notes);
  const bool planned = made.model->context().device == Device::meta;
  made.weights = planned ? check_weights(*made.model, file, options) : load_weights(*made.model, file, options);
  made.file = file.path();
  const LoadedWeights& loaded = made.weights;
  if (!loaded.part.empty())
    made.notes.push_back(fmt::format("they are those of `{}` alone, all else starts anew", loaded.part));
  if (!loaded.prefix.empty()) made.notes.push_back(fmt::format("names without `{}`", loaded.prefix));
  made.notes.insert(made.notes.end(), loaded.adapted.begin(), loaded.adapted.end());
  if (!loaded.left_out.empty()) made.notes.push_back(fmt::format("left out: {}", fmt::join(loaded.left_out, ", ")));
  if (!opened.folder) return;
  made.notes.insert(made.notes.end(), opened.folder->notes.begin(), opened.folder->notes.end());
}

void freeze_all(Model& model) {
  for (Parameter* const parameter : model.parameters()) parameter->set_trainable(false);
}

/// Marks the parameters that the adapter's folder holds itself: they stay f32.
void keep_replaced(Model& model, const LoadedAdapter& adapter) {
  for (Parameter* const parameter : model.parameters())
    if (adapter.names.contains(parameter->path())) parameter->set_trainable(true);
}

MadeModel make_with(const Experiment& experiment, Device device, bool new_head,
                    std::shared_ptr<const WeightFormats> formats) {
  const Configuration::Train& train = experiment.train;
  MadeModel made;
  const DType type = precision_type(train.precision, device);
  if (device == Device::meta && formats == nullptr) made.model = std::move(*experiment.checked);
  if (!made.model || made.model->context().dtype != type)
    made.model = experiment.architecture.build({.device = device,
                                                .seed = static_cast<std::uint64_t>(train.seed),
                                                .dtype = type,
                                                .formats = std::move(formats)});
  if (!experiment.weights.empty()) load_base(experiment, new_head, made);
  made.notes.insert(made.notes.end(), experiment.notes.begin(), experiment.notes.end());
  if (experiment.adapter.used()) made.adapter = adapt(experiment, *made.model, new_head, made.notes);
  return made;
}

/// Null where all are f32.
std::shared_ptr<const WeightFormats> shared(WeightFormats formats) {
  return formats.empty() ? nullptr : std::make_shared<const WeightFormats>(std::move(formats));
}

/// The formats of the weights, found on a model without values; null where all are f32. Frozen weights are stored as
/// freeze.weights says, or as the folder of model.from has them. A model that is only evaluated is frozen as a whole,
/// unless its run says what it froze.
std::shared_ptr<const WeightFormats> formats_of(const Experiment& experiment, bool trains) {
  const bool in_bf16 = trains && experiment.train.weights == "bf16";
  std::optional<OpenedWeights> base;
  if (!experiment.weights.empty()) base = open_weights(experiment.weights);
  const bool stored = base && base->weights.files.holds_coded();
  if (experiment.freeze.weights.empty() && !in_bf16 && !stored) return {};
  const MadeModel made = make_with(experiment, Device::meta, trains, {});
  const std::unique_ptr<Model>& model = made.model;
  const bool says = experiment.adapter.used() || !experiment.freeze.train.empty() || !experiment.freeze.freeze.empty();
  if (tasks().get(experiment.task.name).heads || (!trains && !says))
    freeze_all(*model);
  else
    freeze(experiment, *model);
  keep_replaced(*model, made.adapter);
  WeightFormats formats =
      weight_formats(*model, {experiment.freeze.weights},
                     stored ? stored_formats(*model, base->weights.files, base->weights.options) : WeightFormats());
  if (in_bf16) formats.merge(trained_formats(*model));
  return shared(std::move(formats));
}

}  // namespace

std::vector<FreezeMatch> freeze(const Experiment& experiment, Model& model) {
  if (model.adaptation()) return freeze_below_adapters(model, experiment.freeze);
  if (experiment.freeze.train.empty() && experiment.freeze.freeze.empty()) return {};
  return lacuna::freeze(model, experiment.freeze, model.heads());
}

MadeModel make_model(const Experiment& experiment, Device device, bool new_head) {
  return make_with(experiment, device, new_head, formats_of(experiment, new_head));
}

namespace {

/// The folder of an adapter's base, which must exist: `moved`, or the one that the adapter names.
std::filesystem::path base_of(const AdapterFolder& adapter, const std::filesystem::path& moved) {
  const std::filesystem::path base = moved.empty() ? std::filesystem::path(adapter.base()) : moved;
  if (base.empty()) reject("{}: expected the base in `base_model_name_or_path`, got none", adapter.path().string());
  std::error_code ignored;
  if (!std::filesystem::exists(base, ignored))
    reject(
        "{} is an adapter of the weights in {}, which does not exist (any more): --base=FOLDER of predict and export, "
        "model.from=FOLDER of eval and train name where they are now",
        adapter.path().string(), base.string());
  return base;
}

}  // namespace

ModelFolder describe_adapter(const std::filesystem::path& folder, const std::filesystem::path& moved) {
  const AdapterFolder stored(folder);
  const std::filesystem::path base = base_of(stored, moved);
  std::optional<ModelFolder> described = read_model_folder(weights_path(base, "base_model_name_or_path"));
  if (!described) reject("{}: expected a folder with a config.json, the base of {}", base.string(), folder.string());
  const auto replace = [&](const char* key, Tree value) {
    std::erase_if(described->hyper_parameters, [&](const HyperParameter& one) { return one.key == key; });
    described->hyper_parameters.push_back({key, std::move(value)});
  };
  const ModelDescription model = describe_model(described->model, described->hyper_parameters);
  const std::string_view head = head_of_peft_task(stored.task_type(), folder.string());
  if (!head.empty() && model.options.find("head") != nullptr) replace("head", std::string(head));
  const std::unique_ptr<Model> plain =
      build_model(described->model, described->hyper_parameters, {.device = Device::meta});
  const AdapterFolder adapter(folder, tensor_names_of(model.family));
  if (const std::int64_t outputs = adapter.head_outputs(*plain); outputs > 0 && outputs != plain->num_classes()) {
    replace("num_classes", outputs);
    described->labels.clear();
  }
  return std::move(*described);
}

void require_same_base(const std::filesystem::path& checkpoint, const Model& model,
                       const std::vector<std::string>& types) {
  const std::map<std::string, std::string> trained = identity_of(checkpoint);
  const auto hash = trained.find("weights of model.from");
  if (hash == trained.end() || !model.adaptation() || model.adaptation()->base_hash == hash->second) return;
  const std::string then = types_of(trained), now = fmt::format("{}", fmt::join(types, " "));
  if (then != now)
    reject("{}: the adapter was trained on weights in {}, and here they are in {}: leave freeze.weights out",
           checkpoint.string(), in_words(then), in_words(now));
  reject("{}: the weights in {} are not those that the adapter was trained on", checkpoint.string(),
         model.adaptation()->base);
}

std::unique_ptr<Model> make_adapted_model(const std::filesystem::path& folder, const ModelFolder& described,
                                          DType dtype, Device device, const std::filesystem::path& moved) {
  namespace fs = std::filesystem;
  const fs::path average = folder / average_folder;
  const AdapterFolder adapter(is_adapter_folder(average) ? average : folder,
                              tensor_names_of(describe_model(described.model, described.hyper_parameters).family));
  const std::map<std::string, std::string> trained = identity_of(folder);
  const auto seed = trained.find("train.seed");
  const bool of_run = seed != trained.end();
  const fs::path base = of_run && adapter.base().empty() ? fs::path() : base_of(adapter, moved);
  std::optional<OpenedWeights> opened;
  if (!base.empty()) opened = open_weights(base);
  std::istringstream words(types_of(trained));
  const std::vector<std::string> types(std::istream_iterator<std::string>(words), {});
  std::shared_ptr<const WeightFormats> formats;
  if (!types.empty() || (opened && opened->weights.files.holds_coded())) {
    const std::unique_ptr<Model> shape =
        build_model(described.model, described.hyper_parameters, {.device = Device::meta});
    add_adapters(*shape, adapter.options(*shape));
    const LoadedAdapter own = adapter.check(*shape);
    freeze_all(*shape);
    keep_replaced(*shape, own);
    formats = shared(weight_formats(
        *shape, {types},
        opened ? stored_formats(*shape, opened->weights.files, opened->weights.options) : WeightFormats()));
  }
  const auto made = [&](bool other_classes) {
    std::unique_ptr<Model> model = build_model(
        described.model, described.hyper_parameters,
        {.device = device, .seed = of_run ? std::stoull(seed->second) : 1, .dtype = dtype, .formats = formats});
    if (opened) {
      LoadOptions options = opened->weights.options;
      options.new_head = true;
      options.other_classes = other_classes;
      const LoadedWeights loaded = load_weights(*model, opened->weights.files, options);
      if (loaded.new_head && adapter.head_outputs(*model) == 0)
        reject("{}: expected the weights of the head {}, which {} lacks too", folder.string(),
               fmt::join(model->heads(), ", "), base.string());
    }
    AdapterOptions options = adapter.options(*model);
    options.base = base.string();
    add_adapters(*model, options);
    return model;
  };
  // The base's hash has its head in it, which the run has drawn anew for other classes.
  std::unique_ptr<Model> model = made(false);
  if (const auto hash = trained.find("weights of model.from");
      hash != trained.end() && model->adaptation()->base_hash != hash->second)
    model = made(true);
  require_same_base(folder, *model, types);
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

namespace {

/// Bytes that all tensors may take; 0: no limit but the device's.
std::int64_t budget_of_tensors(const Configuration::Memory& memory) {
  return memory.budget.empty() || memory.budget == whole_device || memory.budget_of != "peak"
             ? 0
             : parse_bytes(memory.budget);
}

}  // namespace

Setup::Setup(const Experiment& experiment, Device device, Communicator& ranks)
    : ranks_(ranks),
      threads_(static_cast<int>(experiment.train.threads)),
      tf32_(experiment.train.precision == "tf32"),
      policy_(make_memory_policy(experiment, device)),
      stored_(experiment.output.weights == "bf16" ? DType::bf16 : DType::f32),
      step_options_{
          .clipping = {.norm = experiment.train.clip_norm,
                       .parameter_norm = experiment.train.clip_parameter_norm,
                       .value = experiment.train.clip_value},
          .in_backward = experiment.optimizer.in_backward,
          .seed = static_cast<std::uint64_t>(experiment.train.seed),
          .exchange = {.sent = experiment.ranks.exchange == "bf16" ? std::optional(DType::bf16) : std::nullopt},
          .input_gradients = experiment.image_gradient,
          .graph = experiment.train.graph,
          .budget = budget_of_tensors(experiment.memory)} {
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
  if (heads_ == nullptr) freeze_matches_ = freeze(experiment, *model_);
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
                               .loss_scale = loss_scale_of(experiment.train),
                               .rounding = experiment.train.weight_rounding});
  if (experiment.ranks.sync_batch_norm) {
    if (device.kind == DeviceKind::cuda && ranks_.size() > 1) gpus_ = device_ranks(device, ranks_);
    for (Module* const module : model_->modules())
      if (auto* const norm = dynamic_cast<nn::BatchNorm2d*>(module)) norm->synchronize(gpus_ ? *gpus_ : ranks_);
  }
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
