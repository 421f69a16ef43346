#include "apps/commands/reference.h"

#include "apps/commands/reference_batch.h"
#include "apps/commands/reference_detection.h"
#include "apps/commands/reference_graph.h"
#include "apps/commands/reference_segmentation.h"
#include "autograd/tape.h"
#include "core/file.h"
#include "core/glob.h"
#include "models/folders/transformers.h"
#include "models/folders/values.h"
#include "models/graphs/graph_model.h"
#include "models/io/adapter_folder.h"
#include "models/io/weights.h"
#include "models/language_model.h"
#include "models/registry.h"
#include "nn/freeze.h"
#include "nn/functional.h"
#include "ops/losses/loss.h"
#include "optim/optimizer.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

namespace lacuna {
namespace {

using nlohmann::json;

constexpr std::string_view adapter_prefix = "adapter/";

/// A library's keyword and the hyper-parameter that it sets.
std::string hyper_parameter_of(const std::string& keyword) {
  if (keyword == "img_size") return "image_size";
  if (keyword == "in_chans") return "in_channels";
  if (keyword == "lmbda" || keyword == "theta") return "lambda";  // CogDL's and PyG's of GCNII
  return keyword;
}

struct ReferenceModel {
  std::string name;
  std::vector<HyperParameter> hyper_parameters;
  std::shared_ptr<const TensorNames> names{};  // of the file's tensors; null: they are ours
  std::string task{};                          // of a model with such names, or empty
  OptionValues task_options{};
};

/// A model that the file describes by the config.json of a type of transformers.
ReferenceModel read_config(const json& description, const std::string& origin) {
  nlohmann::ordered_json config = nlohmann::ordered_json::parse(description["config"].dump());
  config["model_type"] = description["family"];
  const ModelFolder folder = read_transformers_config(config, origin);
  return {folder.model, folder.hyper_parameters, folder.names, task_of(folder)};
}

/// A graph network, with facts of its graph beside the hyper-parameters.
ReferenceModel read_graph_model(const json& description) {
  ReferenceModel model{description["family"].get<std::string>(), {}};
  model.names = library_names(model.name);
  model.task = description.value("multi_label", false) ? "node_multi_label" : "node_classification";
  constexpr std::string_view of_graph[] = {"family", "nodes", "edges", "directed", "multi_label"};
  bool says_norm = false;
  for (const auto& [key, value] : description.items()) {
    if (std::ranges::find(of_graph, key) != std::end(of_graph)) continue;
    says_norm = says_norm || (key == "norm" && value != "");
    if (key != "norm" || value != "")
      model.hyper_parameters.push_back({hyper_parameter_of(key), reference_value(key, value)});
  }
  if (!says_norm) model.hyper_parameters.push_back({"norm", std::string("none")});
  return model;
}

/// The file's name of a model, and its hyper-parameters.
ReferenceModel read_model(const SafetensorsFile& file) {
  const json description = reference_metadata(file, "model");
  const std::string origin = file.path().string();
  if (!description.is_object() || !description.contains("family") || !description["family"].is_string())
    reject("{}: expected metadata `model` with a `family`, as reference files have it", origin);
  if (description.contains("config") && description["config"].is_object()) return read_config(description, origin);
  if (has_reference_graph(file)) return read_graph_model(description);
  if (is_reference_segmenter(description) && !segmenter_config(description).is_null()) {
    ModelFolder folder = read_transformers_config(segmenter_config(description), origin);
    folder.hyper_parameters.push_back({"image_size", reference_value("image_size", description["image_size"])});
    return {folder.model, folder.hyper_parameters, folder.names, "segmentation", segmenter_loss(description)};
  }
  if (is_reference_segmenter(description))
    return {.name = description["family"],
            .hyper_parameters = segmenter_parameters(description),
            .task = "segmentation",
            .task_options = segmenter_loss(description)};
  if (is_reference_detector(description))
    return {.name = description["family"], .hyper_parameters = detector_parameters(description), .task = "detection"};
  ReferenceModel model{description["family"].get<std::string>(), {}};
  const bool is_preset = model.name == "preset";
  if (is_preset) {
    if (!description.contains("name") || !description["name"].is_string())
      reject("{}: a model of the family `preset` needs a `name`", origin);
    model.name = description["name"].get<std::string>();
    if (const json arguments = description.value("arguments", json::object()); arguments.is_object())
      for (const auto& [key, value] : arguments.items())
        model.hyper_parameters.push_back({hyper_parameter_of(key), reference_value(key, value)});
  }
  for (const auto& [key, value] : description.items()) {
    if (key == "family" || key == "batch" || (is_preset && (key == "name" || key == "arguments"))) continue;
    model.hyper_parameters.push_back({key, reference_value(key, value)});
  }
  return model;
}

/// Without random draws: every rate of dropout that the file does not name is 0.
std::vector<HyperParameter> without_dropout(const ReferenceModel& model) {
  std::vector<HyperParameter> all = model.hyper_parameters;
  for (const HyperParameter& known : describe_model(model.name, all).hyper_parameters) {
    if (known.key.find("dropout") != std::string::npos && find_value(all, known.key) == nullptr)
      all.push_back({known.key, 0.0});
  }
  return all;
}

/// The file's weights under our names.
WeightFiles weights_in(const SafetensorsFile& file, const ReferenceModel& description) {
  WeightFiles weights(SafetensorsFile(file.path()));
  weights.take_from("weight/");
  if (description.names) weights.rename(*description.names);
  return weights;
}

/// Adds the adapter of a file that has one: metadata `adapter`, as PEFT's adapter_config.json, and `adapter/…`.
void add_adapter(const SafetensorsFile& file, const ReferenceModel& description, Model& model) {
  const json adapter = reference_metadata(file, "adapter");
  if (adapter.is_null()) return;
  const std::filesystem::path folder = make_folder_beside(std::filesystem::temp_directory_path() / "lacuna-adapter");
  const auto remove = [](const std::filesystem::path* made) {
    std::error_code ignored;
    std::filesystem::remove_all(*made, ignored);
  };
  const std::unique_ptr<const std::filesystem::path, decltype(remove)> removes(&folder, remove);
  std::vector<NamedTensor> tensors;
  for (const SafetensorsEntry& entry : file.entries())
    if (entry.name.starts_with(adapter_prefix))
      tensors.emplace_back(entry.name.substr(adapter_prefix.size()), file.load(entry.name));
  write_safetensors(folder / adapter_weights_file, std::move(tensors));
  write_file_atomically(folder / adapter_config_file, adapter.dump());
  std::vector<TensorNames> names;
  if (description.names) names.push_back(*description.names);
  const AdapterFolder stored(folder, std::move(names));
  add_adapters(model, stored.options(model));
  stored.load(model);
}

/// The model of the file with its weights. Tried without memory first: a wrong file costs nothing.
std::unique_ptr<Model> make_model(const SafetensorsFile& file, const ReferenceModel& description, DType precision) {
  const std::vector<HyperParameter> parameters = without_dropout(description);
  const WeightFiles weights = weights_in(file, description);
  check_weights(*build_model(description.name, parameters, {.device = Device::meta}), weights);
  std::unique_ptr<Model> model = build_model(description.name, parameters, {.dtype = precision});
  load_weights(*model, weights);
  add_adapter(file, description, *model);
  return model;
}

/// The file's names of a parameter, one for each of its parts, and whether it holds their transposes.
std::vector<TensorNames::Place> places_of(const std::string& path, const ReferenceModel& description,
                                          const Model& model) {
  if (!description.names) return {{path}};
  std::vector<TensorNames::Place> places = description.names->theirs(path);
  expect(!places.empty(), "{} has no name in transformers", path);
  if (model.adaptation())
    for (TensorNames::Place& place : places) place.name = "base_model.model." + place.name;
  return places;
}
TensorNames::Place place_of(const std::string& path, const ReferenceModel& description, const Model& model) {
  return places_of(path, description, model).front();
}

/// The rows that a place stands for.
Tensor part_of(const Tensor& tensor, const TensorNames::Place& place) {
  if (!tensor.defined() || place.parts == 1) return tensor;
  const std::int64_t rows = tensor.shape().front() / place.parts;
  return tensor.leading(place.part * rows, (place.part + 1) * rows);
}

/// Trains what the file trained. Norms keep PyTorch's semantics, where wanting no gradient does not freeze statistics:
/// so the modules are not told.
void select_trained(const SafetensorsFile& file, const ReferenceModel& description, const Model& model) {
  const json patterns = reference_metadata(file, "trainable");
  if (patterns.is_null()) return;
  if (!patterns.is_array() ||
      !std::all_of(patterns.begin(), patterns.end(), [](const json& p) { return p.is_string(); }))
    reject("{}: expected a list of name patterns as metadata `trainable`, got {}", file.path().string(),
           patterns.dump());
  for (Parameter* parameter : model.parameters())
    parameter->set_trainable(std::any_of(patterns.begin(), patterns.end(), [&](const json& pattern) {
      return matches_glob(pattern.get<std::string>(), place_of(parameter->path(), description, model).name);
    }));
}

/// One optimizer step as the file describes it; none where it describes none.
bool step_optimizer(const SafetensorsFile& file, const Model& model) {
  const json description = reference_metadata(file, "optimizer");
  if (description.is_null()) return false;
  const bool is_named = description.is_object() && description.contains("name") && description["name"].is_string();
  if (!is_named || !description.contains("lr") || !description["lr"].is_number())
    reject("{}: expected metadata `optimizer` with `name` and `lr`, got {}", file.path().string(), description.dump());
  OptionValues settings;
  for (const auto& [key, value] : description.items()) {
    if (key == "name" || key == "lr") continue;
    if (key == "betas" && value.is_array() && value.size() == 2 && value[0].is_number() && value[1].is_number()) {
      settings["beta1"] = value[0].get<double>();
      settings["beta2"] = value[1].get<double>();
    } else if (value.is_boolean())
      settings[key] = value.get<bool>();
    else if (value.is_number())
      settings[key] = value.get<double>();
    else
      reject("{}: the optimizer's `{}` is neither a flag nor a number: {}", file.path().string(), key, value.dump());
  }
  make_optimizer(description["name"].get<std::string>(), settings, model)->step(description["lr"].get<double>());
  return true;
}

void move_within_rounding(const Tensor& values, int repetition) {
  constexpr float rounding = 0x1p-20F;
  const RandomStream stream{.step = static_cast<std::uint32_t>(repetition), .site = random_site("reference.images")};
  float* const moved = values.data<float>();
  for (std::int64_t i = 0; i < values.count(); ++i)
    moved[i] *= 1 + rounding * (2 * stream.uniform(static_cast<std::uint64_t>(i)) - 1);
}

double largest_magnitude(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

class Comparison {
 public:
  explicit Comparison(const SafetensorsFile& file) : file_(file) {
    if (file.contains("input/mask")) mask_ = file.load("input/mask");
  }

  /// Compares, if the file has such a tensor.
  void add(const std::string& name, const Tensor& given) {
    const SafetensorsEntry* const entry = file_.find(name);
    if (entry == nullptr) return;
    const bool of_pixels = given.defined() && given.shape().rank() == 4 && name.ends_with("logits");
    const Tensor ours = of_pixels && entry->shape.rank() == 4 ? as_planes(given, entry->shape) : given;
    const bool is_padded = ours.defined() && entry->shape.rank() == ours.shape().rank() + 1;
    if (ours.defined() && !is_padded && !(entry->shape == ours.shape()))
      reject("{}: `{}` has the shape {}, but the model gives {}", file_.path().string(), name, entry->shape,
             ours.shape());
    const Tensor stored = file_.load(name);
    const std::vector<double> theirs = is_padded ? rows_of_mask(name, stored, ours.shape()) : stored.to_vector();
    double difference = 0;
    if (ours.defined()) {
      const std::vector<double> values = ours.to_vector();
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double apart = std::abs(values[i] - theirs[i]);
        difference = std::isnan(apart) ? std::numeric_limits<double>::infinity() : std::max(difference, apart);
      }
    } else {
      difference = std::numeric_limits<double>::infinity();
    }
    tensors_.push_back({name, difference, largest_magnitude(theirs)});
  }

  /// The same of a parameter's tensor: `prefix` and the file's name for it.
  void add_required(const std::string& prefix, const TensorNames::Place& place, const Tensor& ours) {
    add_required(prefix + place.name, ours.defined() && place.transposed ? transposed(ours) : ours);
  }

  /// The same, of a result without which the file compares too little.
  void add_required(const std::string& name, const Tensor& ours) {
    if (!file_.contains(name)) reject("{}: has no `{}` to compare with", file_.path().string(), name);
    add(name, ours);
  }

  /// Refuses a file with results that nothing was compared with: a name that is spelt wrong would pass unseen.
  void require_all_compared() const {
    std::set<std::string_view> compared;
    for (const ReferenceTensor& tensor : tensors_) compared.insert(tensor.name);
    std::string others;
    for (const SafetensorsEntry& entry : file_.entries()) {
      const auto begins = [&](const char* prefix) { return entry.name.starts_with(prefix); };
      if (std::ranges::any_of(std::array{"eval/", "output/", "grad/", "after/"}, begins) &&
          !compared.contains(entry.name))
        others += (others.empty() ? "" : ", ") + entry.name;
    }
    if (!others.empty())
      reject("{}: the model or its step has nothing to compare with {}", file_.path().string(), others);
  }

  /// Whether the file says that the gradient is 0 in theory, as that of a bias before a norm, and so has none of it.
  bool says_zero(const std::string& name) const {
    const json names = reference_metadata(file_, "zero_gradients");
    return names.is_array() && std::ranges::find(names, json(name)) != names.end();
  }
  /// Compares such a gradient with 0, and makes it 0: an optimizer may make a whole step of its rounding.
  void add_zero_gradient(const Tensor& gradient, const std::string& name) {
    tensors_.push_back({.name = "grad/" + name, .difference = largest_magnitude(gradient.to_vector()), .magnitude = 0});
    gradient.fill(0);
  }

  /// Gives gradients that are zero in theory the magnitude they are measured against.
  void measure_zero_gradients() {
    // The rest of a sum that cancels is far below what f32 resolves in a gradient of the largest size.
    constexpr double noise = 1e-6, stand_in = 1e-3;
    double largest = 0;
    const auto is_gradient = [](const ReferenceTensor& tensor) { return tensor.name.starts_with("grad/"); };
    for (const ReferenceTensor& tensor : tensors_)
      if (is_gradient(tensor)) largest = std::max(largest, tensor.magnitude);
    for (ReferenceTensor& tensor : tensors_)
      if (is_gradient(tensor) && tensor.magnitude <= noise * largest) tensor.magnitude = stand_in * largest;
  }

  /// Replaces the elements of a compared gradient that the tolerance cannot tell from zero by the file's;
  /// returns how many.
  std::int64_t take_over_zeros(Parameter& parameter, const TensorNames::Place& place) const {
    const std::string name = "grad/" + place.name;
    const auto compared = std::find_if(tensors_.begin(), tensors_.end(),
                                       [&](const ReferenceTensor& tensor) { return tensor.name == name; });
    if (compared == tensors_.end() || !parameter.trainable() || !parameter.grad().defined()) return 0;
    if (says_zero(place.name)) return 0;
    const Tensor own = part_of(parameter.grad(), place);
    if (own.dtype() != DType::f32) return 0;  // in f64 no step is made of rounding
    const double zero = reference_tolerance * compared->magnitude;
    const Tensor stored = file_.load(name).to(DType::f32), theirs = place.transposed ? transposed(stored) : stored;
    const float* const from = theirs.data<const float>();
    float* const to = own.data<float>();
    std::int64_t taken = 0;
    for (std::int64_t i = 0; i < theirs.count(); ++i) {
      const bool both_zero = std::abs(from[i]) <= zero && std::abs(to[i]) <= 2 * zero;
      if (!both_zero || from[i] == to[i]) continue;
      to[i] = from[i];
      ++taken;
    }
    return taken;
  }

  std::vector<ReferenceTensor> take() { return std::move(tensors_); }

 private:
  /// The rows of `stored` [N, L, ...] that the mask has, or all where there is none.
  std::vector<double> rows_of_mask(const std::string& name, const Tensor& stored, const Shape& ours) const {
    const std::int64_t rows = stored.shape()[0] * stored.shape()[1];
    const std::vector<double> all = stored.to_vector(),
                              kept = mask_.defined() ? mask_.to_vector() : std::vector<double>();
    if (!kept.empty() && std::ssize(kept) != rows)
      reject("{}: expected `{}` of the rows of `input/mask` {}, got {}", file_.path().string(), name, mask_.shape(),
             stored.shape());
    std::vector<double> values;
    const auto width = rows == 0 ? 0 : std::ssize(all) / rows;
    for (std::int64_t row = 0; row < rows; ++row)
      if (kept.empty() || kept[static_cast<std::size_t>(row)] != 0)
        values.insert(values.end(), all.begin() + row * width, all.begin() + (row + 1) * width);
    if (std::ssize(values) != ours.count())
      reject("{}: `{}` has the shape {}, but the model gives {}", file_.path().string(), name, stored.shape(), ours);
    return values;
  }

  const SafetensorsFile& file_;
  Tensor mask_;  // undefined where the file has none
  std::vector<ReferenceTensor> tensors_;
};

/// A model whose outputs are seen on their way to the task, under a file's names for them.
class Watched final : public Model {
 public:
  explicit Watched(Model& model)
      : Model(model.context(), {.inputs = model.inputs(), .num_classes = model.num_classes(), .heads = {}}),
        model_(model) {}

  Outputs forward(Inputs inputs) override {
    auto* const decoder = dynamic_cast<LanguageModel*>(&model_);
    seen_.clear();
    if (decoder != nullptr) {  // the task asks for rows with a label alone, the file has all
      const NoGrad no_grad;
      Inputs all = inputs;
      all.take("rows");
      seen_.set("logits", logits_of(model_.forward(std::move(all)), decoder->soft_cap()).tensor());
    }
    Outputs outputs = model_.forward(std::move(inputs));
    const bool two_heads = model_.training() && outputs.contains("logits_distilled");
    if (decoder != nullptr) return outputs;
    if (outputs.contains("hidden")) {
      const NoGrad no_grad;
      seen_.set("logits", logits_of(outputs, 0).tensor());
    } else {
      for (const auto& [name, output] : outputs)
        if (!two_heads || name != "logits")
          seen_.set(!two_heads ? name : name == "logits_class" ? "logits" : "logits_dist", output.tensor().clone());
    }
    return outputs;
  }
  const NamedTensors& seen() const { return seen_; }

 private:
  Model& model_;
  NamedTensors seen_;
};

/// The loss of a file without metadata `task` whose model has two heads: the mean of both heads' cross entropies.
class TwoHeads final : public Task {
 public:
  TwoHeads() : Task({}) {}
  SampleFields targets() const override { return {class_field()}; }
  TaskResult run(Model& model, Inputs batch, TaskMode) const override {
    const Variable classes = batch.take(class_field().name);
    Outputs outputs = model.forward(std::move(batch));
    if (!outputs.contains("logits_distilled")) return {};  // in evaluation
    Variable loss = apply(CrossEntropy{}, outputs.take("logits_class"), classes);
    TaskResult result;
    result.loss = (std::move(loss) + apply(CrossEntropy{}, outputs.take("logits_distilled"), classes)) / 2;
    return result;
  }
};

/// The likeliest tokens behind `generate/prompt` [P], as many as `generate/ids` has: i64 [S].
Tensor greedy_continuation(const SafetensorsFile& file, LanguageModel& model) {
  const std::vector<double> prompt = file.load("generate/prompt").to_vector();
  const auto wanted = file.find("generate/ids")->shape.count();
  KeyValueCache cache(model.layers(), std::ssize(prompt) + wanted);
  std::vector<std::int64_t> all(prompt.begin(), prompt.end());
  while (std::ssize(all) < cache.capacity()) {
    const std::vector<double> logits = model.read_rest(all, cache).to_vector();
    all.push_back(std::ranges::max_element(logits) - logits.begin());
  }
  return Tensor::from(std::span<const std::int64_t>(all).subspan(prompt.size()), {wanted});
}

/// The task that the file names; else the usual one of the model's head.
std::unique_ptr<Task> make_reference_task(const SafetensorsFile& file, const ReferenceModel& description,
                                          const Model& model) {
  if (file.metadata().contains("task")) return reference_task(file, model);
  if (!description.task.empty()) return make_task(description.task, description.task_options, model);
  const std::vector<HyperParameter> all =
      describe_model(description.name, description.hyper_parameters).hyper_parameters;
  const Tree* const head = find_value(all, "head");
  if (head == nullptr && model.heads().size() == 2) return std::make_unique<TwoHeads>();
  const bool is_classifier = head == nullptr || head->text == "classification";
  const std::string problem = is_classifier ? "single_label_classification" : head->text;
  for (const std::string& name : tasks().names())
    if (tasks().get(name).problem == problem) return make_task(name, {}, model);
  reject("{}: expected metadata `task`: no task is for the problem `{}`", file.path().string(), problem);
}

/// The comparison from the file's input (repetition 0), or from floating-point inputs moved within rounding.
ReferenceReport compare_once(const SafetensorsFile& file, std::string_view memory_policy, DType precision,
                             int repetition) {
  const ReferenceModel description = read_model(file);
  if (precision == DType::f64 && file.metadata().contains("optimizer"))
    reject("{}: holds a step of an optimizer, whose gradients are f32: leave out --precision f64",
           file.path().string());
  const std::unique_ptr<Model> model = make_model(file, description, precision);
  const std::unique_ptr<Task> task = make_reference_task(file, description, *model);
  const bool finds_boxes = is_reference_detector(reference_metadata(file, "model"));
  const auto seen_in = [&](const Watched& watched, bool evaluates) {
    return finds_boxes ? detector_outputs(watched.seen(), file, evaluates) : watched.seen();
  };
  const Batch batch = has_reference_graph(file) ? load_reference_graph(file)
                      : finds_boxes             ? load_reference_boxes(file, *model)
                                                : load_reference_batch(file, *model, *task);
  for (const SampleField& field : model->inputs())
    if (repetition > 0 && field.dtype == DType::f32) move_within_rounding(batch.at(field.name), repetition);
  select_trained(file, description, *model);
  Comparison comparison(file);
  Watched watched(*model);

  model->set_training(false);
  if (auto* const language_model = dynamic_cast<LanguageModel*>(model.get());
      language_model != nullptr && file.contains("generate/ids"))
    comparison.add("generate/ids", greedy_continuation(file, *language_model));
  task->run(watched, batch, TaskMode::evaluate);
  for (const auto& [name, output] : seen_in(watched, true)) comparison.add("eval/" + name, output);
  if (const SafetensorsEntry* const classes = file.find("eval/classes"))
    comparison.add("eval/classes", pixel_classes(watched.seen()["logits"], classes->shape));
  model->set_training(true);
  const std::unique_ptr<MemoryPolicy> how = make_policy(memory_policy);
  Tape tape(*how);
  {
    const Recording recording(tape);
    const Variable loss = task->run(watched, batch, TaskMode::train).loss;
    for (const auto& [name, output] : seen_in(watched, false)) comparison.add_required("output/" + name, output);
    comparison.add_required("output/loss", loss.tensor());
    tape.backward(loss);
  }
  const std::vector<Parameter*> parameters = model->parameters();
  for (Parameter* const parameter : parameters) {
    for (const TensorNames::Place& place : places_of(parameter->path(), description, *model)) {
      if (parameter->trainable() && comparison.says_zero(place.name))
        comparison.add_zero_gradient(part_of(parameter->grad(), place), place.name);
      else if (parameter->trainable())
        comparison.add_required("grad/", place, part_of(parameter->grad(), place));
      else
        comparison.add("grad/" + place.name, {});
    }
  }
  comparison.measure_zero_gradients();
  std::int64_t stepped_alike = 0;
  for (Parameter* parameter : parameters)
    for (const TensorNames::Place& place : places_of(parameter->path(), description, *model))
      stepped_alike += comparison.take_over_zeros(*parameter, place);
  if (step_optimizer(file, *model)) {
    for (const Parameter* parameter : parameters)
      if (parameter->trainable() || !model->adaptation())
        for (const TensorNames::Place& place : places_of(parameter->path(), description, *model))
          comparison.add_required("after/", place, part_of(parameter->tensor(), place));
    for (const Buffer* buffer : model->buffers())
      comparison.add("after/" + place_of(buffer->path(), description, *model).name, buffer->tensor());
  }
  comparison.require_all_compared();
  return {.model = description.name,
          .tensors = comparison.take(),
          .repetition = repetition,
          .stepped_alike = stepped_alike};
}

}  // namespace

const ReferenceTensor& ReferenceReport::worst() const {
  return *std::max_element(tensors.begin(), tensors.end(), [](const ReferenceTensor& a, const ReferenceTensor& b) {
    return a.relative() < b.relative();
  });
}

bool ReferenceReport::forward_agrees() const {
  return std::all_of(tensors.begin(), tensors.end(), [](const ReferenceTensor& tensor) {
    const bool is_forward = tensor.name.starts_with("eval/") || tensor.name.starts_with("output/");
    return !is_forward || tensor.relative() <= reference_tolerance;
  });
}

ReferenceReport compare_with_reference(const SafetensorsFile& file, std::string_view memory_policy, DType precision) {
  ReferenceReport best = compare_once(file, memory_policy, precision, 0);
  if (precision == DType::f64) return best;
  for (int repetition = 1; repetition <= reference_repetitions; ++repetition) {
    if (best.worst().relative() <= reference_tolerance || !best.forward_agrees()) break;
    ReferenceReport next = compare_once(file, memory_policy, precision, repetition);
    if (next.worst().relative() < best.worst().relative()) best = std::move(next);
  }
  return best;
}

}  // namespace lacuna
