#include "apps/train/measure.h"

#include "apps/config/resolve.h"
#include "apps/output/host.h"
#include "autograd/policies/adaptive.h"
#include "autograd/tape.h"
#include "core/median.h"
#include "core/parallel.h"
#include "core/system_memory.h"
#include "data/collate.h"
#include "data/mix.h"
#include "data/pipeline.h"
#include "nn/weight_formats.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

namespace lacuna::apps {

namespace {

/// Whether batches lie in the host's memory, beside the device that the configuration names.
bool batches_on_host(const Experiment& experiment) { return device_of(experiment).kind == DeviceKind::cuda; }

/// Uniform values: numbers in [-2, 2), whole numbers in their range; for a model on `meta` zeros at most. Images and
/// classes have the draws that they had before there were other fields.
Tensor made_up(const SampleField& field, std::span<const std::int64_t> lengths, std::uint32_t part, Device device,
               Device of_model) {
  const Tensor values = batch_memory(field, lengths, device);
  if (of_model == Device::meta) {
    if (device != Device::meta && field.kind != FieldKind::pixels && !is_floating(field.dtype))
      values.fill(0);  // the host looks at labels
    return values;
  }
  if (field.dtype == DType::u8) {
    const RandomStream draws{1, part, random_site(field.kind == FieldKind::pixels ? "pixels" : field.name)};
    const auto below = static_cast<std::uint32_t>(field.below > 0 ? field.below : 256);
    for (std::int64_t i = 0; i < values.count(); ++i)
      values.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(draws.below(static_cast<std::uint64_t>(i), below));
  } else if (is_floating(field.dtype)) {
    const RandomStream draws{1, part, random_site(field.kind == FieldKind::pixels ? "pixels" : field.name)};
    with_float_type(field.dtype, [&]<class T>(Type<T>) {
      parallel_for(values.count(), 4096, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          values.data<T>()[i] = static_cast<T>(4 * draws.uniform(static_cast<std::uint64_t>(i)) - 2);
      });
    });
  } else {
    const RandomStream draws{1, part, random_site(field.kind == FieldKind::label ? "classes" : field.name)};
    const auto below = static_cast<std::uint32_t>(std::max<std::int64_t>(1, field.below));
    for (std::int64_t i = 0; i < values.count(); ++i)
      values.data<std::int64_t>()[i] = draws.below(static_cast<std::uint64_t>(i), below);
  }
  return values;
}

/// Boxes of a third of an image [height, width, ...] that lie in it.
void place_boxes(const Shape& image, std::uint32_t part, const Tensor& boxes) {
  const RandomStream draws{1, part, random_site("boxes")};
  for (std::int64_t i = 0; i < boxes.count(); ++i) {
    const std::int64_t corner = i % 4 < 2 ? i : i - 2;
    const float least = 2.0F / 3 * draws.uniform(static_cast<std::uint64_t>(corner));
    boxes.data<float>()[i] = static_cast<float>(image[i % 2 == 0 ? 1 : 0]) * (i % 4 < 2 ? least : least + 1.0F / 3);
  }
}

/// Tokens of each sample: `data.length` in turn, or with a budget, which a shuffled batch keeps too, the longest of
/// these; otherwise the longest that the data set has and the model takes.
std::vector<std::int64_t> example_lengths(const Experiment& experiment, const SampleFields& inputs,
                                          std::int64_t samples) {
  const std::vector<std::int64_t>& given = experiment.data.source.lengths;
  std::int64_t longest = inputs.front().shape.front();
  const auto same = std::ranges::find(experiment.samples.fields, inputs.front().name, &SampleField::name);
  if (inputs.front().collation != Collation::stacked && same != experiment.samples.fields.end())
    longest = std::min(longest, same->shape.front());
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(samples), longest);
  if (!given.empty() && !experiment.memory.budget.empty()) std::ranges::fill(lengths, std::ranges::max(given));
  for (std::size_t i = 0; i < lengths.size() && !given.empty() && experiment.memory.budget.empty(); ++i)
    lengths[i] = given[i % given.size()];
  return lengths;
}

/// Whether `field` numbers rows, or has one for each field that does: as many as the data set says.
bool follows_edges(const SampleField& field, const SampleFields& fields) {
  return std::ranges::any_of(fields, [&](const SampleField& other) {
    return other.kind == FieldKind::edges && lengths_of(other) == lengths_of(field);
  });
}

/// The first samples of the data set: edges between rows cannot be made up.
Batch first_samples(const Experiment& experiment, Split split, std::int64_t count) {
  const auto samples = open_dataset(experiment.data.name, dataset_options(experiment, split));
  std::vector<Sample> all(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    all[static_cast<std::size_t>(i)].begin(0);
    samples->read(i % samples->size(), all[static_cast<std::size_t>(i)]);
  }
  return collate(all, samples->info().fields);
}

/// Bytes of a batch while it is prepared ahead.
std::int64_t bytes_ahead(const Batch& batch, const SampleFields& inputs, const SampleFields& targets) {
  const SampleField* const images = find_field(inputs, FieldKind::pixels);
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : batch) {
    const auto target = std::ranges::find(targets, name, &SampleField::name);
    if (images != nullptr && name == images->name)
      bytes += tensor.count();
    else if (target != targets.end() && target->collation == Collation::stacked)  // before they are mixed
      bytes += batch.samples * target->shape.count() * size_of(target->dtype);
    else
      bytes += tensor.bytes();
  }
  return bytes;
}

/// Micro-batch `part` of a step or an evaluation: `samples` made-up samples with the inputs of the model and the
/// targets of the task, in the form in which the loader hands on those of the data set.
Batch example(const Experiment& experiment, const Model& model, const Task& task, Split split, std::int64_t samples,
              std::int64_t part = 0) {
  const Device of_model = model.context().device, device = batches_on_host(experiment) ? Device::cpu : of_model;
  const AllocationScope scope({Purpose::data, Label("batch"), {}});
  const bool mixes = split == Split::train && experiment.data.mix.any();
  const std::vector<std::int64_t> lengths = example_lengths(experiment, model.inputs(), samples);
  const SampleFields targets = task.targets();
  const bool has_edges = find_field(experiment.samples.fields, FieldKind::edges) != nullptr;
  if (has_edges && of_model != Device::meta) return first_samples(experiment, split, samples);
  Batch made;
  made.samples = samples;
  made.first = part * samples;
  for (const SampleFields& fields : {model.inputs(), targets})
    for (SampleField field : fields) {
      if (field.kind == FieldKind::pixels && gives_pixels(experiment, split)) {
        field.dtype = DType::u8;
        std::vector<float> table(static_cast<std::size_t>(field.shape.back()), 4 / 255.0F);
        table.resize(2 * table.size(), -2);
        set_image_scale(table, made);
        if (mixes) made.set("image_mixes", Tensor::zeros({samples, 6}, DType::f32, Device::cpu, Purpose::data));
      }
      std::vector<std::int64_t> own = lengths;
      const bool has_rows =
          field.collation == Collation::packed && model.inputs().front().collation == Collation::stacked;
      if (has_rows || (has_edges && follows_edges(field, experiment.samples.fields)))
        std::ranges::fill(own, field_of(experiment.samples.fields, field.name).shape.front());
      const Tensor values = made_up(field, own, static_cast<std::uint32_t>(part), device, of_model);
      if (field.kind == FieldKind::boxes && of_model != Device::meta)
        place_boxes(find_field(model.inputs(), FieldKind::pixels)->shape, static_cast<std::uint32_t>(part), values);
      set_field(made, field, values, own);
    }
  if (const SampleField* const label = mixes ? find_field(targets, FieldKind::label) : nullptr)
    made.set(label->name, mixed_labels(made[label->name], experiment.model.num_classes));
  return made;
}

}  // namespace

std::vector<Batch> example(const Experiment& experiment, const Setup& setup) {
  const std::int64_t parts = experiment.train.accumulate;
  std::vector<Batch> batch;
  for (std::int64_t part = 0; part < parts; ++part)
    batch.push_back(example(experiment, setup.model(), setup.task(), Split::train,
                            experiment.train.batch_size / parts / experiment.process.ranks, part));
  return batch;
}

StepBatches step_batches(const Experiment& experiment, const Setup& setup, const Trainer& trainer) {
  StepBatches made{.parts = example(experiment, setup), .held = {}};
  const bool on_meta = setup.model().context().device == Device::meta;
  if (!on_meta || !batches_on_host(experiment) || !trainer.captures_steps()) return made;
  if (std::ranges::any_of(made.parts, [](const Batch& part) { return !part.packed().empty(); })) return made;
  std::optional<std::vector<Batch>> inputs = trainer.captured_inputs(made.parts);
  if (!inputs) return made;
  if (trainer.sends_ahead()) made.held = *trainer.captured_inputs(made.parts);
  made.held.insert(made.held.end(), inputs->begin(), inputs->end());
  made.parts = std::move(*inputs);
  return made;
}

Measurement describe(const Experiment& experiment, const Setup& setup) {
  Measurement result;
  result.model = experiment.model.name;
  result.device = setup.model().context().device;
  result.precision = experiment.train.precision;
  result.batch_size = experiment.train.batch_size;
  result.threads = threads();
  result.workers = experiment.data.workers;
  result.policy = setup.policy().name();
  result.divides_anew = adaptive_of(setup.policy()) != nullptr;
  result.plan = experiment.plan;
  result.parameters = setup.parameter_count();
  result.features = setup.planned_features();
  result.trainable = setup.trainable_count();
  result.weights = weights_by_type(setup);
  return result;
}

void SavedByPath::note(Tape& tape, Device device) {
  const Ledger& account = ledger(device);
  if (at(account.live(), Purpose::saved) <= most_) return;
  most_ = at(account.live(), Purpose::saved);
  const auto place_of = [](Label op, Label path) {
    return !path.text().empty() ? path : !op.text().empty() ? op : Label("input");
  };
  std::map<Label, std::int64_t> held;
  for (const Held& each : account.holders())
    if (each.owner.purpose == Purpose::saved) held[place_of(each.owner.op, each.owner.path)] += each.bytes;
  bytes_.clear();
  for (const Tape::SavedTensorReport& slot : tape.report())
    if (const auto found = held.extract(place_of(slot.info.op, slot.info.path)))
      bytes_.emplace_back(found.key(), found.mapped());
  bytes_.insert(bytes_.end(), held.begin(), held.end());  // tensors without a slot of their own
}

StepHooks SavedByPath::hooks(Device device, Observer* observer) {
  return {.after_forward = [this, device](Tape& tape) { note(tape, device); }, .observer = observer};
}

Measurement measure(const Experiment& experiment, Device device, const MeasureOptions& options) {
  Setup setup(experiment, device);
  return measure(setup, experiment, options);
}

Measurement measure(Setup& setup, const Experiment& experiment, const MeasureOptions& options) {
  stop_if_host_wants();
  const Device device = setup.model().context().device;
  const PlannedDeviceScope planned = planned_device(experiment);
  if (setup.trainable_count() == 0 && !experiment.image_gradient)
    reject(
        "freeze: no parameter is left to train; `freeze.train` names those that are, `freeze.freeze` those that are "
        "not");
  const auto batch = [&] { return example(experiment, setup); };
  Measurement result = describe(experiment, setup);
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto since = [&](auto begin) { return std::chrono::duration<double>(now() - begin).count(); };
  const bool measures = adaptive_of(setup.policy()) != nullptr;
  std::vector<double> steps, measurements;
  const auto seconds_of_measuring = [&](const StepResult& of) {
    if (of.calibration_seconds > 0) measurements.push_back(of.calibration_seconds);
    return of.calibration_seconds;
  };
  const int warm_up = std::max(options.warm_up, measures ? 1 : 0);
  if (!batches_on_host(experiment))
    for (const Batch& part : batch()) {
      result.batch += part.bytes();
      result.ahead += bytes_ahead(part, setup.model().inputs(), setup.task().targets());
    }
  setup.task().prepare(setup.model());
  Ledger& account = ledger(device);
  account.reset_peak();
  Trainer trainer = setup.trainer();
  SavedByPath saved;
  for (int i = 0; i < warm_up; ++i)
    seconds_of_measuring(trainer.step(batch(), i, experiment.optimizer.lr, saved.hooks(device)));
  if (!measures) account.reset_peak();  // a step that measures holds more, and is the run's as the others are
  StepResult last;
  for (int i = 0; i < options.steps; ++i) {
    StepBatches batches = step_batches(experiment, setup, trainer);
    const auto begin = now();
    last = trainer.step(std::move(batches.parts), warm_up + i, experiment.optimizer.lr,
                        saved.hooks(device, options.observer));
    steps.push_back(since(begin) - seconds_of_measuring(last));
  }
  if (device != Device::meta)
    read_times(std::move(steps), std::move(measurements), setup.policy(), experiment.train.accumulate, result);
  refuse_unmatched(setup.policy());  // nested regions are seen in backward
  read_account(account, last.saved_bytes, result);
  result.saved_by_path = saved.bytes();
  if (device == Device::meta) {
    const EvaluationBytes evaluation = measure_evaluation(setup, experiment);
    result.evaluation_ahead = evaluation.ahead;
    result.evaluation_peak = evaluation.peak;
    return result;
  }
  result.process_peak = process_peak();
  return result;
}

EvaluationBytes measure_evaluation(Setup& setup, const Experiment& experiment) {
  const PlannedDeviceScope planned = planned_device(experiment);
  Ledger& account = ledger(setup.model().context().device);
  std::int64_t samples = experiment.train.batch_size / experiment.train.accumulate / experiment.process.ranks;
  EvaluationBytes bytes;
  const auto pass = [&](Model& model, const auto& run) {
    model.set_training(false);
    account.reset_peak();
    Batch batch = example(experiment, model, setup.task(), Split::validation, samples);
    if (!batches_on_host(experiment))
      bytes.ahead = std::max(bytes.ahead, bytes_ahead(batch, model.inputs(), setup.task().targets()));
    run(std::move(batch));
    bytes.peak = std::max(bytes.peak, account.peak());
  };
  if (setup.heads() != nullptr)  // features, which come from both splits
    pass(setup.classifier(), [&](Batch batch) { setup.classifier().forward(std::move(batch)); });
  if (const std::int64_t all = experiment.data.source.validation_size; all > 0)
    samples = std::min(samples, all / experiment.process.ranks);
  pass(setup.model(), [&](Batch batch) { setup.task().run(setup.model(), std::move(batch), TaskMode::evaluate); });
  return bytes;
}

namespace {

bool is_prepared_ahead(const Held& held) {
  const std::string_view op = held.owner.op.text();
  return held.owner.purpose == Purpose::data && (op == "loader" || op == "sample");
}

}  // namespace

std::int64_t prepared_ahead(const std::vector<Held>& holders) {
  std::int64_t bytes = 0;
  for (const Held& held : holders)
    if (is_prepared_ahead(held)) bytes += held.bytes;
  return bytes;
}

void read_account(const Ledger& account, std::int64_t saved_bytes, Measurement& measurement) {
  measurement.memory = account.highest();
  at(measurement.memory, Purpose::saved) = saved_bytes;
  measurement.at_peak = account.holders_at_peak();
  const std::int64_t ahead = prepared_ahead(measurement.at_peak);
  std::erase_if(measurement.at_peak, is_prepared_ahead);
  at(measurement.memory, Purpose::data) -= ahead;
  measurement.peak = account.peak() - ahead;
  measurement.brought_to_peak = account.brought_to_peak();
}

void read_times(std::vector<double> steps, std::vector<double> measurements, const MemoryPolicy& policy,
                std::int64_t accumulate, Measurement& measurement) {
  std::ranges::sort(steps);
  measurement.step_seconds = std::move(steps);
  if (measurements.empty()) return;
  measurement.measuring_seconds = median(std::move(measurements));
  measurement.measuring_share = amortized(measurement.measuring_seconds, policy, accumulate);
}

double amortized(double measuring_seconds, const MemoryPolicy& policy, std::int64_t accumulate) {
  const Adaptive* const adaptive = adaptive_of(policy);
  const std::int64_t every = adaptive == nullptr ? 0 : adaptive->calibrate_every();
  const std::int64_t steps = (every + accumulate - 1) / accumulate;  // it measures in the first pass of a step
  return every == 0 ? 0 : measuring_seconds / static_cast<double>(steps);
}

std::int64_t saved_at_peak(const Measurement& m) {
  std::int64_t saved = 0;
  for (const Held& held : m.at_peak)
    if (held.owner.purpose == Purpose::saved) saved += held.bytes;
  return saved;
}

std::string place_of_peak(const Measurement& m) {
  const auto& [purpose, op, path] = m.brought_to_peak;
  if (op.text().empty() || path.text().empty())
    return std::string(!op.text().empty() ? op.text() : !path.text().empty() ? path.text() : name_of(purpose));
  return fmt::format("{} of {}", op.text(), path.text());
}

nlohmann::ordered_json to_json(const Measurement& m) {
  Bytes at_peak{};
  for (const Held& held : m.at_peak) at(at_peak, held.owner.purpose) += held.bytes;
  nlohmann::ordered_json memory;
  for (int i = 0; i < purpose_count; ++i)
    memory[std::string(name_of(static_cast<Purpose>(i)))] = m.memory[static_cast<std::size_t>(i)];
  memory["peak"] = m.peak;
  nlohmann::ordered_json then;
  for (int i = 0; i < purpose_count; ++i)
    then[std::string(name_of(static_cast<Purpose>(i)))] = at_peak[static_cast<std::size_t>(i)];
  then["taken_for"] = place_of_peak(m);
  nlohmann::ordered_json json{{"model", m.model},           {"device", name_of(m.device)},
                              {"precision", m.precision},   {"batch_size", m.batch_size},
                              {"threads", m.threads},       {"policy", m.policy},
                              {"parameters", m.parameters}, {"trainable_parameters", m.trainable},
                              {"memory", memory},           {"at_peak", then}};
  for (const auto& [type, stored] : m.weights)
    json["weights"][type] = {{"parameters", stored.parameters}, {"bytes", stored.bytes}};
  if (m.features > 0) json["features"] = m.features;
  if (m.plan) json["plan"] = nlohmann::ordered_json::parse(lacuna::to_json(*m.plan));
  if (!m.step_seconds.empty()) {
    const double middle = median(m.step_seconds);
    json["process_peak"] = m.process_peak;
    json["samples_per_second"] = static_cast<double>(m.batch_size) / (middle + m.measuring_share);
    json["step_seconds"] = {{"min", m.step_seconds.front()}, {"median", middle}, {"max", m.step_seconds.back()}};
    if (m.measuring_seconds > 0) json["step_seconds"]["measuring"] = m.measuring_seconds;
  }
  for (const auto& [path, bytes] : m.saved_by_path) json["saved_by_path"][std::string(path.text())] = bytes;
  return json;
}

WeightsByType weights_by_type(const Setup& setup) {
  std::vector<Parameter*> parameters = setup.model().parameters();
  if (&setup.classifier() != &setup.model())
    for (Parameter* const one : setup.classifier().parameters()) parameters.push_back(one);
  WeightsByType types;
  for (const Parameter* const parameter : parameters) {
    StoredWeights& stored = types[std::string(type_name(parameter->tensor()))];
    stored.parameters += parameter->tensor().count();
    stored.bytes += parameter->tensor().bytes();
  }
  return types;
}

std::string weights_text(const WeightsByType& weights) {
  if (weights.size() == 1 && weights.begin()->first == "f32") return {};
  std::vector<std::string> parts;
  for (const auto& [type, stored] : weights)
    parts.push_back(fmt::format("{} in {} ({})", stored.parameters, type, format_bytes(stored.bytes)));
  return fmt::format("Weights: {}\n", fmt::join(parts, ", "));
}

std::string memory_table(const std::vector<Measurement>& measurements, const std::vector<std::string>& titles) {
  std::size_t width = 14;
  for (const std::string& title : titles) width = std::max(width, title.size() + 2);
  constexpr std::string_view meanings[] = {"weights and running statistics",
                                           "of the trained parameters",
                                           "state of the optimizer",
                                           "kept from forward for backward",
                                           "temporary tensors",
                                           "scratch memory of kernels",
                                           "the batch"};
  std::string text = fmt::format("{:<14}", "memory");
  for (const std::string& title : titles) text += fmt::format("{:>{}}", title, width);
  const auto row = [&](std::string_view name, auto&& bytes, std::string_view meaning) {
    text += fmt::format("\n{:<14}", name);
    for (const Measurement& m : measurements) text += fmt::format("{:>{}}", format_bytes(bytes(m)), width);
    text += fmt::format("   {}", meaning);
  };
  for (std::size_t i = 0; i < purpose_count; ++i)
    row(
        name_of(static_cast<Purpose>(i)), [&](const Measurement& m) { return m.memory[i]; }, meanings[i]);
  row(
      "peak", [](const Measurement& m) { return m.peak; }, "the most at once");
  row("saved at peak", saved_at_peak, "part of the peak that a memory policy can lower");
  return text + "\n";
}

}  // namespace lacuna::apps
