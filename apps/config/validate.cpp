#include "apps/config/validate.h"

#include "apps/config/model_options.h"
#include "apps/config/resolve.h"
#include "apps/config/schema.h"
#include "data/augment/augment.h"
#include "data/encoded_images.h"
#include "data/geometry.h"
#include "models/registry.h"
#include "models/task.h"
#include "models/trainer.h"
#include "nn/weight_formats.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

namespace lacuna::apps {
namespace {

/// Adds the message with which `attempt` is refused as a problem.
void note_refusal(const Location& where, Problems& problems, const auto& attempt) {
  try {
    attempt();
  } catch (const Error& error) {
    problems.add(where, error.what());
  }
}

/// Whether all options have the right type and range, so that the object can be made.
template <class Kinds>
bool can_be_made(const Kinds& kinds, const std::string& name, const OptionValues& options) {
  if (!kinds.contains(name)) return false;
  try {
    read_options(name, kinds.get(name).options, options);
  } catch (const Error&) {  // reported already
    return false;
  }
  return true;
}

/// Refuses keys without an effect that differ from their defaults.
void check_conditions(const Configuration& c, const Tree& root, Problems& problems) {
  const Configuration defaults;
  for (const Section& section : sections())
    for (const Field& field : section.fields) {
      if (section.has_effect(field, c) || field.write(&c) == field.write(&defaults)) continue;
      const auto& [key, values] = field.only_if;
      const std::string other = fmt::format("{}.{}", section.name, key);
      problems.add(place_of(root, section.name, field.name),
                   values.empty()
                       ? fmt::format("{}.{}: expected with {} only", section.name, field.name, other)
                       : fmt::format("{}.{}: expected with {}: {} only, which is {}", section.name, field.name, other,
                                     fmt::join(values, " or "), section.find(key)->write(&c).text));
    }
}

void check_optimizer(const Configuration& c, const Tree& root, Problems& problems) {
  if (!can_be_made(optimizers(), c.optimizer.name, c.optimizer.options)) return;
  note_refusal(place_of(root, "optimizer"), problems, [&] {
    const OptimizerKind& kind = optimizers().get(c.optimizer.name);
    kind.make(read_options(c.optimizer.name, kind.options, c.optimizer.options), {});
  });
}

void check_schedule(const Configuration& c, const Tree& root, Problems& problems) {
  if (!can_be_made(schedules(), c.schedule.name, c.schedule.options)) return;
  constexpr std::int64_t steps = 1 << 20;  // how many an epoch has only the data can say: fine enough for any fraction
  note_refusal(place_of(root, "schedule"), problems, [&] {
    make_schedule(c.schedule.name, c.schedule.options,
                  {.lr = c.optimizer.lr, .total_steps = c.train.epochs * steps, .steps_per_epoch = steps});
  });
}

void check_data(const Experiment& c, const Tree& root, Problems& problems) {
  if (!c.data.source.path.empty() && !dataset_kinds().get(c.data.name).reads_files)
    problems.add(place_of(root, "data", "path"),
                 fmt::format("data.path: the data set {} reads no files; 'data={{path: {}}}' in place of the whole "
                             "section takes the data set that the path holds, data.name another",
                             c.data.name, c.data.source.path.string()));
  const DatasetInfo& data = c.samples;
  const auto classes = static_cast<std::int64_t>(data.classes.size());
  const std::int64_t channels = pixel_channels(data.fields, c.data.images);
  const bool has_images = channels > 0;
  note_refusal(place_of(root, "data"), problems, [&] {
    augment::before_normalization(c.data.images.pixels, {}, c.data.images.interpolation);
    if (c.data.images.channels == 2) reject("data.channels: expected 1, 3, or 0 (the model's), got 2");
  });
  if (!has_images && (c.data.repeats > 1 || c.data.images.pixels != AugmentOptions()))
    problems.add(
        place_of(root, "data"),
        fmt::format("data: settings that change pixels, and `repeats`, have no effect on the data set {}, which "
                    "has no images",
                    c.data.name));
  // Outputs without a class are never trained and have no name.
  const bool too_many = c.model.num_classes > classes && dataset_kinds().get(c.data.name).reads_files;
  if (classes > 0 && c.model.num_classes > 0 && (c.model.num_classes < classes || too_many))
    problems.add(place_of(root, "model", "num_classes"),
                 fmt::format("model.num_classes is {}, but the data set {} has {} classes: expected {}, or 0 for as "
                             "many as it has",
                             c.model.num_classes, c.data.name, classes, classes));
  for (const auto& [key, values] : {std::pair{"mean", &c.data.images.mean}, std::pair{"std", &c.data.images.deviation}})
    if (!values->empty() && std::ssize(*values) != channels)
      problems.add(
          place_of(root, "data", key),
          fmt::format("data.{}: expected {} numbers, one for each channel, got {}", key, channels, values->size()));
  if (c.data.images.mean.empty() != c.data.images.deviation.empty())
    problems.add(place_of(root, "data"), "data: expected both `mean` and `std`, or none of them");
  for (const double deviation : c.data.images.deviation)
    if (deviation <= 0) problems.add(place_of(root, "data", "std"), "data.std: expected numbers above 0");
  if (const std::int64_t taken = channels_of(c.architecture); has_images && taken > 0 && taken != channels)
    problems.add(place_of(root, "model", "in_channels"),
                 fmt::format("model.in_channels is {}, but the images of the data set {} have {}", taken, c.data.name,
                             channels));
}

/// Checks keys of `data` that have no effect with the others.
void check_order(const Configuration& c, const Tree& root, Problems& problems) {
  const Configuration::Data &data = c.data, defaults{};
  const MixOptions& mix = data.mix;
  const auto add = [&](std::string_view key, const std::string& message) {
    problems.add(place_of(root, "data", key), message);
  };
  if (!mix.cutmix_sides.empty()) {
    if (mix.cutmix_sides.size() != 2 || mix.cutmix_sides[0] >= mix.cutmix_sides[1])
      add("cutmix_minmax", "data.cutmix_minmax: expected two numbers, of which the second is larger, as [0.2, 0.8]");
    if (mix.cutmix > 0)
      add("cutmix_minmax", "data.cutmix_minmax: stands in place of data.cutmix; expected one of them");
  }
  const bool said = mix.probability != defaults.mix.probability || mix.mode != defaults.mix.mode ||
                    mix.off_epoch != defaults.mix.off_epoch;
  if (said && !mix.any())
    add("mixup", "data.mixup_probability, mixup_mode and mixup_off_epoch: expected data.mixup or data.cutmix above 0");
  if (mix.switch_probability != defaults.mix.switch_probability && !(mix.cuts() && mix.mixup > 0))
    add("mixup_switch", "data.mixup_switch: expected both data.mixup and data.cutmix above 0");
  if (mix.any() && c.train.batch_size % (2 * c.train.accumulate) != 0)
    problems.add(
        place_of(root, "train", "batch_size"),
        fmt::format("train.batch_size: data.mixup and data.cutmix pair the samples of a micro-batch, so expected a "
                    "multiple of {} (2 x train.accumulate), got {}",
                    2 * c.train.accumulate, c.train.batch_size));
  if ((data.sampler == "weighted") == data.sampler_weights.empty())
    add("sampler", "data.sampler: `weighted` and data.sampler_weights go together");
  const auto grouped = data.source.settings.find("group_by_length");
  if (data.sampler != defaults.sampler && grouped != data.source.settings.end() && flag_in(grouped->second) == true)
    add("sampler", "data.sampler: expected none with data.group_by_length, which orders the samples itself");
}

/// Checks keys of `ranks` against each other and against other sections.
void check_ranks(const Configuration& c, const Tree& root, Problems& problems) {
  if (c.ranks.exchange != "int8") return;
  const auto add = [&](const std::string& text) { problems.add(place_of(root, "ranks", "exchange"), text); };
  if (c.ranks.shard == "gradients")
    add("ranks.exchange: int8 sends gradients to all processes: expected ranks.shard none or optimizer");
  if (c.optimizer.in_backward && c.train.clip_norm > 0)
    add("ranks.exchange: int8 rounds each gradient once: expected no train.clip_norm with optimizer.in_backward, which "
        "computes them twice");
}

/// Checks keys against the data set's classes and the task.
void check_classes(const Experiment& c, const Task& task) {
  const DatasetInfo& data = c.samples;
  const std::int64_t classes = c.model.num_classes;
  if (const std::vector<double>& weights = c.data.sampler_weights; !weights.empty() && std::ssize(weights) != classes)
    reject("data.sampler_weights: expected a number for each of {} classes, got {}", classes, weights.size());
  if (c.data.sampler != Configuration::Data{}.sampler && find_class(data.fields) == nullptr)
    reject("data.sampler: the samples of {} have no class to draw them by", c.data.name);
  if (const std::shared_ptr<const Mixing> mixing = mixing_of(c)) {
    const SampleField* const images = find_images(data.fields);
    if (images == nullptr) reject("data.mixup and data.cutmix: expected a data set of images, got {}", c.data.name);
    SampleFields mixed = data.fields;
    for (SampleField& field : mixed)
      if (field.name == images->name)
        field = {.name = field.name,
                 .kind = FieldKind::pixels,
                 .dtype = DType::f32,
                 .shape = {1, 1, pixel_channels(data.fields, c.data.images)}};
    mixing->describe(std::move(mixed));
  }
  best_by(c.train.best_by, task);
}

/// The targets of samples, in words.
std::string_view taught_by(const SampleFields& fields) {
  if (find_field(fields, FieldKind::boxes) != nullptr) return "boxes";
  if (find_field(fields, FieldKind::mask) != nullptr) return "masks";
  return "classes or values";
}

/// Samples, or a model's inputs, in words.
std::string samples_in_words(const SampleFields& fields) {
  if (find_images(fields) != nullptr) return "pictures";
  if (find_field(fields, FieldKind::tokens) != nullptr) return "texts";
  if (find_field(fields, FieldKind::edges) != nullptr) return "graphs";
  return to_string(fields);
}

/// Models whose made-up samples have the fields of these, one of each family, for a message; empty: there are none.
std::string models_for(const SampleFields& fields) {
  const auto names_of = [](const SampleFields& all) {
    std::set<std::string> names;
    for (const SampleField& field : all) names.insert(field.name);
    return names;
  };
  std::set<std::string> families;
  for (const std::string& name : model_families().names())
    if (names_of(describe_dataset(model_families().get(name).samples, {}).fields) == names_of(fields))
      families.insert(name);
  constexpr std::size_t most = 6;
  std::vector<std::string> models;
  for (const std::string& name : model_names())
    if (models.size() < most && families.erase(model_presets().get(name).family) > 0) models.push_back(name);
  if (models.empty()) return {};
  return fmt::format("; model=NAME with a model of {}: {} (`lacuna models` lists all)", taught_by(fields),
                     fmt::join(models, ", "));
}

/// The data set by its path, or by its name.
std::string data_in_words(const Configuration& c) {
  return c.data.source.path.empty() ? "the data set " + c.data.name : c.data.source.path.string();
}

/// Checks that samples have a field of the kind of each input; image files are decoded to pixels.
void check_inputs(const DatasetInfo& data, const Model& model, const Configuration& c) {
  for (const SampleField& input : model.inputs())
    if ((input.kind == FieldKind::pixels ? find_images(data.fields) : find_field(data.fields, input.kind)) == nullptr)
      reject("data: {} has {}, and model {} takes {}{}", data_in_words(c), samples_in_words(data.fields), c.model.name,
             samples_in_words(model.inputs()), models_for(data.fields));
}

/// Checks that the model takes the data set's token ids and sequence lengths.
void check_tokens(const DatasetInfo& data, const Model& model, const Experiment& c) {
  const Tree* const longest = find_value(c.architecture.hyper_parameters, "max_seq_length");
  for (const SampleField& input : model.inputs()) {
    const auto field = std::ranges::find(data.fields, input.name, &SampleField::name);
    if (input.collation == Collation::stacked || field == data.fields.end()) continue;
    if (input.below > 0 && field->below > input.below)
      reject(
          "data: {} has `{}` below {}, and the model takes those below {}: model.vocab_size and the tokenizer differ",
          c.data.name, input.name, field->below, input.below);
    if (field->shape.front() > input.shape.front())
      reject(
          "data: {} gives texts of up to {} tokens (data.max_length or data.length cuts them), and the model takes {}: "
          "expected data.max_length={} or less, or a larger {}",
          c.data.name, field->shape.front(), input.shape.front(), input.shape.front(),
          longest != nullptr && *longest == Tree(input.shape.front()) ? "model.max_seq_length"
                                                                      : "model.max_position_embeddings");
  }
}

/// The setting that gives labels the form that a task reads, where there is one.
std::string way_to_labels(const SampleField& wanted, const SampleField& given, const Experiment& c) {
  const Options& options = dataset_kinds().get(c.data.name).options;
  if (find_field(c.samples.fields, FieldKind::edges) != nullptr)
    return given.dtype == DType::f32 ? "; task.name=node_multi_label learns several classes of a node"
                                     : "; task.name=node_classification learns the class of a node";
  if (given.collation != Collation::stacked && wanted.collation == Collation::stacked)
    return "; task.name=token_classification learns a class of each token";
  if (wanted.dtype == DType::f32 && given.dtype == DType::i64 && options.find("separator") == nullptr)
    return "; task.name=classification learns classes";
  if (find_class_list(options) == nullptr) return {};
  if (wanted.dtype == DType::f32 && wanted.shape.rank() == 0 && given.dtype == DType::i64)
    return "; data.labels=numbers reads them as numbers";
  if (wanted.dtype == DType::f32 && given.dtype == DType::i64 && options.find("separator") != nullptr)
    return "; data.separator splits several labels";
  if (wanted.dtype == DType::i64 && given.dtype == DType::f32)
    return given.shape.rank() == 0 ? "; task.name=regression predicts numbers" : "; task.name=multi_label learns them";
  return {};
}

/// Checks that the data set has the targets that the task reads.
void check_task(const Experiment& c, const Tree& root, Problems& problems) {
  if (!c.architecture.problems.empty() || !can_be_made(tasks(), c.task.name, c.task.options)) return;
  const DatasetInfo& data = c.samples;
  std::unique_ptr<lacuna::Model>& model = *c.checked;
  model = c.architecture.build({.device = Device::meta, .dtype = precision_type(c.train.precision, Device::meta)});
  const Location of_data = place_of(root, "data", value_of(root, "data", "path") == nullptr ? "name" : "path");
  bool fits = false;
  note_refusal(of_data, problems, [&] {
    check_inputs(data, *model, c);
    fits = true;
  });
  if (!fits) return;
  const bool names_task = value_of(root, "task", "name") != nullptr;
  note_refusal(names_task ? place_of(root, "task", "name") : of_data, problems, [&] {
    check_tokens(data, *model, c);
    const std::unique_ptr<Task> task = make_task(c.task.name, c.task.options, *model);
    task->see(data);
    check_classes(c, *task);
    for (const SampleField& target : task->targets()) {
      if (target.name == sample_draw) continue;  // of every data set of tokens
      if (const std::string_view learned = taught_by(task->targets()), given = taught_by(data.fields); learned != given)
        reject("model {} has the task {}, which learns {}, and {} has {}{}", c.model.name, c.task.name, learned,
               data_in_words(c), given, models_for(data.fields));
      if (std::ranges::find(data.fields, target.name, &SampleField::name) == data.fields.end())
        reject("task {}: expected a data set with `{}`, and {} gives {}{}", c.task.name, target.name, c.data.name,
               to_string(data.fields),
               dataset_kinds().get(c.data.name).options.find("separate") == nullptr
                   ? ""
                   : "; data.separate=true reads a pair as two texts, each by itself");
      const SampleField& field = field_of(data.fields, target.name);
      // Masks get the size of the images that the model takes.
      const bool one_length = target.collation == Collation::stacked && !follows_pixels(target.kind);
      if (field.dtype != target.dtype || (one_length && !(field.shape == target.shape)))
        reject("task {}: expected a data set with {} {} {}, and {} has {} {}{}", c.task.name, target.name,
               name_of(target.dtype), target.shape, c.data.name, name_of(field.dtype), field.shape,
               way_to_labels(target, field, c));
    }
  });
}

void check_adapter(const Configuration& c, const Tree& root, Problems& problems) {
  const Configuration::Adapter& adapter = c.adapter;
  if (!adapter.used() && !adapter.targets.empty())
    problems.add(place_of(root, "adapter", "targets"), "adapter.targets: expected adapter.name besides, as lora");
  if (adapter.used() && c.output.weights != "f32")
    problems.add(place_of(root, "output", "weights"),
                 "output.weights: checkpoints of an adapter hold it alone, in f32; `lacuna export --dtype bf16` writes "
                 "the merged model");
  if (adapter.used() && !c.freeze.freeze.empty())
    problems.add(place_of(root, "freeze", "freeze"),
                 "freeze.freeze: an adapter freezes all other parameters; freeze.train names those to train beside it");
}

/// Refuses keys without an effect on heads that are trained on cached features, each by itself.
void check_probe(const Configuration& c, const Tree& root, Problems& problems) {
  if (!trains_on_features(c)) return;
  const auto refuse_if = [&](bool given, std::string_view section, std::string_view key, std::string_view reason) {
    if (given)
      problems.add(place_of(root, section, key),
                   fmt::format("{}.{}: expected none with task {}, which {}", section, key, c.task.name, reason));
  };
  constexpr std::string_view heads_alone = "trains its heads alone", each = "trains each head by itself";
  refuse_if(!c.freeze.train.empty(), "freeze", "train", heads_alone);
  refuse_if(!c.freeze.freeze.empty(), "freeze", "freeze", heads_alone);
  refuse_if(c.adapter.used(), "adapter", c.adapter.from.empty() ? "name" : "from", heads_alone);
  refuse_if(!c.optimizer.groups.empty(), "optimizer", "groups", "gives each head its rate");
  refuse_if(c.optimizer.layer_decay != 1, "optimizer", "layer_decay", "gives each head its rate");
  refuse_if(c.train.clip_norm > 0, "train", "clip_norm", each);
  refuse_if(c.train.ema_decay > 0, "train", "ema_decay", each);
  if (c.data.broken != Configuration::Data{}.broken)
    problems.add(place_of(root, "data", "broken"),
                 fmt::format("data.broken: expected error with task {}, which reads every file once; got {}",
                             c.task.name, c.data.broken));
}

}  // namespace

void validate(const Experiment& c, const Tree& root, Problems& problems) {
  if (c.train.batch_size % c.train.accumulate != 0)
    problems.add(place_of(root, "train", "accumulate"),
                 fmt::format("train.accumulate: expected a divisor of train.batch_size ({}), got {}",
                             c.train.batch_size, c.train.accumulate));
  note_refusal(place_of(root, "freeze", "weights"), problems, [&] { check_weight_rules({c.freeze.weights}); });
  if (!c.freeze.train.empty() && !c.freeze.freeze.empty())
    problems.add(place_of(root, "freeze"),
                 "freeze: expected `train` (only these are trained) or `freeze` (all but these are), got both");
  if ((c.train.clip_norm > 0) + (c.train.clip_parameter_norm > 0) + (c.train.clip_value > 0) > 1)
    problems.add(place_of(root, "train"),
                 "train: expected one of clip_norm, clip_parameter_norm and clip_value, got several");
  if (c.optimizer.layer_decay == 0)
    problems.add(place_of(root, "optimizer", "layer_decay"),
                 "optimizer.layer_decay: expected more than 0; `freeze` leaves layers as they are");
  if (c.train.weights != "f32" && c.train.ema_decay > 0)
    problems.add(
        place_of(root, "train", "ema_decay"),
        fmt::format("train.ema_decay: there is no average of weights in {}: expected none, or train.weights=f32",
                    c.train.weights));
  check_conditions(c, root, problems);
  check_order(c, root, problems);
  check_ranks(c, root, problems);
  check_adapter(c, root, problems);
  check_probe(c, root, problems);
  check_optimizer(c, root, problems);
  check_schedule(c, root, problems);
  check_data(c, root, problems);
  check_task(c, root, problems);
}

}  // namespace lacuna::apps
