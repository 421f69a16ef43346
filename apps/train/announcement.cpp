#include "apps/train/announcement.h"

#include "apps/output/output.h"
#include "apps/train/measure.h"
#include "apps/train/statistics.h"
#include "data/encoded_images.h"
#include "optim/schedule.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace lacuna::apps {
namespace {

std::string describe(const FreezeMatch& match) {
  std::int64_t count = 0;
  for (const Parameter* parameter : match.parameters) count += parameter->tensor().count();
  std::string text =
      fmt::format("  {:<24} {:>4} tensors {:>12} values:", match.pattern, match.parameters.size(), count);
  constexpr std::size_t shown = 4;
  for (std::size_t i = 0; i < std::min(shown, match.parameters.size()); ++i)
    text += fmt::format(" {} {}", match.parameters[i]->path(), match.parameters[i]->shape());
  text += match.parameters.size() > shown ? " ...\n" : "\n";
  if (!match.left_frozen.empty())
    text += fmt::format("  {:<24} {:>4} tensors stay frozen: the adapter leaves them as they were drawn, as {}\n",
                        match.pattern, match.left_frozen.size(), match.left_frozen.front()->path());
  return text;
}

std::string frozen_parameters(const Experiment& experiment, const Setup& setup, const std::string& table) {
  std::string text =
      experiment.freeze.freeze.empty() ? "trained parameters; all others are frozen:\n" : "frozen parameters:\n";
  for (const FreezeMatch& match : setup.freeze_matches()) text += describe(match);
  text += table;
  text.pop_back();
  return text;
}

/// Empty where the classifier comes with the weights.
std::string new_classifier(const Experiment& experiment, const Setup& setup) {
  if (setup.heads() != nullptr) return {};  // which are new
  const Model& model = setup.model();
  if (const LoadedAdapter& adapter = setup.loaded_adapter(); adapter.new_head)
    return fmt::format("the classifier starts anew ({}): {} classes in {}, {} here", model.heads().front(),
                       adapter.file_classes, experiment.adapter.from, model.num_classes());
  const LoadedWeights& loaded = setup.loaded_weights();
  const bool adapter_brings_it = setup.loaded_adapter().file_classes > 0;
  if (!loaded.new_head || !loaded.part.empty() || adapter_brings_it) return {};
  if (loaded.file_classes == 0)
    return fmt::format("the classifier starts anew ({}): {} has none", fmt::join(model.heads(), ", "),
                       experiment.model.from);
  return fmt::format("the classifier starts anew ({}): {} classes in {}, {} here", fmt::join(model.heads(), ", "),
                     loaded.file_classes, experiment.model.from, model.num_classes());
}

/// A parameter beside the part that the weights are of, frozen with its initial values; empty: there is none.
std::string frozen_and_drawn(const Setup& setup) {
  const std::string& part = setup.loaded_weights().part;
  if (part.empty() || setup.heads() != nullptr) return {};
  for (const Parameter* const parameter : setup.model().parameters())
    if (!parameter->trainable() && !parameter->path().starts_with(part + ".")) return parameter->path();
  return {};
}

/// Whether the experiment's model can be one of images of this side.
bool takes_side(const Experiment& experiment, std::int64_t side) {
  std::vector<HyperParameter> values = experiment.architecture.hyper_parameters;
  for (HyperParameter& value : values)
    if (value.key == "image_size") value.value = side;
  return describe_model(experiment.model.name, values).problems.empty();
}

/// Images to classify that are enlarged to twice their size at least, of some whose headers are read; empty: they are
/// larger, or the model takes no smaller ones. Small objects are found in enlarged images.
std::string enlarged_images(const Experiment& experiment, const Dataset& training) {
  constexpr std::int64_t looked_at = 16, unit = 32;
  for (const FieldKind kind : {FieldKind::mask, FieldKind::boxes})
    if (find_field(training.info().fields, kind) != nullptr) return {};
  const std::int64_t side = decoder_need(training, false, looked_at).side;
  const ImageSize shown = experiment.data.images.image_size;
  if (side == 0) return {};
  for (std::int64_t enough = (side + unit - 1) / unit * unit; 2 * enough <= std::min(shown.height, shown.width);
       enough += unit)
    if (takes_side(experiment, enough))
      return fmt::format(
          "images of up to {} pixels are enlarged to the model's {}x{}: {}.image_size={} takes far less time and "
          "memory",
          side, shown.height, shown.width,
          find_value(experiment.model.options, "image_size") != nullptr ? "model" : "data", enough);
  return {};
}

/// A warm-up to which the whole run belongs; empty: there is none.
std::string endless_warmup(const Experiment& experiment) {
  const ScheduleKind& kind = schedules().get(experiment.schedule.name);
  const Options options = read_options(experiment.schedule.name, kind.options, experiment.schedule.options);
  const WarmupOptions& warmup = kind.warmup(options);
  const auto epochs = static_cast<double>(experiment.train.epochs);
  if (warmup.warmup_epochs < epochs) return {};
  return fmt::format(
      "the learning rate warms up during the whole run, from {} to {}: schedule.warmup_epochs is {}, train.epochs {}",
      warmup.warmup_lr, experiment.optimizer.lr, warmup.warmup_epochs, experiment.train.epochs);
}

}  // namespace

std::vector<std::string> announce_samples(const Experiment& experiment, const Dataset& training,
                                          const Dataset& validation, std::int64_t steps_per_epoch) {
  std::vector<std::string> lines;
  if (const std::int64_t repeats = experiment.data.repeats; repeats > 1)
    lines.push_back(
        fmt::format("data.repeats: each image comes {} times in a row; an epoch has about {} different ones", repeats,
                    steps_per_epoch * experiment.train.batch_size / repeats));
  const std::string &trained = training.info().description, &evaluated = validation.info().description;
  lines.push_back(trained);
  if (evaluated != trained) lines.push_back(evaluated);
  lines.push_back(enlarged_images(experiment, training));
  lines.push_back(endless_warmup(experiment));
  std::erase(lines, "");
  return lines;
}

std::vector<std::string> announce_weights(const Experiment& experiment, const Setup& setup, bool resumed,
                                          std::int64_t started_anew, const std::string& frozen) {
  std::vector<std::string> lines;
  if (!setup.freeze_matches().empty()) lines.push_back(frozen_parameters(experiment, setup, frozen));
  if (!resumed) {
    warn_of_other_statistics(experiment);
    if (!experiment.model.from.empty() && !dataset_kinds().get(experiment.data.name).reads_files)
      lines.push_back(fmt::format("the weights of {} are trained on made-up data ({}): data.path names data",
                                  experiment.model.from, experiment.data.name));
    const bool is_drawn = experiment.model.from.empty();
    if (is_drawn && setup.trainable_count() < setup.parameter_count())
      print_error("lacuna: warning: frozen parameters have random weights: model.from is not set\n");
    else if (const std::string drawn = frozen_and_drawn(setup); !drawn.empty())
      print_error(
          fmt::format("lacuna: warning: `{}` is frozen and has random weights, since {} holds `{}` alone: "
                      "freeze.train trains it\n",
                      drawn, experiment.model.from, setup.loaded_weights().part));
    else if (is_drawn)
      lines.push_back(fmt::format("weights are drawn (train.seed={}): model.from is not set", experiment.train.seed));
  }
  if (std::string line = new_classifier(experiment, setup); !line.empty()) lines.push_back(std::move(line));
  if (!setup.weights_file().empty() && !resumed)
    lines.push_back(fmt::format("weights from {}{}{}", setup.weights_file().string(),
                                setup.weights_notes().empty() ? "" : "; ", fmt::join(setup.weights_notes(), "; ")));
  if (std::string types = weights_text(weights_by_type(setup)); !types.empty()) {
    types.pop_back();
    lines.push_back(std::move(types));
  }
  for (std::string& note : setup.task().notes()) lines.push_back(std::move(note));
  if (const ProbeHeads* const heads = setup.heads()) {
    std::vector<double> rates = heads->rates();
    for (double& rate : rates) rate *= experiment.optimizer.lr;
    lines.push_back(fmt::format("{} heads on {} features, with learning rates up to {}", rates.size(),
                                heads->inputs().front().shape.back(), fmt::join(rates, ", ")));
  }
  if (started_anew > 0)
    lines.push_back(
        fmt::format("{} parameters were frozen before: their optimizer state starts at zero", started_anew));
  return lines;
}

}  // namespace lacuna::apps
