#include "data/dataset.h"

#include "core/error.h"

#include <algorithm>

namespace lacuna {
namespace {

std::vector<DatasetKind>& registry() {
  static std::vector<DatasetKind> kinds;
  return kinds;
}

const DatasetKind& find_kind(std::string_view name) {
  const auto found = std::ranges::find(registry(), name, &DatasetKind::name);
  if (found != registry().end()) return *found;
  std::string known;
  for (const DatasetKind& kind : registry()) known += (known.empty() ? "" : ", ") + kind.name;
  reject("data.name: expected one of {}; got '{}'", known, name);
}

void check(const DatasetOptions& options) {
  for (const auto& [key, value] :
       {std::pair{"train_size", options.train_size}, std::pair{"val_size", options.validation_size},
        std::pair{"image_size", options.image_size}})
    if (value < 0) reject("data.{}: expected 0 (the dataset's own) or more, got {}", key, value);
}

}  // namespace

RegisterDataset::RegisterDataset(DatasetKind kind) {
  const auto place = std::ranges::lower_bound(registry(), kind.name, {}, &DatasetKind::name);
  registry().insert(place, std::move(kind));
}

const std::vector<DatasetKind>& dataset_kinds() { return registry(); }

DatasetInfo describe_dataset(std::string_view name, const DatasetOptions& options) {
  check(options);
  return find_kind(name).describe(options);
}

std::unique_ptr<const Dataset> open_dataset(std::string_view name, const DatasetOptions& options) {
  check(options);
  const DatasetKind& kind = find_kind(name);
  std::unique_ptr<const Dataset> dataset = kind.open(options);
  const std::int64_t described = kind.describe(options).size;
  expect(dataset->size() == described, "the data set {} has {} images, but is described as one of {}", name,
         dataset->size(), described);
  return dataset;
}

}  // namespace lacuna
