#include "apps/commands/own_size.h"

#include "apps/commands/class_masks.h"
#include "core/collectives.h"
#include "core/error.h"
#include "data/encoded_images.h"

#include <string>

namespace lacuna::apps {

Evaluation evaluate_at_own_size(Model& model, const Dataset& dataset, const TransformOptions& images, Showing showing,
                                Figures& figures, const std::function<void(std::int64_t)>& show, Communicator& ranks) {
  const SampleFields& fields = dataset.info().fields;
  const SampleField* const mask = find_field(fields, FieldKind::mask);
  const auto* const files = dynamic_cast<const EncodedImages*>(&dataset);
  if (mask == nullptr || files == nullptr)
    reject("--whole and --windows: expected a data set of image files with masks, got {}", dataset.info().name);
  model.set_training(false);
  const std::string& name = find_images(fields)->name;
  Sample sample;
  for (std::int64_t i = ranks.rank(); i < dataset.size(); i += ranks.size()) {
    sample.begin(0);
    try {
      dataset.read(i, sample);
    } catch (const DamagedSample& error) {
      reject("{}: {}", files->origin(i), error.what());
    }
    const Tensor& file = sample[name];
    const std::string bytes(reinterpret_cast<const char*>(file.data<const std::uint8_t>()),
                            static_cast<std::size_t>(file.count()));
    const Tensor classes = classes_of(model, images, bytes, showing), &labels = sample[mask->name];
    const Shape one{1, classes.shape()[0], classes.shape()[1]};
    figures.add(classes.reshape(one), labels.reshape(one));
    show(figures.samples());
  }
  figures.gather(ranks);
  return {.samples = figures.samples()};
}

}  // namespace lacuna::apps
