#include "apps/commands/reference.h"

#include "apps/commands/reference_text.h"
#include "autograd/tape.h"
#include "core/glob.h"
#include "models/folders/values.h"
#include "models/io/weights.h"
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

json parse_metadata(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) return nullptr;
  constexpr int deepest = 8;  // far beyond any description; copies and messages walk down by recursion
  bool too_deep = false;
  const auto watch = [&](int depth, json::parse_event_t, json&) { return !(too_deep = too_deep || depth > deepest); };
  json value = json::parse(found->second, watch, false);
  if (too_deep) reject("{}: the metadata `{}` is nested more than {} deep", file.path().string(), key, deepest);
  if (value.is_discarded()) reject("{}: the metadata `{}` is no JSON", file.path().string(), key);
  return value;
}

/// timm's keyword for what is a hyper-parameter here.
std::string hyper_parameter_of(const std::string& keyword) {
  if (keyword == "img_size") return "image_size";
  if (keyword == "in_chans") return "in_channels";
  return keyword;
}

Tree read_value(const std::string& key, const json& value) {
  if (const std::optional<Tree> read = hyper_value(value)) return *read;
  reject("the reference's model has `{}` = {}: expected a number, a word, or a list of whole numbers", key,
         value.dump());
}

struct ReferenceModel {
  std::string name;
  std::vector<HyperParameter> hyper_parameters;
};

/// The file's name of a model, and its hyper-parameters.
ReferenceModel read_model(const SafetensorsFile& file) {
  const json description = parse_metadata(file, "model");
  const std::string origin = file.path().string();
  if (!description.is_object() || !description.contains("family") || !description["family"].is_string())
    reject("{}: expected metadata `model` with a `family`, as reference files have it", origin);
  ReferenceModel model{description["family"].get<std::string>(), {}};
  const bool is_preset = model.name == "preset";
  if (is_preset) {
    if (!description.contains("name") || !description["name"].is_string())
      reject("{}: a model of the family `preset` needs a `name`", origin);
    model.name = description["name"].get<std::string>();
    if (const json arguments = description.value("arguments", json::object()); arguments.is_object())
      for (const auto& [key, value] : arguments.items())
        model.hyper_parameters.push_back({hyper_parameter_of(key), read_value(key, value)});
  }
  for (const auto& [key, value] : description.items()) {
    if (key == "family" || (is_preset && (key == "name" || key == "arguments"))) continue;
    model.hyper_parameters.push_back({key, read_value(key, value)});
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

/// The model of the file with its weights. Tried without memory first: a wrong file costs nothing.
std::unique_ptr<Model> make_model(const SafetensorsFile& file, const ReferenceModel& description, DType precision) {
  const LoadOptions weights{.prefix = "weight/"};
  const std::vector<HyperParameter> parameters = without_dropout(description);
  check_weights(*build_model(description.name, parameters, {.device = Device::meta}), SafetensorsFile(file.path()),
                weights);
  std::unique_ptr<Model> model = build_model(description.name, parameters, {.dtype = precision});
  load_weights(*model, SafetensorsFile(file.path()), weights);
  return model;
}

/// Trains what the file trained. Norms keep PyTorch's semantics, where wanting no gradient does not freeze statistics:
/// so the modules are not told.
void select_trained(const SafetensorsFile& file, const Model& model) {
  const json patterns = parse_metadata(file, "trainable");
  if (patterns.is_null()) return;
  if (!patterns.is_array() ||
      !std::all_of(patterns.begin(), patterns.end(), [](const json& p) { return p.is_string(); }))
    reject("{}: expected a list of name patterns as metadata `trainable`, got {}", file.path().string(),
           patterns.dump());
  for (Parameter* parameter : model.parameters())
    parameter->set_trainable(std::any_of(patterns.begin(), patterns.end(), [&](const json& pattern) {
      return matches_glob(pattern.get<std::string>(), parameter->path());
    }));
}

/// One optimizer step as the file describes it; none where it describes none.
bool step_optimizer(const SafetensorsFile& file, const Model& model) {
  const json description = parse_metadata(file, "optimizer");
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

Tensor load_expected(const SafetensorsFile& file, std::string_view name, int rank) {
  const SafetensorsEntry* const entry = file.find(name);
  if (entry == nullptr) reject("{}: a reference file needs a tensor `{}`", file.path().string(), name);
  if (entry->shape.rank() != rank || !entry->dtype)
    reject("{}: `{}` should have {} axes, got {} {}", file.path().string(), name, rank, entry->stored_dtype,
           entry->shape);
  return file.load(name);
}

/// The file's images [N, C, H, W] as the model takes them: f32 [N, H, W, C].
Tensor load_images(const SafetensorsFile& file, const Model& model) {
  const Tensor stored = load_expected(file, "input/image", 4);
  const Shape& shape = stored.shape();
  const Shape& image = find_images(model.inputs())->shape;  // [H, W, C]
  const std::int64_t height = image[0], width = image[1], channels = image[2], pixels = height * width;
  if (!is_floating(stored.dtype()) || !(shape == Shape{shape[0], channels, height, width}))
    reject("{}: expected images [N, {}, {}, {}], got {} {}", file.path().string(), channels, height, width,
           name_of(stored.dtype()), shape);
  const Tensor images = Tensor::empty({shape[0], height, width, channels}, DType::f32, Device::cpu, Purpose::data);
  const Tensor planes = stored.to(DType::f32);
  const float* const in = planes.data<const float>();
  float* const out = images.data<float>();
  for (std::int64_t n = 0; n < shape[0]; ++n)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t p = 0; p < pixels; ++p)
        out[(n * pixels + p) * channels + c] = in[(n * channels + c) * pixels + p];
  return images;
}

void move_within_rounding(const Tensor& images, int repetition) {
  constexpr float rounding = 0x1p-20F;
  const RandomStream stream{.step = static_cast<std::uint32_t>(repetition), .site = random_site("reference.images")};
  float* const pixels = images.data<float>();
  for (std::int64_t i = 0; i < images.count(); ++i)
    pixels[i] *= 1 + rounding * (2 * stream.uniform(static_cast<std::uint64_t>(i)) - 1);
}

Tensor load_targets(const SafetensorsFile& file, const Tensor& images) {
  Tensor targets = load_expected(file, "target", 1);
  if (targets.dtype() != DType::i64 || targets.count() != images.shape()[0])
    reject("{}: expected `target` i64 [{}], got {} {}", file.path().string(), images.shape()[0],
           name_of(targets.dtype()), targets.shape());
  return targets;
}

double largest_magnitude(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

class Comparison {
 public:
  explicit Comparison(const SafetensorsFile& file) : file_(file) {}

  /// Compares, if the file has such a tensor.
  void add(const std::string& name, const Tensor& ours) {
    const SafetensorsEntry* const entry = file_.find(name);
    if (entry == nullptr) return;
    if (ours.defined() && !(entry->shape == ours.shape()))
      reject("{}: `{}` has the shape {}, but the model gives {}", file_.path().string(), name, entry->shape,
             ours.shape());
    const std::vector<double> theirs = file_.load(name).to_vector();
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
  std::int64_t take_over_zeros(Parameter& parameter) const {
    const std::string name = "grad/" + parameter.path();
    const auto compared = std::find_if(tensors_.begin(), tensors_.end(),
                                       [&](const ReferenceTensor& tensor) { return tensor.name == name; });
    if (compared == tensors_.end() || !parameter.trainable() || !parameter.grad().defined()) return 0;
    if (parameter.grad().dtype() != DType::f32) return 0;  // in f64 no step is made of rounding
    const double zero = reference_tolerance * compared->magnitude;
    const Tensor theirs = file_.load(name).to(DType::f32);
    const float* const from = theirs.data<const float>();
    float* const to = parameter.grad().data<float>();
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
  const SafetensorsFile& file_;
  std::vector<ReferenceTensor> tensors_;
};

/// The loss of a model of images, which is compared with its logits.
Variable image_loss(Outputs outputs, const Variable& targets, Comparison& comparison) {
  const bool two_heads = outputs.contains("logits_distilled");  // the loss is the mean of both heads'
  Variable logits = outputs.take(two_heads ? "logits_class" : "logits");
  comparison.add_required("output/logits", logits.tensor());
  Variable loss = apply(CrossEntropy{}, std::move(logits), targets);
  if (two_heads) {
    logits = outputs.take("logits_distilled");
    comparison.add_required("output/logits_dist", logits.tensor());
    loss = (std::move(loss) + apply(CrossEntropy{}, std::move(logits), targets)) / 2;
  }
  return loss;
}

/// The comparison from the file's input (repetition 0), or from images moved within rounding.
ReferenceReport compare_once(const SafetensorsFile& file, std::string_view memory_policy, DType precision,
                             int repetition) {
  const ReferenceModel description = read_model(file);
  const std::unique_ptr<Model> model = make_model(file, description, precision);
  const bool is_text = file.contains("input/ids");
  TextReference input;
  if (is_text) {
    input = load_text_reference(file, *model);
  } else {
    const Tensor images = load_images(file, *model);
    input.targets = Variable(load_targets(file, images));
    if (repetition > 0) move_within_rounding(images, repetition);
    input.batch = Batch{{find_images(model->inputs())->name, images}};
  }
  const auto outputs_of = [&] { return model->forward(input.batch); };
  select_trained(file, *model);
  Comparison comparison(file);

  model->set_training(false);
  Outputs evaluated = outputs_of();
  comparison.add("eval/logits", is_text ? text_result(std::move(evaluated), input).logits.tensor()
                                        : evaluated.take("logits").tensor());
  model->set_training(true);
  const std::unique_ptr<MemoryPolicy> how = make_policy(memory_policy);
  Tape tape(*how);
  {
    const Recording recording(tape);
    Variable loss;
    if (is_text) {
      TextResult result = text_result(outputs_of(), input);
      comparison.add_required("output/logits", result.logits.tensor());
      loss = std::move(result.loss);
    } else {
      loss = image_loss(outputs_of(), input.targets, comparison);
    }
    comparison.add_required("output/loss", loss.tensor());
    tape.backward(loss);
  }
  const std::vector<Parameter*> parameters = model->parameters();
  for (const Parameter* parameter : parameters) {
    if (parameter->trainable())
      comparison.add_required("grad/" + parameter->path(), parameter->grad());
    else
      comparison.add("grad/" + parameter->path(), {});
  }
  comparison.measure_zero_gradients();
  std::int64_t stepped_alike = 0;
  for (Parameter* parameter : parameters) stepped_alike += comparison.take_over_zeros(*parameter);
  if (step_optimizer(file, *model)) {
    for (const Parameter* parameter : parameters)
      comparison.add_required("after/" + parameter->path(), parameter->tensor());
    for (const Buffer* buffer : model->buffers()) comparison.add("after/" + buffer->path(), buffer->tensor());
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
