#include "apps/train/planning.h"

#include "apps/config/resolve.h"
#include "apps/output/host.h"
#include "apps/output/output.h"
#include "apps/train/fit.h"
#include "apps/train/machine_costs.h"
#include "apps/train/measure.h"
#include "apps/train/offload.h"
#include "autograd/calibration.h"
#include "autograd/policies/planned.h"
#include "autograd/policies/rules.h"
#include "autograd/tape.h"
#include "data/dataset.h"
#include "data/encoded_images.h"
#include "data/images/decoder_memory.h"
#include "data/pipeline.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;

AutoOptions options_of(const Experiment& experiment) {
  return read_options<AutoOptions>("memory policy auto", experiment.memory.options);
}

/// The experiment without its policy. A budget stays: with one, a batch is as large as any can be.
Experiment without_policy(Experiment experiment) {
  experiment.memory = budget_alone(experiment.memory);
  experiment.plan.reset();
  return experiment;
}

/// Steps of `setup`, which is on `meta`, under any policy.
class MetaModel {
 public:
  MetaModel(Setup& setup, const Experiment& experiment) : experiment_(without_policy(experiment)), setup_(setup) {}

  StepBytes step(MemoryPolicy& policy, Observer* observer) {
    stop_if_host_wants();
    const PlannedDeviceScope planned = planned_device(experiment_);
    Ledger& account = ledger(Device::meta);
    account.reset_peak();
    Trainer trainer = setup_.trainer(policy);
    StepBatches batches = step_batches(experiment_, setup_, trainer);
    const StepResult result = trainer.step(std::move(batches.parts), 0, 0, {.observer = observer});
    return {result.saved_bytes, account.peak()};
  }
  /// A step and an evaluation under `exact`.
  Measurement measure() { return apps::measure(setup_, experiment_); }
  Setup& setup() { return setup_; }

 private:
  Experiment experiment_;
  Setup& setup_;
};

/// A batch of the training set; made-up samples if its files are not known, or if the model reads computed features.
Batch example_batch(const Experiment& experiment, const Setup& setup, std::string& source) {
  const Configuration::Data& data = experiment.data;
  if (setup.heads() != nullptr || (dataset_kinds().get(data.name).reads_files && data.source.path.empty())) {
    source = "measured on made-up samples";
    return std::move(example(experiment, setup).front());
  }
  const Batches batches =
      batches_of(experiment, open_dataset(data.name, dataset_options(experiment, Split::train)), Split::train);
  source = fmt::format("measured on {} samples of {}", batches.size(), data.name);
  Sample sample;
  return batches.read(0, 0, batches.allocate(), sample);
}

/// Multiply-adds of a step.
class MacCount : public Observer {
 public:
  void before(Phase, const Operation&, Label) override {}
  void after(Phase, const Operation&, Label, const Work& work, std::span<const Tensor>) override { all += work.macs; }
  std::int64_t all = 0;
};

/// The sensitivities of saved tensors from one forward and backward pass over `samples`: the same in every run with as
/// many threads. Empty if nothing is computed.
MeasuredSensitivities measure_sensitivities(const Experiment& experiment, std::int64_t samples, ErrorMeasure measure) {
  const Device device = available_device(experiment);
  if (device == Device::meta) return {};
  Experiment small = without_policy(experiment);
  small.train.batch_size = samples;
  small.train.accumulate = 1;
  small.train.ema_decay = 0;
  small.ranks = {};
  small.process = {};
  small.optimizer = {};
  small.optimizer.name = "sgd";  // without momentum it has no state
  const std::unique_ptr<MemoryPolicy> policy =
      make_policy("fixed", {{"bits", 8.0}, {"group_size", static_cast<double>(options_of(experiment).group_size)}});
  Setup setup(small, device);
  const RandomStateScope random({.seed = static_cast<std::uint64_t>(small.train.seed), .step = 0});
  Tape tape(*policy);
  BackwardCalibration calibration(measure);
  MeasuredSensitivities result;
  const Variable loss = [&] {
    const Recording recording(tape);
    return setup.trainer().loss(example_batch(small, setup, result.source));
  }();
  if (!loss.requires_grad()) return {};
  tape.backward(loss, {.before_node = std::ref(calibration)});
  double gradient = 0;  // squared, in the measure of the errors
  for (const Parameter* parameter : setup.model().parameters())
    if (parameter->trainable() && parameter->grad().defined())
      gradient += counted_error(parameter->grad(), {}, parameter->grad(), measure);
  if (!std::isfinite(gradient) || gradient == 0) return {};
  result.values = calibration.sensitivities();
  for (auto& [key, value] : result.values) value /= gradient;
  return result;
}

/// Other settings to change if not even the smallest plan fits.
std::string what_takes_less(const Experiment& experiment, const Measurement& measured, std::int64_t least) {
  const bool of_saved = experiment.memory.budget_of == "saved",
             evaluates = !of_saved && evaluation_is_highest(measured);
  std::string text;
  if (!options_of(experiment).codes && !evaluates) text += " memory.codes: true may come to less.";
  if (experiment.train.batch_size > experiment.train.accumulate)
    text += " A larger train.accumulate or a smaller train.batch_size takes less.";
  if (evaluates) text += " An evaluation takes the most, with as many images at once as a micro-batch has.";
  const std::int64_t of_training = at(measured.memory, Purpose::gradients) + at(measured.memory, Purpose::optimizer);
  constexpr std::int64_t worth_saying = 20;  // a part of all
  if (of_saved || of_training < least / worth_saying) return text;
  std::vector<std::string_view> ways;
  if (!experiment.optimizer.in_backward && !evaluates) ways.emplace_back("optimizer.in_backward");
  if (experiment.optimizer.state == "f32") ways.emplace_back("optimizer.state: int8");
  ways.emplace_back("a frozen part of the model");
  return text + fmt::format(" Parameters, gradients and the optimizer's state are {} of it: less with {}.",
                            format_bytes(at(measured.memory, Purpose::parameters) + of_training),
                            fmt::join(ways, " or "));
}

MemoryPlan read_plan(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    reject("memory.plan: {0} is a folder; expected a file, as {0}/plan.json", path.string());
  std::ifstream stream(path);
  if (!stream) reject("memory.plan: cannot read {}", path.string());
  return parse_plan(std::string(std::istreambuf_iterator<char>(stream), {}), path.string());
}

/// Bytes of the workers' image files, and of the decoders that hold a whole image, which take turns from here on.
std::int64_t memory_of_decoders(const Experiment& experiment) {
  const Configuration::Data& data = experiment.data;
  if (dataset_kinds().get(data.name).reads_files && data.source.path.empty()) return 0;
  DecoderNeed most;
  for (const Split split : {Split::train, Split::validation}) {
    const auto dataset = open_dataset(data.name, dataset_options(experiment, split));
    const DecoderNeed need = decoder_need(*dataset, data.images.exif == ExifUse::apply);
    most = {std::max(most.file, need.file), std::max(most.held, need.held)};
  }
  set_decoder_limit(most.held);
  // The workers of training wait with a file each while those of an evaluation read theirs.
  return most.held + 2 * data.workers * most.file;
}

class BudgetPlanner {
 public:
  BudgetPlanner(Setup& setup, const Experiment& experiment, const CostTable& costs)
      : experiment_(experiment),
        options_(options_of(experiment)),
        model_(setup, experiment),
        costs_(with_store(experiment.memory, costs)) {
    const Configuration::Memory& memory = experiment.memory;
    of_saved_ = memory.budget_of == "saved";
    budget_ = memory_budget(experiment).value_or(0);
    if (memory.budget_of == "process" && budget_ > 0) {
      beside_ = memory_beside_tensors() + memory_of_decoders(experiment);
      if (budget_ <= beside_)
        reject("memory.budget: the process takes about {} beside its tensors: expected more, got {}",
               format_bytes(beside_), memory.budget);
      budget_ -= beside_;
    }
  }

  /// Why a plan is not one for this configuration; empty where it is, and then its bytes are filled in.
  std::string problem_of(MemoryPlan& plan) {
    if (plan.quantizes() && !options_.codes) return "it quantizes tensors, and memory.codes is false";
    if (plan.quantizes() && plan.group_size != options_.group_size)
      return fmt::format("its groups have {} elements, memory.group_size is {}", plan.group_size, options_.group_size);
    if (plan.offloads() && experiment_.memory.offload.empty())
      return "it offloads tensors, and memory.offload is empty";
    measure_with_store(plan.offloads());
    PlannedPolicy policy(plan, "planned", store_.get());
    const std::int64_t there = std::exchange(plan.bytes, counted(model_.step(policy, nullptr)));
    if (plan.bytes != there)  // what the plan says of itself was true of another batch, say
      plan.text = fmt::format("a plan that was made for other settings; here it takes {}", format_bytes(plan.bytes));
    if (const std::vector<std::string> lines = policy.unmatched(); !lines.empty())
      return fmt::format("{}", fmt::join(lines, "; "));
    if (budget_ > 0 && plan.bytes > budget_)
      return fmt::format("it takes {}, and memory.budget leaves {}", format_bytes(plan.bytes), format_bytes(budget_));
    return {};
  }

  /// With `memory.offload`, the cheaper of the plans with and without a store. `measures`: whether sensitivities are
  /// measured by a step on the device. `fills`: whether a step that fits takes more of a card, for time.
  PlannerResult plan(bool measures, bool fills = true) {
    PlannerResult result = plan_with_store(false, measures, fills);
    const auto needs_nothing = [&] { return result.fits && !result.plan.quantizes() && result.plan.regions.empty(); };
    if (experiment_.memory.offload.empty() || needs_nothing()) return result;
    PlannerResult offloaded = plan_with_store(true, measures, fills);
    const bool is_better = result.fits == offloaded.fits ? result.fits ? offloaded.plan.cost() < result.plan.cost()
                                                                       : offloaded.plan.bytes < result.plan.bytes
                                                         : offloaded.fits;
    return is_better ? offloaded : result;
  }

  MemoryPlan make() {
    PlannerResult result = plan(true);
    if (result.fits) return std::move(result.plan);
    const MemoryPlan& least = result.plan;
    reject(
        "memory.budget: {}{} do not suffice for a training step with batches of {}: the smallest plan takes {} ({} "
        "bytes), with {} recomputed regions{}.{}",
        format_bytes(budget_ + beside_),
        beside_ > 0 ? fmt::format(", less {} that the process takes beside its tensors,", format_bytes(beside_)) : "",
        experiment_.train.batch_size, format_bytes(least.bytes), least.bytes, least.regions.size(),
        least.quantizes() ? " and one bit an element" : "", what_takes_less(experiment_, measured_, least.bytes));
  }

 private:
  /// The buffers of a store count in all that is measured while it is there.
  void measure_with_store(bool with_store) {
    store_.reset();
    if (with_store) store_ = make_store(experiment_.memory, Device::meta);
    measured_ = model_.measure();
  }

  PlannerResult plan_with_store(bool with_store, bool measures, bool fills) {
    measure_with_store(with_store);
    const ErrorMeasure measure = model_.setup().trainer().error_measure();
    // The gradient's error under `fixed` with 4 bits, by row that of a ViT, else that of ResNet-20.
    const double error = measure == ErrorMeasure::relative ? 0.2115 : 0.0697;
    PlannerOptions options{
        .step = [this](MemoryPolicy& policy, Observer* observer) { return model_.step(policy, observer); },
        .budget = budget_,
        .of_saved = of_saved_,
        .beside_step = prefetched(measured_),
        .floor = evaluation_need(measured_),
        .fill = fills && fills_device(experiment_),
        .quantize = options_.codes,
        .group_size = options_.group_size,
        .micro_batches = experiment_.train.accumulate,
        .store = store_.get(),
        .store_budget = store_budget(experiment_.memory),
        .costs = costs_,
        .usual_sensitivity = error * error / code_variance(4),
        .noise_price = options_.noise_price};
    if (measures)
      options.sensitivities = [&] {
        if (!sensitivities_) sensitivities_ = sensitivities(measure);
        return *sensitivities_;
      };
    return lacuna::plan_memory(options);
  }

  /// By up to four samples, as many as take about half a minute; nothing where one takes longer: that of a large
  /// language model needs GiB, too.
  MeasuredSensitivities sensitivities(ErrorMeasure measure) {
    constexpr std::int64_t enough = 4;
    constexpr double most = 5e11, is_long = 5e10;  // multiply-adds of a step; measuring takes four times as many
    MacCount macs;
    const std::unique_ptr<MemoryPolicy> exact = make_policy("exact");
    model_.step(*exact, &macs);
    const Configuration::Train& train = experiment_.train;
    const double of_sample =
        static_cast<double>(macs.all) * experiment_.process.ranks / static_cast<double>(train.batch_size);
    const auto bearable = static_cast<std::int64_t>(std::min<double>(enough, most / of_sample));
    std::int64_t samples = std::min(bearable, train.batch_size / train.accumulate / experiment_.process.ranks);
    if (experiment_.data.mix.any()) samples -= samples % 2;  // mixing pairs samples
    if (samples == 0) return {};
    if (static_cast<double>(samples) * of_sample > is_long && available_device(experiment_) != Device::meta)
      print_error(
          fmt::format("lacuna: note: memory.policy: auto measures how sensitive gradients are to quantization, by a "
                      "step of {} samples\n",
                      samples));
    return measure_sensitivities(experiment_, samples, measure);
  }

  std::int64_t counted(const StepBytes& bytes) const {
    return of_saved_ ? bytes.saved : std::max(bytes.peak + prefetched(measured_), evaluation_need(measured_));
  }

  const Experiment& experiment_;
  AutoOptions options_;
  MetaModel model_;
  CostTable costs_;
  std::shared_ptr<OffloadStore> store_{};
  Measurement measured_;  // under `exact`
  std::optional<MeasuredSensitivities> sensitivities_{};
  bool of_saved_ = false;
  std::int64_t budget_ = 0;  // of tensors
  std::int64_t beside_ = 0;  // of the process, beside them
};

}  // namespace

std::int64_t parse_bytes(const std::string& text, std::string_view key) {
  struct Unit {
    std::string_view name;
    double bytes;
  };
  constexpr Unit units[] = {{"", 1},         {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                            {"TiB", 0x1p40}, {"KB", 1e3}, {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
  std::size_t end = 0;
  double number = 0;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception&) {
  }
  const std::size_t unit_begin = std::min(text.find_first_not_of(' ', end), text.size());
  constexpr double least_meant = 4096;  // a `6` lacks its GiB, an `800` its MiB
  if (end > 0 && unit_begin == text.size() && (number != std::floor(number) || number < least_meant))
    reject(
        "{1}: expected bytes as 6GiB, 1.5GB or 800MiB, got {0}: a number without a unit is bytes; {0}B, if so few are "
        "meant",
        text, key);
  for (const Unit& unit : units)
    if (end > 0 && text.substr(unit_begin) == unit.name && number * unit.bytes >= 1 && number * unit.bytes < 0x1p62)
      return static_cast<std::int64_t>(number * unit.bytes);
  reject("{}: expected bytes as 6GiB, 1.5GB or 800MiB, got {}", key, text);
}

Configuration::Memory budget_alone(const Configuration::Memory& memory) {
  Configuration::Memory alone;
  alone.budget = memory.budget;
  return alone;
}

std::optional<std::int64_t> memory_budget(const Experiment& experiment) {
  const std::string& budget = experiment.memory.budget;
  if (!fills_device(experiment)) return budget.empty() ? std::optional<std::int64_t>() : parse_bytes(budget);
  const std::optional<Card> card = card_of(experiment);
  if (!card)
    reject("memory.budget: {}: there is no {} here; expected bytes, as 6GiB, or a card that `lacuna plan --card` names",
           whole_device, experiment.train.device);
  return std::max<std::int64_t>(1, room_on(*card, experiment.process.ranks));
}

namespace {

MemoryPlan plan_of(Setup& setup, const Experiment& experiment, const CostTable& costs, const fs::path& recorded) {
  const Configuration::Memory& memory = experiment.memory;
  if (memory.plan_file.empty() && !memory_budget(experiment))
    reject("memory.policy: auto needs memory.budget: how much memory there is, as 6GiB");
  if (!memory.rules.empty() || !memory.recompute.empty())
    reject("memory.policy: auto chooses `rules` and `recompute` itself: expected none");
  BudgetPlanner planner(setup, experiment, costs);
  std::error_code ignored;
  const bool has_recorded = !recorded.empty() && fs::exists(recorded, ignored);
  // A run that goes on has its plan; the file that it began with may be gone.
  if (!memory.plan_file.empty() && (!has_recorded || fs::exists(memory.plan_file, ignored))) {
    MemoryPlan plan = read_plan(memory.plan_file);
    if (const std::string problem = planner.problem_of(plan); !problem.empty())
      reject("memory.plan: {} cannot be used: {}", memory.plan_file, problem);
    return plan;
  }
  std::string unused;
  if (has_recorded) {
    try {
      MemoryPlan plan = read_plan(recorded);
      const std::string problem = planner.problem_of(plan);
      if (problem.empty()) return plan;
      unused = fmt::format("the plan of {} no longer fits ({}): planned anew: ", recorded.string(), problem);
    } catch (const Error& error) {
      unused = fmt::format("{}: planned anew: ", error.what());
    }
  }
  if (!memory_budget(experiment)) reject("memory.plan: cannot read {}; {}", memory.plan_file, unused);
  MemoryPlan plan = planner.make();
  plan.text = unused + plan.text;
  return plan;
}

}  // namespace

std::unique_ptr<Setup> setup_to_plan(const Experiment& experiment) {
  return std::make_unique<Setup>(without_policy(experiment), Device::meta);
}

void plan_memory(Setup& setup, Experiment& experiment, const CostTable& costs, const fs::path& recorded) {
  if (experiment.memory.policy == "auto") experiment.plan = plan_of(setup, experiment, costs, recorded);
}

void plan_memory(Experiment& experiment, const CostTable& costs) {
  if (experiment.memory.policy != "auto") return;
  plan_memory(*setup_to_plan(experiment), experiment, costs);
}

std::int64_t bytes_without_codes(Setup& setup, Experiment experiment) {
  experiment.memory.offload.clear();
  experiment.memory.options["codes"] = false;
  return BudgetPlanner(setup, experiment, machine_costs()).plan(false, false).plan.bytes;
}

PlannerResult plan_within(Setup& setup, Experiment experiment, const std::string& budget) {
  experiment = without_policy(std::move(experiment));
  experiment.memory.budget = budget;
  return BudgetPlanner(setup, experiment, machine_costs()).plan(false);
}

}  // namespace lacuna::apps
