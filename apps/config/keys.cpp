#include "apps/config/keys.h"

#include "apps/config/model_options.h"
#include "autograd/policy.h"
#include "data/dataset.h"
#include "data/transforms.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace lacuna::apps {
namespace {

using Names = std::vector<std::string>;

Names dataset_names() { return dataset_kinds().names(); }

Names augmentation_names() {
  Names names;
  for (const Augmentation& augmentation : augmentations()) names.emplace_back(augmentation.name);
  return names;
}

constexpr std::string_view section_names[] = {"model",    "data",   "train",  "optimizer",
                                              "schedule", "freeze", "memory", "output"};

constexpr double most_images = 0x7fffffff;  // products of two such counts and an image's size do not overflow

const Key table[] = {
    {"model", "name", [](Configuration& c) -> Field { return &c.model.name; },
     "a preset or a family that `lacuna models` lists", 0, 0, known_models},
    {"model", "from", [](Configuration& c) -> Field { return &c.model.from; },
     "weights to start from: a `.safetensors` file, or a folder that holds `model.safetensors`"},
    {"model", "num_classes", [](Configuration& c) -> Field { return &c.model.num_classes; },
     "outputs of the head; 0: as many as the data set has classes"},

    {"data", "name", [](Configuration& c) -> Field { return &c.data.name; }, "data set", 0, 0, dataset_names},
    {"data", "path", [](Configuration& c) -> Field { return &c.data.path; }, "folder of the data set's files"},
    {"data", "image_size", [](Configuration& c) -> Field { return &c.data.image_size; },
     "side in pixels of what the model sees; 0: the model's own", 0, 4096},
    {"data", "augment", [](Configuration& c) -> Field { return &c.data.augment; },
     "random changes of the training images", 0, 0, augmentation_names},
    {"data", "crop_padding", [](Configuration& c) -> Field { return &c.data.crop_padding; },
     "black pixels on each side before a random crop", 0, 256},
    {"data", "workers", [](Configuration& c) -> Field { return &c.data.workers; },
     "threads that prepare batches ahead of the step", 1, 256},
    {"data", "seed", [](Configuration& c) -> Field { return &c.data.seed; }, "which images a drawn data set draws"},
    {"data", "train_size", [](Configuration& c) -> Field { return &c.data.train_size; },
     "images to train on, the first ones; 0: all, or a drawn data set's default", 0, most_images},
    {"data", "val_size", [](Configuration& c) -> Field { return &c.data.val_size; },
     "images to evaluate on, the first ones; 0: all, or a drawn data set's default", 0, most_images},

    {"train", "epochs", [](Configuration& c) -> Field { return &c.train.epochs; }, "passes over the data", 1, 1e9},
    {"train", "steps", [](Configuration& c) -> Field { return &c.train.steps; },
     "end after this many steps of the optimizer; 0: only `epochs` counts"},
    {"train", "batch_size", [](Configuration& c) -> Field { return &c.train.batch_size; },
     "images in a step of the optimizer", 1, most_images},
    {"train", "accumulate", [](Configuration& c) -> Field { return &c.train.accumulate; },
     "parts in which a batch goes through the model, one after the other", 1, 65536},
    {"train", "precision", [](Configuration& c) -> Field { return &c.train.precision; },
     "type of the activations; parameters are f32", 0, 0,
     [] {
       return Names{"f32", "bf16"};
     }},
    {"train", "device", [](Configuration& c) -> Field { return &c.train.device; }, "where the model runs", 0, 0,
     [] {
       return Names{"auto", "cpu", "meta"};
     }},
    {"train", "threads", [](Configuration& c) -> Field { return &c.train.threads; },
     "threads that compute; 0: as many as OMP_NUM_THREADS says, or the machine has. More than the process may run on "
     "(by its affinity; a container's quota of time is not seen) are warned of",
     0, 4096},
    {"train", "seed", [](Configuration& c) -> Field { return &c.train.seed; },
     "of initial weights, the order of images, augmentation and dropout"},
    {"train", "clip_norm", [](Configuration& c) -> Field { return &c.train.clip_norm; },
     "gradients are scaled down to this norm, all together; 0: never"},
    {"train", "clip_parameter_norm", [](Configuration& c) -> Field { return &c.train.clip_parameter_norm; },
     "the gradient of each parameter is scaled down to this norm by itself; 0: never"},
    {"train", "clip_value", [](Configuration& c) -> Field { return &c.train.clip_value; },
     "each element of a gradient is held to this magnitude; 0: never"},
    {"train", "ema_decay", [](Configuration& c) -> Field { return &c.train.ema_decay; },
     "decay of a running mean of the weights, which is evaluated in their place, as 0.9999; 0: none", 0, 1},
    {"train", "label_smoothing", [](Configuration& c) -> Field { return &c.train.label_smoothing; },
     "share of the target that is spread over all classes", 0, 1},

    {"optimizer", "name", [](Configuration& c) -> Field { return &c.optimizer.name; }, "optimizer", 0, 0,
     [] { return optimizers().names(); }},
    {"optimizer", "lr", [](Configuration& c) -> Field { return &c.optimizer.lr; },
     "learning rate at the schedule's highest"},
    {"optimizer", "state", [](Configuration& c) -> Field { return &c.optimizer.state; },
     "type of what the optimizer remembers of each parameter; int8: in blocks of 256 with a range each", 0, 0,
     [] {
       return Names{"f32", "bf16", "int8"};
     }},
    {"optimizer", "gradients", [](Configuration& c) -> Field { return &c.optimizer.gradients; },
     "type of the parameters' gradients", 0, 0,
     [] {
       return Names{"f32", "bf16"};
     }},
    {"optimizer", "in_backward", [](Configuration& c) -> Field { return &c.optimizer.in_backward; },
     "whether a parameter is updated as soon as its gradient is whole, and the gradient released; see "
     "[optimizers.md](optimizers.md)"},
    {"optimizer", "layer_decay", [](Configuration& c) -> Field { return &c.optimizer.layer_decay; },
     "each layer's rate by that of the next one, from the classifier down; 1: all learn alike", 0, 1},
    {"optimizer", "groups", [](Configuration& c) -> Field { return &c.optimizer.groups; },
     "patterns on parameter names with a rate or decay of their own: `{match: \"head*\", lr_scale: 10, weight_decay: "
     "0}`"},

    {"schedule", "name", [](Configuration& c) -> Field { return &c.schedule.name; }, "how the learning rate goes on", 0,
     0, [] { return schedules().names(); }},

    {"freeze", "train", [](Configuration& c) -> Field { return &c.freeze.train; },
     "patterns (`*`, `?`, `[abc]`) on parameter names: only what matches is trained"},
    {"freeze", "freeze", [](Configuration& c) -> Field { return &c.freeze.freeze; },
     "patterns: all but what matches is trained"},

    {"memory", "policy", [](Configuration& c) -> Field { return &c.memory.policy; },
     "how tensors wait for the backward pass", 0, 0, [] { return memory_policies().names(); }},
    {"memory", "budget", [](Configuration& c) -> Field { return &c.memory.budget; },
     "of the policy `auto`: what the tensors of a training step may take, as `6GiB` (without a unit: bytes, 4096 at "
     "least); code, stacks and libraries come on top"},
    {"memory", "budget_of", [](Configuration& c) -> Field { return &c.memory.budget_of; },
     "what the budget counts: all memory at its highest, or what is saved for backward", 0, 0,
     [] {
       return Names{"peak", "saved"};
     }},
    {"memory", "plan", [](Configuration& c) -> Field { return &c.memory.plan_file; },
     "of the policy `auto`: a plan.json to follow, as a run folder holds it; empty: a plan is made for the budget"},
    {"memory", "recompute", [](Configuration& c) -> Field { return &c.memory.recompute; },
     "patterns on the paths of blocks that save their input alone and run again in backward: `blocks.*`"},
    {"memory", "rules", [](Configuration& c) -> Field { return &c.memory.rules; },
     "what to do with single tensors, whatever the policy says; see [memory.md](memory.md)"},

    {"output", "dir", [](Configuration& c) -> Field { return &c.output.dir; },
     "folder of the run; empty: `runs/` and the name of the configuration file, or the names of all, as `a_b`"},
    {"output", "save_every", [](Configuration& c) -> Field { return &c.output.save_every; },
     "epochs between checkpoints; 0: only the best and the last"},
    {"output", "save_every_steps", [](Configuration& c) -> Field { return &c.output.save_every_steps; },
     "steps between further checkpoints; 0: none"},
    {"output", "keep", [](Configuration& c) -> Field { return &c.output.keep; },
     "the latest checkpoints that are kept, beside the best; two at least, so that a damaged one has one before it", 2},
};

template <class Registry>
std::vector<Setting> settings_of(const Registry& registry, std::string_view name) {
  return registry.contains(name) ? registry.get(name).settings : std::vector<Setting>{};
}

struct TypeName {
  std::string operator()(const std::string*) const { return "text"; }
  std::string operator()(const std::int64_t*) const { return "whole number"; }
  std::string operator()(const double*) const { return "number"; }
  std::string operator()(const bool*) const { return "true or false"; }
  std::string operator()(const std::vector<std::string>*) const { return "list of texts"; }
  std::string operator()(const std::vector<HoldRule>*) const { return "list of rules"; }
  std::string operator()(const std::vector<GroupRule>*) const { return "list of rules"; }
  std::string operator()(bool) const { return "true or false"; }
  std::string operator()(double) const { return "number"; }
  std::string operator()(const std::vector<double>&) const { return "list of numbers"; }
};

struct InitialValue {
  std::string operator()(const std::string* value) const { return value->empty() ? "" : fmt::format("`{}`", *value); }
  std::string operator()(const std::vector<std::string>*) const { return ""; }
  std::string operator()(const std::vector<HoldRule>*) const { return ""; }
  std::string operator()(const std::vector<GroupRule>*) const { return ""; }
  std::string operator()(const std::vector<double>& value) const { return fmt::format("[{}]", fmt::join(value, ", ")); }
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(const auto* value) const { return fmt::format("{}", *value); }
};

template <class Registry>
void add_settings(std::string& text, std::string_view section, const Registry& registry) {
  for (const std::string& name : registry.names())
    for (const Setting& setting : registry.get(name).settings)
      text += fmt::format("| `{}.{}` | {}{} | {} | `{}`: {} |\n", section, setting.name,
                          setting.range.whole ? "whole " : "", std::visit(TypeName{}, setting.initial),
                          std::visit(InitialValue{}, setting.initial), name, setting.meaning);
}

}  // namespace

std::span<const Key> keys() { return table; }
std::span<const std::string_view> sections() { return section_names; }

std::vector<Setting> section_settings(std::string_view section, std::string_view name) {
  if (section == "optimizer") return settings_of(optimizers(), name);
  if (section == "schedule") return settings_of(schedules(), name);
  if (section == "memory") return settings_of(memory_policies(), name);
  return {};
}

namespace {

/// Calls `f(owner, setting)` for the settings of every optimizer, schedule or policy.
template <class F>
void for_each_setting(std::string_view section, const F& f) {
  const auto over = [&](const auto& registry) {
    for (const std::string& owner : registry.names())
      for (const Setting& setting : registry.get(owner).settings) f(owner, setting);
  };
  if (section == "optimizer") over(optimizers());
  if (section == "schedule") over(schedules());
  if (section == "memory") over(memory_policies());
}

}  // namespace

std::vector<std::string> owners_of_setting(std::string_view section, std::string_view name) {
  std::vector<std::string> owners;
  for_each_setting(section, [&](const std::string& owner, const Setting& setting) {
    if (setting.name == name) owners.push_back(owner);
  });
  return owners;
}

std::vector<std::string> known_keys(std::string_view section) {
  std::vector<std::string> names;
  for (const Key& key : keys())
    if (key.section == section) names.emplace_back(key.name);
  for_each_setting(section, [&](const std::string&, const Setting& setting) { names.emplace_back(setting.name); });
  return names;
}

std::string keys_as_markdown() {
  std::string text = "| key | type | default | meaning |\n| --- | --- | --- | --- |\n";
  Configuration defaults;
  for (const std::string_view section : sections()) {
    for (const Key& key : keys()) {
      if (key.section != section) continue;
      const Field field = key.field(defaults);
      text += fmt::format("| `{}.{}` | {} | {} | {}", section, key.name, std::visit(TypeName{}, field),
                          std::visit(InitialValue{}, field), key.meaning);
      if (key.choices != nullptr && section != "model") text += fmt::format(": `{}`", fmt::join(key.choices(), "`, `"));
      text += " |\n";
    }
    if (section == "optimizer") add_settings(text, section, optimizers());
    if (section == "schedule") add_settings(text, section, schedules());
    if (section == "memory") add_settings(text, section, memory_policies());
  }
  return text;
}

}  // namespace lacuna::apps
