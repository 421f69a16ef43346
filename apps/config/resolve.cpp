#include "apps/config/resolve.h"

#include "apps/config/model_folder.h"
#include "apps/config/model_options.h"
#include "apps/config/schema.h"
#include "apps/output/output.h"
#include "core/backend.h"
#include "core/parallel.h"
#include "data/augment/augment.h"
#include "data/class_sampler.h"
#include "data/encoded_images.h"
#include "models/folders/transformers.h"
#include "models/image_preparation.h"
#include "models/registry.h"
#include "models/task.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace lacuna::apps {
namespace {

void warn_if_fewer_threads(std::int64_t asked) {
  if (threads() >= asked) return;
  const char* const limit = std::getenv("OMP_THREAD_LIMIT");
  print_error(
      fmt::format("lacuna: warning: train.threads is {}, but OpenMP starts {} at most{}: the run goes on with "
                  "as many\n",
                  asked, threads(), limit == nullptr ? "" : fmt::format(" (OMP_THREAD_LIMIT={})", limit)));
}

/// Sets every option, hyper-parameter and statistic that is left open to its default, so that the configuration is
/// complete.
void fill_in_defaults(Experiment& experiment) {
  for (const Section& section : sections()) {
    if (section.given == nullptr) continue;
    if (section.name == "adapter" && !experiment.adapter.from.empty()) continue;  // that folder says them
    const Options& options = section.options(section.chosen(experiment));
    for (const Field& field : options.fields())
      section.given(experiment).try_emplace(std::string(field.name), options.write(field));
  }
  fill_in_model_options(experiment);
  if (Configuration::Adapter& adapter = experiment.adapter;
      adapter.used() && adapter.from.empty() && adapter.targets.empty())
    adapter.targets = usual_adapter_targets(experiment.architecture);
  Configuration::Data& data = experiment.data;
  if (const auto found = data.source.settings.find("tokenizer"); found != data.source.settings.end())
    if (found->second.text.empty()) found->second = experiment.model.from;
  if (data.images.mean.empty()) {
    const std::int64_t channels = pixel_channels(experiment.samples.fields, data.images);
    data.images.mean = for_channels(as_written(experiment.samples.mean), channels);
    data.images.deviation = for_channels(as_written(experiment.samples.deviation), channels);
  }
}

/// Resets augmentation, which has no effect on features that are computed once, and prints which keys were reset.
void leave_out_augmentation(Configuration& configuration) {
  const Configuration defaults;
  std::vector<std::string> changed;
  const auto replace = [&](const Field& field, const Tree& value) {
    if (field.write(&configuration) == value) return;
    Problems none;
    read_field(field, field.name, value, &configuration, none);
    changed.push_back(fmt::format("data.{}", field.name));
  };
  const Section& data = *find_section("data");
  for (const Field& field : data.fields)
    if (field.use == augments) replace(field, field.write(&defaults));
  if (configuration.data.images.interpolation == Interpolation::random) replace(*data.find("interpolation"), "bicubic");
  if (!changed.empty())
    print_error(fmt::format("lacuna: note: task {} computes features once, without augmentation; left out: {}\n",
                            configuration.task.name, fmt::join(changed, ", ")));
}

/// Takes the card's memory for the budget of `auto` where a GPU has none.
void settle_budget(Experiment& experiment) {
  if (!fills_device(experiment)) return;
  Configuration::Memory& memory = experiment.memory;
  memory.budget = whole_device;
  if (device_of(experiment).kind != DeviceKind::cuda)
    reject("memory.budget: {} is the memory of a GPU; expected bytes, as 6GiB, with train.device: {}", whole_device,
           experiment.train.device);
  if (memory.budget_of != "peak")
    reject("memory.budget_of: expected peak with memory.budget: {}, got {}", whole_device, memory.budget_of);
}

/// Refuses values that only the CPU supports.
void check_for_cuda(const Experiment& experiment) {
  const Configuration::Memory& memory = experiment.memory;
  if (experiment.process.ranks > 1 && experiment.train.device != "cuda")
    reject("train.device: each of several processes takes a GPU of its machine; expected cuda, got {}",
           experiment.train.device);
  if (experiment.process.ranks > 1 && experiment.ranks.exchange == "int8")
    reject("ranks.exchange: GPUs exchange gradients exactly or in bf16; got int8 with train.device: {}",
           experiment.train.device);
  if (!memory.offload.empty() && memory.offload != "host")
    reject("memory.offload: tensors of a GPU go to the host's memory; expected host with train.device: {}, got {}",
           experiment.train.device, memory.offload);
  if (memory.budget_of == "process")
    reject("memory.budget_of: a GPU's memory holds tensors only; expected peak or saved with train.device: {}",
           experiment.train.device);
}

}  // namespace

Experiment resolve(Experiment experiment) {
  // `auto` is settled before training steps; other commands take the default.
  if (experiment.train.batch_size == 0) experiment.train.batch_size = Configuration::Train().batch_size;
  if (experiment.train.device == "auto") experiment.train.device = name_of(available_device(experiment));
  if (device_of(experiment).kind == DeviceKind::cuda) check_for_cuda(experiment);
  settle_budget(experiment);
  if (experiment.train.device == "cpu" && experiment.memory.offload == "host")
    reject(
        "memory.offload: tensors of the CPU go to a disk; expected a folder, got host, which needs train.device=cuda");
  if (const std::string& precision = experiment.train.precision;
      experiment.train.device == "cpu" && (precision == "f16" || precision == "tf32"))
    reject("train.precision: the CPU computes in f32 and bf16; got {}, which needs train.device=cuda", precision);
  const ThreadCountScope scope(static_cast<int>(experiment.train.threads));
  warn_if_fewer_threads(experiment.train.threads);
  experiment.train.threads = threads();
  fill_in_defaults(experiment);
  if (trains_on_features(experiment)) leave_out_augmentation(experiment);
  return experiment;
}

bool fills_device(const Experiment& experiment) {
  const Configuration::Memory& memory = experiment.memory;
  return memory.budget == whole_device || (memory.policy == "auto" && memory.budget.empty() &&
                                           memory.plan_file.empty() && device_of(experiment).kind == DeviceKind::cuda);
}

bool trains_on_features(const Configuration& configuration) {
  return tasks().contains(configuration.task.name) && tasks().get(configuration.task.name).heads != nullptr;
}

Device device_of(const Experiment& experiment) {
  Device device = device_named(experiment.train.device).value_or(Device::cpu);  // `auto` before it is settled
  if (device.kind == DeviceKind::cuda && experiment.process.ranks > 1)
    device.index = static_cast<std::uint8_t>(experiment.process.gpu);
  return device;
}

Device existing_device(const Experiment& experiment) {
  const Device device = device_of(experiment);
  if (device.kind != DeviceKind::cuda) return device;
  try {
    backend(device);
  } catch (const Error& error) {
    reject("train.device: {} cannot be used: {}", name_of(device), error.what());
  }
  return device;
}

Device available_device(const Configuration& configuration) {
  const Device device = device_named(configuration.train.device).value_or(Device::cuda);
  if (device.kind != DeviceKind::cuda) return device;
  return device.index < std::ssize(find_cuda_devices().names) && problem_of(device).empty() ? device : Device::cpu;
}

std::optional<Card> card_of(const Experiment& experiment) {
  const Device device = device_of(experiment);
  if (device.kind != DeviceKind::cuda) return {};
  if (experiment.process.card) return experiment.process.card;
  if (available_device(experiment) != device) return {};
  return lacuna::card_of(device);
}

PlannedDeviceScope planned_device(const Experiment& experiment) {
  return PlannedDeviceScope(device_of(experiment).kind, card_of(experiment).value_or(Card()));
}

DType precision_type(const std::string& precision, Device device) {
  if (precision == "f32" || precision == "tf32") return DType::f32;
  if (precision == "bf16") return DType::bf16;
  if (precision == "f16" && device == Device::cpu) return DType::f32;
  if (precision == "f16") return device == Device::meta ? DType::bf16 : DType::f16;
  reject("train.precision: expected f32, bf16, f16 or tf32, got {}", precision);
}

DatasetOptions dataset_options(const Configuration& configuration, Split split) {
  DatasetOptions options = configuration.data.source;
  options.split = split;
  options.image_size = configuration.data.images.image_size;
  options.model = configuration.model.from;
  return options;
}

namespace {

/// The transforms of images; none for a data set without images.
Transforms transforms_of(const Configuration& resolved, const DatasetInfo& dataset, bool training) {
  TransformOptions options = resolved.data.images;
  const TransformOptions defaults;
  const bool files = find_field(dataset.fields, FieldKind::image_file) != nullptr;
  const auto refuse_if = [&](bool given, std::string_view key) {
    if (given && !files)
      reject("data.{}: expected its default, since the data set {} has no image files", key, resolved.data.name);
  };
  refuse_if(options.decode != defaults.decode, "decode");
  refuse_if(options.exif != defaults.exif, "exif");
  refuse_if(options.channels != 0 && options.channels != image_channels(dataset.fields), "channels");
  refuse_if(resolved.data.broken != Configuration::Data{}.broken, "broken");
  if (image_channels(dataset.fields) == 0) return {};
  if (training) {
    options.crop_pct = 1;
  } else {
    options.augment = defaults.augment;
    options.pixels = {};
    if (options.interpolation == Interpolation::random) options.interpolation = Interpolation::bicubic;
  }
  return image_transforms(dataset, options);
}

}  // namespace

Transforms evaluation_transforms(const Configuration& resolved, const DatasetInfo& dataset) {
  return transforms_of(resolved, dataset, false);
}

std::shared_ptr<const Mixing> mixing_of(const Configuration& configuration) {
  MixOptions options = configuration.data.mix;
  if (!options.any()) return nullptr;
  options.parts = configuration.train.accumulate;
  options.classes = configuration.model.num_classes;
  options.seed = static_cast<std::uint64_t>(configuration.train.seed);
  return std::make_shared<const Mixing>(std::move(options));
}

bool gives_pixels(const Experiment& experiment, Split split) {
  if (device_of(experiment).kind != DeviceKind::cuda || experiment.image_gradient) return false;
  return split != Split::train || augment::after_normalization(experiment.data.images.pixels).empty();
}

Batches batches_of(const Experiment& experiment, DatasetPtr dataset, Split split) {
  const auto seed = static_cast<std::uint64_t>(experiment.train.seed);
  const SampleFields fields = dataset->info().fields;
  const bool has_tokens = find_field(fields, FieldKind::tokens) != nullptr;
  const bool training = split == Split::train;
  auto [early, late] = split_at_f32(transforms_of(experiment, dataset->info(), training), fields);
  const OnDamage on_damage = experiment.data.broken != "skip" ? OnDamage::fail
                             : training                       ? OnDamage::replace
                                                              : OnDamage::leave_out;
  DatasetPtr ready = transform(std::move(dataset), std::move(early), seed, on_damage);
  if (has_tokens) ready = with_draws(std::move(ready), seed);
  std::vector<float> pixels;
  if (const auto* const normalize = late.empty() ? nullptr : dynamic_cast<const Normalize*>(late.front().get());
      normalize != nullptr && late.size() == 1 && gives_pixels(experiment, split)) {
    pixels = normalize->table();
    late.clear();
  }
  return batches_of_ready(experiment, std::move(ready), split, std::move(late), std::move(pixels));
}

Batches batches_of_ready(const Experiment& experiment, DatasetPtr ready, Split split, Transforms late,
                         std::vector<float> pixels) {
  const auto seed = static_cast<std::uint64_t>(experiment.train.seed);
  if (split == Split::validation)
    return {std::move(ready),
            {.size = experiment.train.batch_size / experiment.train.accumulate,
             .rank = experiment.process.rank,
             .ranks = experiment.process.ranks,
             .late = std::move(late),
             .pixels = std::move(pixels)}};
  const auto grouped = experiment.data.source.settings.find("group_by_length");
  const bool by_length = grouped != experiment.data.source.settings.end() && flag_in(grouped->second) == true;
  DatasetPtr ordered = [&] {
    const Configuration::Data& data = experiment.data;
    if (data.sampler == "balanced") return sample_balanced(std::move(ready), experiment.model.num_classes, seed);
    if (data.sampler == "weighted") return sample_by_weight(std::move(ready), data.sampler_weights, seed);
    return by_length ? shuffle_by_length(std::move(ready), seed, experiment.train.batch_size)
                     : shuffle(std::move(ready), seed);
  }();
  if (experiment.data.repeats > 1) ordered = repeat(std::move(ordered), experiment.data.repeats);
  return {std::move(ordered),
          {.size = experiment.train.batch_size,
           .drop_last = true,
           .rank = experiment.process.rank,
           .ranks = experiment.process.ranks,
           .mixing = mixing_of(experiment),
           .late = std::move(late),
           .pixels = std::move(pixels)}};
}

}  // namespace lacuna::apps
