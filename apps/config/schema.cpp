#include "apps/config/schema.h"

#include "apps/config/model_options.h"
#include "apps/config/resolve.h"
#include "autograd/policy.h"
#include "data/dataset.h"
#include "data/transforms.h"
#include "models/task.h"
#include "nn/adapter.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace lacuna::apps {
namespace {

using Model = Configuration::Model;
using Data = Configuration::Data;
using Task = Configuration::Task;
using Train = Configuration::Train;
using Optimizer = Configuration::Optimizer;
using Schedule = Configuration::Schedule;
using Adapter = Configuration::Adapter;
using Memory = Configuration::Memory;
using Ranks = Configuration::Ranks;
using Output = Configuration::Output;

constexpr NumberRange from(double low, double high = std::numeric_limits<double>::infinity()) {
  return between(low, high);
}

template <auto registry>
Names registered() {
  return registry().names();
}

Names adapter_names() {
  Names names = registered<nn::adapters>();
  names.insert(names.begin(), "none");
  return names;
}
Names augmentation_names() {
  Names names;
  for (const Augmentation& augmentation : augmentations()) names.emplace_back(augmentation.name);
  return names;
}
Names interpolations() { return {"bilinear", "bicubic", "random"}; }
Names crop_modes() { return {"center", "squash", "border"}; }
Names decodings() { return {"exact", "fast"}; }
Names broken_files() { return {"error", "skip"}; }
Names exif_uses() { return {"ignore", "apply"}; }
Names mix_modes() { return {"batch", "pair", "element"}; }
Names samplers() { return {"shuffle", "balanced", "weighted"}; }
Names average_warmups() { return {"none", "tensorflow", "timm"}; }
Names precisions() { return {"f32", "bf16", "f16", "tf32"}; }
Names gradient_types() { return {"f32", "bf16"}; }
Names state_types() { return {"f32", "bf16", "int8"}; }
Names devices() { return {"auto", "cpu", "cuda", "meta"}; }
bool is_device(std::string_view text) { return device_named(text).has_value(); }
Names exchanges() { return {"exact", "bf16", "int8"}; }
Names shards() { return {"none", "optimizer", "gradients"}; }
Names budget_kinds() { return {"peak", "saved", "process"}; }

Names erasings() { return {"const", "rand", "pixel"}; }

/// A member of the options that Data inherits, as its own.
template <class T>
constexpr T Data::*pixels(T AugmentOptions::*member) {
  return member;
}

constexpr double most_images = 0x7fffffff;  // products of two such counts and an image's size do not overflow

const std::vector<Key<Configuration>> table{
    {"model.name", &Model::name, {.names = known_models}, "a preset or a family that `lacuna models` lists"},
    {"model.from",
     &Model::from,
     {},
     "weights to start from: a folder of timm or transformers, whose config.json says what the model is, a "
     "`.safetensors` file, an index of shards, or a checkpoint of a run"},
    {"model.num_classes", &Model::num_classes, {}, "outputs of the head; 0: as many as the data set has classes"},
    {"data.name", &Data::name, {.names = registered<dataset_kinds>}, "data set"},
    {"data.path", &Data::path, {}, "the data set's file, or the folder of its files"},
    {"data.image_size", &Data::image_size, {up_to(4096)}, "side in pixels of what the model sees; 0: the model's own"},
    {"data.length",
     &Data::length,
     {.range = between(1, 1e6), .whole = true, .or_one = true},
     "tokens of a sequence in `plan`, `bench` and the data set `random_tokens`: a number, or a list that the samples "
     "of a batch take in turn; empty: 128, or the longest that a data set has"},
    {"data.vocabulary", &Data::vocabulary, {up_to(1e9)}, "of `random_tokens`; 0: BERT's 30522"},
    {"data.classes", &Data::classes, {up_to(1e6)}, "of `random_tokens`; 0: 2"},
    {"data.mean",
     &Data::mean,
     {up_to(1)},
     "of each channel, from 0 to 1, as `[0.5, 0.5, 0.5]`: what the weights were trained with; empty: as the folder of "
     "`model.from`, the preset or else the data set has it"},
    {"data.std", &Data::std, {up_to(1)}, "the same for the standard deviation"},
    {"data.interpolation",
     &Data::interpolation,
     {.names = interpolations},
     "how images are resized; `random`: one of the two for each training image, and `bicubic` in evaluation; a folder "
     "and a preset say their own"},
    {"data.crop_pct",
     &Data::crop_pct,
     {from(0.01, 1)},
     "of evaluation: images are resized to the model's size over this, and the middle is cut out; a folder and a "
     "preset say their own"},
    {"data.crop_mode",
     &Data::crop_mode,
     {.names = crop_modes},
     "of evaluation: `center` resizes the shorter side, `squash` both sides, `border` the longer side, with a border "
     "in the mean colour; a folder and a preset say their own"},
    {"data.augment", &Data::augment, {.names = augmentation_names}, "random changes of the training images"},
    {"data.crop_padding", &Data::crop_padding, {up_to(256)}, "black pixels on each side before a random crop"},
    {"data.scale",
     &Data::scale,
     {up_to(1)},
     "of `random_resized_crop`: the least and the largest part of an image's area that is cut out"},
    {"data.ratio",
     &Data::ratio,
     {.range = {.low = 0.001, .high = 1000, .below_high = false}},
     "of `random_resized_crop`: the least and the largest width over height"},
    {"data.hflip", &Data::hflip, {up_to(1)}, "of an augmentation: the probability that an image is mirrored"},
    {"data.decode",
     &Data::decode,
     {.names = decodings},
     "of image files: `fast` decodes large JPEGs at a half, a quarter or an eighth of their size where they shrink "
     "at least twice as far, which changes pixels"},
    {"data.exif",
     &Data::exif,
     {.names = exif_uses},
     "of image files: whether they are turned as their EXIF block says"},
    {"data.auto_augment",
     pixels(&AugmentOptions::auto_augment),
     {},
     "timm's `--aa`: `rand-m9-mstd0.5-inc1` and other strings of RandAugment, `original`, `originalr`, `v0`, `v0r` "
     "(AutoAugment), `3a` (3-Augment), `augmix-m5-w4-d2`; empty: none; see [data.md](data.md)"},
    {"data.color_jitter",
     pixels(&AugmentOptions::color_jitter),
     {.range = {.low = 0, .high = 10, .below_high = false}, .or_one = true},
     "how far brightness, contrast and saturation go from 1: one number, or three, or four, of which the last is hue's "
     "(0.5 at most); empty: none"},
    {"data.color_jitter_probability",
     pixels(&AugmentOptions::color_jitter_probability),
     {up_to(1)},
     "that colours of an image are jittered"},
    {"data.force_color_jitter",
     pixels(&AugmentOptions::force_color_jitter),
     {},
     "whether `color_jitter` follows an `auto_augment` other than `3a`"},
    {"data.grayscale_probability",
     pixels(&AugmentOptions::grayscale_probability),
     {up_to(1)},
     "that an image becomes grey"},
    {"data.blur_probability",
     pixels(&AugmentOptions::blur_probability),
     {up_to(1)},
     "that an image is blurred, with a deviation of 0.1 to 2 pixels"},
    {"data.erase_probability",
     pixels(&AugmentOptions::erase_probability),
     {up_to(1)},
     "that rectangles of an image are overwritten after normalisation"},
    {"data.erase_mode", pixels(&AugmentOptions::erase_mode), {.names = erasings}, "with 0, a random colour, or noise"},
    {"data.erase_count", pixels(&AugmentOptions::erase_count), {from(1, 8)}, "rectangles of an image at most"},
    {"data.repeats",
     &Data::repeats,
     {from(1, 64)},
     "times that an image comes in a row, each time augmented anew; an epoch then has as many images as before, but "
     "fewer different ones"},
    {"data.mixup",
     &Data::mixup,
     {up_to(100)},
     "in training, images are blended with others of their batch, and labels with theirs: the alpha of the Beta(alpha, "
     "alpha) that shares are drawn from, as 0.8; 0: never"},
    {"data.cutmix", &Data::cutmix, {up_to(100)}, "the same with a box of the other image: its alpha, as 1; 0: never"},
    {"data.cutmix_minmax",
     &Data::cutmix_minmax,
     {up_to(1)},
     "lowest and highest share of the image's sides that a box has, as `[0.2, 0.8]`, in place of `cutmix`"},
    {"data.mixup_probability", &Data::mixup_probability, {up_to(1)}, "how often anything is mixed"},
    {"data.mixup_switch", &Data::mixup_switch, {up_to(1)}, "how often a box is taken where both are on"},
    {"data.mixup_mode",
     &Data::mixup_mode,
     {.names = mix_modes},
     "what has a draw of its own: the batch, a pair of samples, or each sample"},
    {"data.mixup_off_epoch",
     &Data::mixup_off_epoch,
     {up_to(1e9)},
     "epochs after which nothing is mixed any more; 0: mixed to the end"},
    {"data.sampler",
     &Data::sampler,
     {.names = samplers},
     "order of the training samples: each once, or drawn with replacement, all classes equally often or by "
     "`sampler_weights`"},
    {"data.sampler_weights",
     &Data::sampler_weights,
     {up_to(1e9)},
     "of `weighted`: how likely a sample of each class is drawn, as `[1, 5]`"},
    {"data.broken",
     &Data::broken,
     {.names = broken_files},
     "of image files that are damaged: with `skip`, another one of the class takes its place in training, and "
     "evaluations leave it out; all are listed"},
    {"data.workers", &Data::workers, {from(1, 256)}, "threads that prepare batches ahead of the step"},
    {"data.seed", &Data::seed, {}, "which images a drawn data set draws, and which ones `val_fraction` holds out"},
    {"data.train_size",
     &Data::train_size,
     {up_to(most_images)},
     "images to train on, the first ones; 0: all, or a drawn data set's default"},
    {"data.val_size",
     &Data::val_size,
     {up_to(most_images)},
     "images to evaluate on, the first ones; 0: all, or a drawn data set's default"},
    {"task.name", &Task::name, {.names = registered<tasks>}, "losses and metrics"},
    {"train.epochs", &Train::epochs, {from(1, 1e9)}, "passes over the data"},
    {"train.steps", &Train::steps, {}, "end after this many steps of the optimizer; 0: only `epochs` counts"},
    {"train.eval_every_steps",
     &Train::eval_every_steps,
     {},
     "steps between further evaluations within an epoch; 0: only at its end"},
    {"train.batch_size", &Train::batch_size, {from(1, most_images)}, "images in a step of the optimizer"},
    {"train.accumulate",
     &Train::accumulate,
     {from(1, 65536)},
     "parts in which a batch goes through the model, one after the other"},
    {"train.precision",
     &Train::precision,
     {.names = precisions},
     "type of the activations; parameters are f32. On cuda alone: `f16`, and `tf32`, which is f32 with products of "
     "factors rounded to 10 bits"},
    {"train.init_scale",
     &Train::init_scale,
     {between(1, 1e9)},
     "of `f16`: what the loss is multiplied by at first, so that its gradients lie within the range of f16; as that of "
     "torch.amp.GradScaler"},
    {"train.growth_interval",
     &Train::growth_interval,
     {from(1, 1e9)},
     "of `f16`: steps in a row with finite gradients after which that factor doubles. A step with others changes no "
     "weight and halves it"},
    {"train.graph",
     &Train::graph,
     {},
     "on cuda: whether a step is captured once and replayed, without the time that the host takes to start its "
     "kernels. Its memory stays apart between steps; with `memory.budget` steps are not captured"},
    {"train.device",
     &Train::device,
     {.names = devices, .also = is_device},
     "where the model runs: `cuda` is the first GPU, `cuda:1` the second; `auto` takes the first GPU if there is one"},
    {"train.threads",
     &Train::threads,
     {up_to(4096)},
     "threads that compute; 0: as many as OMP_NUM_THREADS says, or the machine has. More than the process may run on "
     "(by its affinity; a container's quota of time is not seen) are warned of"},
    {"train.seed", &Train::seed, {}, "of initial weights, the order of images, augmentation and dropout"},
    {"train.clip_norm", &Train::clip_norm, {}, "gradients are scaled down to this norm, all together; 0: never"},
    {"train.clip_parameter_norm",
     &Train::clip_parameter_norm,
     {},
     "the gradient of each parameter is scaled down to this norm by itself; 0: never"},
    {"train.clip_value", &Train::clip_value, {}, "each element of a gradient is held to this magnitude; 0: never"},
    {"train.ema_decay",
     &Train::ema_decay,
     {below(1)},
     "decay of a running mean of the weights, which is evaluated in their place, as 0.9999; 0: none"},
    {"train.ema_warmup",
     &Train::ema_warmup,
     {.names = average_warmups},
     "how the decay grows: as it is, (1 + steps) / (10 + steps) at most, or 1 − (1 + steps)^(−2/3) at most"},
    {"train.best_by",
     &Train::best_by,
     {},
     "which evaluation is the best: `loss`, or a metric of the task, as `accuracy`; empty: the task's first metric"},
    {"train.patience",
     &Train::patience,
     {up_to(1e9)},
     "end after this many epochs without a better evaluation; 0: only `epochs` counts"},
    {"optimizer.name", &Optimizer::name, {.names = registered<optimizers>}, "optimizer"},
    {"optimizer.lr", &Optimizer::lr, {}, "learning rate at the schedule's highest"},
    {"optimizer.state",
     &Optimizer::state,
     {.names = state_types},
     "type of what the optimizer remembers of each parameter; int8: in blocks of 256 with a range each"},
    {"optimizer.gradients", &Optimizer::gradients, {.names = gradient_types}, "type of the parameters' gradients"},
    {"optimizer.in_backward",
     &Optimizer::in_backward,
     {},
     "whether a parameter is updated as soon as its gradient is whole, and the gradient released; see "
     "[optimizers.md](optimizers.md)"},
    {"optimizer.layer_decay",
     &Optimizer::layer_decay,
     {up_to(1)},
     "each layer's rate by that of the next one, from the classifier down; 1: all learn alike"},
    {"optimizer.groups",
     &Optimizer::groups,
     {},
     "patterns on parameter names with a rate or decay of their own: `{match: \"head*\", lr_scale: 10, weight_decay: "
     "0}`"},
    {"schedule.name", &Schedule::name, {.names = registered<schedules>}, "how the learning rate goes on"},
    {"freeze.train",
     &FreezeRules::train,
     {},
     "patterns (`*`, `?`, `[abc]`) on parameter names, or the sets `@head`, `@norms`, `@bias`, `@lastN` (as `@last4`: "
     "four blocks): only what matches is trained"},
    {"freeze.freeze", &FreezeRules::freeze, {}, "patterns or sets: all but what matches is trained"},
    {"adapter.name",
     &Adapter::name,
     {.names = adapter_names},
     "few trained values beside the frozen weight of each linear layer; the head and what `freeze.train` names is "
     "trained besides"},
    {"adapter.from",
     &Adapter::from,
     {},
     "an adapter to start from, which says kind, rank, scale and layers: a folder of PEFT, or a checkpoint of a run"},
    {"adapter.targets",
     &Adapter::targets,
     {},
     "layers that get one: names or their ends, as `qkv`, or patterns; empty, or `all-linear`: all but the head"},
    {"memory.policy",
     &Memory::policy,
     {.names = registered<memory_policies>},
     "how tensors wait for the backward pass"},
    {"memory.budget",
     &Memory::budget,
     {},
     "what the tensors of a training step may take, as `6GiB` (without a unit: bytes, 4096 at least); code, stacks and "
     "libraries come on top",
     "auto"},
    {"memory.budget_of",
     &Memory::budget_of,
     {.names = budget_kinds},
     "the budget limits the peak of all tensors, the tensors saved for backward, or the memory of the whole process",
     "auto"},
    {"memory.plan",
     &Memory::plan_file,
     {},
     "a plan.json to follow, as a run folder holds it; empty: a plan is made for the budget",
     "auto"},
    {"memory.recompute",
     &Memory::recompute,
     {},
     "patterns on the paths of blocks that save their input alone and run again in backward: `blocks.*`"},
    {"memory.rules",
     &Memory::rules,
     {},
     "what to do with single tensors, whatever the policy says; see [memory.md](memory.md)"},
    {"memory.offload",
     &Memory::offload,
     {},
     "folder on a disk for saved tensors, which lie in a file there between forward and backward; with "
     "train.device=cuda `host`, for the host's memory; empty: they stay in memory. `auto` chooses which, other "
     "policies offload all"},
    {"memory.offload_budget",
     &Memory::offload_budget,
     {},
     "bytes of that file, or of the host's memory, at most, as `100GiB`; empty: all but the last GiB"},
    {"memory.offload_buffer",
     &Memory::offload_buffer,
     {},
     "memory of tensors on their way there and back: with more, reading runs further ahead"},
    {"ranks.exchange",
     &Ranks::exchange,
     {.names = exchanges},
     "of several processes, what travels of gradients: `exact` has the bits of one process, `bf16` takes half the "
     "bytes, `int8` a quarter; what `int8` rounds off is added to the next step's gradients"},
    {"ranks.shard",
     &Ranks::shard,
     {.names = shards},
     "`optimizer`: each process holds the optimizer's state and the average of a part of the parameters, and updates "
     "these alone; `gradients`: it gets the gradients of these alone, too"},
    {"ranks.sync_batch_norm",
     &Ranks::sync_batch_norm,
     {},
     "whether batch norm's statistics in training are those of all processes' samples together"},
    {"output.dir",
     &Output::dir,
     {},
     "folder of the run; empty: `runs/` and the name of the configuration file, or the names of all, as `a_b`"},
    {"output.save_every", &Output::save_every, {}, "epochs between checkpoints; 0: only the best and the last"},
    {"output.save_every_steps", &Output::save_every_steps, {}, "steps between further checkpoints; 0: none"},
    {"output.keep",
     &Output::keep,
     {from(2)},
     "the latest checkpoints that are kept, beside the best; two at least, so that a damaged one has one before it"},
    {"output.tensorboard",
     &Output::tensorboard,
     {},
     "whether TensorBoard's event files are written beside metrics.jsonl"},
};

template <auto registry>
const Options* settings_of(std::string_view name) {
  return registry().contains(name) ? &registry().get(name).options : nullptr;
}

template <auto registry, class Part>
Section section_of(std::string_view name, std::string_view choice, std::string_view kind, Part Configuration::*part) {
  return {.name = name,
          .choice = choice,
          .kind = kind,
          .names = registered<registry>,
          .settings = settings_of<registry>,
          .options = [part](Configuration& configuration) -> OptionValues& { return (configuration.*part).options; }};
}

const std::vector<Section> section_table{
    {.name = "model", .choice = "name"},
    section_of<dataset_kinds>("data", "name", "data set", &Configuration::data),
    section_of<tasks>("task", "name", "task", &Configuration::task),
    {.name = "train"},
    section_of<optimizers>("optimizer", "name", "optimizer", &Configuration::optimizer),
    section_of<schedules>("schedule", "name", "schedule", &Configuration::schedule),
    {.name = "freeze"},
    {.name = "adapter",
     .choice = "name",
     .kind = "adapter",
     .names = adapter_names,
     .settings = settings_of<nn::adapters>,
     .options = [](Configuration& configuration) -> OptionValues& { return configuration.adapter.options; }},
    section_of<memory_policies>("memory", "policy", "memory policy", &Configuration::memory),
    {.name = "ranks"},
    {.name = "output"},
};

std::string_view section_name(const Key<Configuration>& key) { return key.name.substr(0, key.name.find('.')); }

std::string in_backquotes(const Names& names) { return fmt::format("`{}`", fmt::join(names, "`, `")); }

/// The default as the documentation shows it; nothing for an empty text or list.
std::string shown(const std::string& written, std::string_view type) {
  if (written == "\"\"" || written == "[]") return {};
  return type == "text" ? in_backquotes({written}) : written;
}

/// The settings of all that a section can name, with those who have them. Rows that say the same are one.
void add_settings(std::vector<KeyHelp>& rows, const Section& section) {
  std::vector<std::pair<KeyHelp, Names>> settings;
  for (const std::string& owner : section.names()) {
    const Options* const options = section.settings(owner);
    if (options == nullptr) continue;
    for (const lacuna::Field& field : options->fields()) {
      const std::string type = field.type();
      KeyHelp row{fmt::format("{}.{}", section.name, field.name), type,
                  shown(lacuna::to_yaml(options->write(field)), type), std::string(field.help)};
      if (field.limits.names != nullptr) row.help += ": " + in_backquotes(field.limits.names());
      const auto same = std::ranges::find(settings, row, &std::pair<KeyHelp, Names>::first);
      if (same == settings.end())
        settings.push_back({row, {owner}});
      else
        same->second.push_back(owner);
    }
  }
  for (auto& [row, owners] : settings) {
    row.help = fmt::format("{}: {}", in_backquotes(owners), row.help);
    rows.push_back(row);
  }
}

}  // namespace

std::span<const Section> sections() { return section_table; }
std::span<const Key<Configuration>> keys() { return table; }

Names section_names() {
  Names names;
  for (const Section& section : section_table) names.emplace_back(section.name);
  return names;
}

const Section* find_section(std::string_view name) {
  const auto found = std::ranges::find(section_table, name, &Section::name);
  return found == section_table.end() ? nullptr : &*found;
}

const Key<Configuration>* find_key(std::string_view name) {
  const auto found = std::ranges::find(table, name, &Key<Configuration>::name);
  return found == table.end() ? nullptr : &*found;
}

std::string choice_of(const Section& section, const Configuration& configuration) {
  const Key<Configuration>* const key = find_key(fmt::format("{}.{}", section.name, section.choice));
  if (key == nullptr) return {};
  Configuration copy = configuration;
  return *std::get<std::string*>(key->field(copy));
}

Names known_keys(std::string_view section) {
  Names names;
  for (const Key<Configuration>& key : table)
    if (section_name(key) == section) names.emplace_back(key.name.substr(section.size() + 1));
  const Section* const found = find_section(section);
  if (found == nullptr || found->settings == nullptr) return names;
  for (const std::string& owner : found->names()) {
    const Options* const options = found->settings(owner);
    if (options == nullptr) continue;
    for (const lacuna::Field& field : options->fields()) names.emplace_back(field.name);
  }
  return names;
}

std::vector<KeyHelp> key_help() {
  Configuration defaults;
  std::vector<KeyHelp> rows;
  for (const Section& section : section_table) {
    for (const Key<Configuration>& key : table) {
      if (section_name(key) != section.name) continue;
      const Field field = key.field(defaults);
      const std::string type = type_name(field, key.values);
      KeyHelp row{std::string(key.name), type, shown(write_field(field), type), std::string(key.help)};
      if (!key.only_for.empty()) row.help = fmt::format("`{}`: {}", key.only_for, row.help);
      if (key.values.names != nullptr && section.name != "model")
        row.help += fmt::format(": {}", in_backquotes(key.values.names()));
      rows.push_back(std::move(row));
    }
    if (section.settings != nullptr) add_settings(rows, section);
  }
  return rows;
}

std::string keys_as_markdown() {
  std::string text = "| key | type | default | meaning |\n| --- | --- | --- | --- |\n";
  for (const KeyHelp& row : key_help())
    text += fmt::format("| `{}` | {} | {} | {} |\n", row.name, row.type, row.initial, row.help);
  return text;
}

}  // namespace lacuna::apps
