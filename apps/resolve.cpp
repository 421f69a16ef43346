#include "apps/resolve.h"

#include "apps/budget.h"

#include "apps/model_options.h"
#include "core/parallel.h"
#include "models/registry.h"

#include <algorithm>

namespace lacuna::apps {
namespace {

std::int64_t value_in(const ModelDescription& description, std::string_view key) {
  const auto found = std::ranges::find(description.hyper_parameters, key, &HyperParameter::key);
  expect(found != description.hyper_parameters.end(), "model {} has no {}", description.name, key);
  return std::get<std::int64_t>(found->value);
}

}  // namespace

Configuration resolve(const Configuration& configuration) {
  Configuration resolved = configuration;
  const Configuration::Train& train = resolved.train;
  if (train.batch_size % train.accumulate != 0)
    reject("train.accumulate: expected a divisor of train.batch_size ({}), got {}", train.batch_size, train.accumulate);
  if (resolved.train.device == "auto") resolved.train.device = "cpu";
  set_threads(static_cast<int>(resolved.train.threads));
  resolved.train.threads = threads();
  const DatasetInfo data = describe_dataset(resolved.data.name, dataset_options(resolved, Split::train));
  const auto classes = static_cast<std::int64_t>(data.classes.size());
  if (resolved.model.num_classes == 0) resolved.model.num_classes = classes;
  if (resolved.model.num_classes < classes)
    reject("model.num_classes is {}, but the data set {} has {} classes", resolved.model.num_classes,
           resolved.data.name, classes);
  const ModelDescription model = describe_model(resolved.model.name, hyper_parameters_of(resolved));
  resolved.data.image_size = value_in(model, "image_size");
  if (const std::int64_t channels = value_in(model, "in_channels"); channels != data.channels)
    reject("model.in_channels is {}, but the images of the data set {} have {}", channels, resolved.data.name,
           data.channels);
  fit_budget(resolved);
  return resolved;
}

Device device_of(const Configuration& resolved) { return resolved.train.device == "meta" ? Device::meta : Device::cpu; }

DatasetOptions dataset_options(const Configuration& configuration, Split split) {
  const Configuration::Data& data = configuration.data;
  return {.path = data.path,
          .split = split,
          .seed = static_cast<std::uint64_t>(data.seed),
          .train_size = data.train_size,
          .validation_size = data.val_size};
}

TransformOptions transform_options(const Configuration& resolved, Split split) {
  const bool training = split == Split::train;
  return {.image_size = resolved.data.image_size,
          .augment = training ? resolved.data.augment : "none",
          .crop_padding = resolved.data.crop_padding};
}

}  // namespace lacuna::apps
