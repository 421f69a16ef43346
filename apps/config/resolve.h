// Values that a configuration leaves open, chosen for this machine and data set.
#pragma once

#include "apps/config/experiment.h"
#include "core/planned_device.h"
#include "data/dataset.h"
#include "data/pipeline.h"

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace lacuna::apps {

/// The experiment with every value that its configuration leaves open: device, threads, the statistics of the images,
/// and the defaults of the model, optimizer, schedule, task and policy. A memory budget stays as it is given:
/// `plan_memory` makes its plan.
Experiment resolve(Experiment experiment);

/// The value of memory.budget that is the memory of the card.
inline constexpr std::string_view whole_device = "device";
/// Whether the memory of the card is the budget: given so, or none is given for `auto` on a GPU.
bool fills_device(const Experiment& experiment);

/// Whether the task trains heads on cached features of a frozen model.
bool trains_on_features(const Configuration& configuration);

/// The device that train.device names. It may not exist: what is planned runs on `meta`.
Device device_of(const Experiment& experiment);
/// The same; refused with the reason if it does not exist.
Device existing_device(const Experiment& experiment);
/// The same; the CPU if it does not exist. Accepts `auto`.
Device available_device(const Configuration& configuration);
/// The card of the experiment's device, or that of `--card`; nothing: it is no GPU, or not here.
std::optional<Card> card_of(const Experiment& experiment);
/// For steps on `meta` that stand for those of the experiment's device: its card, or that of `--card`.
PlannedDeviceScope planned_device(const Experiment& experiment);
/// The type of activations for `train.precision`: f16 is f32 on the CPU, which has no arithmetic for it, and bf16, of
/// as many bytes, on `meta`.
DType precision_type(const std::string& precision, Device device);
DatasetOptions dataset_options(const Configuration& configuration, Split split);
/// The transforms of images before evaluation; none for a data set without images.
Transforms evaluation_transforms(const Configuration& resolved, const DatasetInfo& dataset);
/// Mixup and CutMix of training batches; null: off.
std::shared_ptr<const Mixing> mixing_of(const Configuration& configuration);
/// Whether batches hold u8 images, which a GPU normalises and mixes: a quarter of the bytes to copy.
bool gives_pixels(const Experiment& experiment, Split split);
/// The batches of an opened data set. For training: augmented, in random order, of `train.batch_size` samples, all of
/// them full. For validation: of as many samples as a training step has at once. Of several ranks, this one's part of
/// each batch.
Batches batches_of(const Experiment& experiment, DatasetPtr dataset, Split split);
/// The same of samples that have gone through all transforms but `late` or `pixels`.
Batches batches_of_ready(const Experiment& experiment, DatasetPtr ready, Split split, Transforms late = {},
                         std::vector<float> pixels = {});

}  // namespace lacuna::apps
