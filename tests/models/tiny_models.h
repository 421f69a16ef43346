// Small models and one training step of them, for the tests.
#pragma once

#include "autograd/policies/adaptive.h"
#include "autograd/policies/rules.h"
#include "autograd/tape.h"
#include "models/registry.h"
#include "nn/freeze.h"
#include "ops/losses/loss.h"

#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna::test {

struct Description {
  std::string name;
  std::vector<HyperParameter> hyper_parameters;
};

inline Tree whole(std::int64_t value) { return value; }

inline Description tiny_vit(std::vector<HyperParameter> more = {}) {
  Description vit{"vit",
                  {{"image_size", whole(16)},
                   {"patch_size", whole(4)},
                   {"embed_dim", whole(24)},
                   {"depth", whole(3)},
                   {"num_heads", whole(3)},
                   {"num_classes", whole(5)}}};
  vit.hyper_parameters.insert(vit.hyper_parameters.end(), more.begin(), more.end());
  return vit;
}

inline Description tiny_resnet(std::vector<HyperParameter> more = {}) {
  Description resnet{"resnet",
                     {{"image_size", whole(16)},
                      {"layers", std::vector<std::int64_t>{2, 2}},
                      {"channels", std::vector<std::int64_t>{16, 32}},
                      {"stem_width", whole(16)},
                      {"zero_init_last", false},
                      {"num_classes", whole(5)}}};
  resnet.hyper_parameters.insert(resnet.hyper_parameters.end(), more.begin(), more.end());
  return resnet;
}

/// Each kind of block, with squeezes.
inline Description tiny_efficientnet(std::vector<HyperParameter> more = {}) {
  Description net{
      "efficientnet",
      {{"image_size", whole(16)},
       {"stem_size", whole(8)},
       {"num_features", whole(16)},
       {"blocks", "cn_r1_k3_s1_c8_skip; ds_r1_k3_s1_c8_se0.25; er_r2_k3_s2_e2_c16; ir_r2_k5_s2_e2_c16_se0.25"},
       {"num_classes", whole(5)}}};
  net.hyper_parameters.insert(net.hyper_parameters.end(), more.begin(), more.end());
  return net;
}

/// A map of 5x5 tokens, padded to windows of 3x3, and of 3x3 once merged.
inline Description tiny_swin(std::string family, std::vector<HyperParameter> more = {}) {
  Description swin{std::move(family),
                   {{"image_size", whole(20)},
                    {"embed_dim", whole(16)},
                    {"depths", std::vector<std::int64_t>{2, 1}},
                    {"num_heads", std::vector<std::int64_t>{2, 4}},
                    {"window_size", whole(3)},
                    {"num_classes", whole(5)}}};
  swin.hyper_parameters.insert(swin.hyper_parameters.end(), more.begin(), more.end());
  return swin;
}

inline Description tiny_convnext() {
  return {"convnext",
          {{"image_size", whole(24)},
           {"depths", std::vector<std::int64_t>{2, 1}},
           {"dims", std::vector<std::int64_t>{16, 24}},
           {"ls_init_value", 0.3},
           {"drop_path_rate", 0.2},
           {"num_classes", whole(5)}}};
}

inline Description tiny_vgg() {
  return {"vgg",
          {{"image_size", whole(16)},
           {"layers", std::vector<std::int64_t>{1, 2}},
           {"channels", std::vector<std::int64_t>{16, 24}},
           {"hidden", whole(16)},
           {"head_kernel", whole(3)},
           {"batch_norm", true},
           {"num_classes", whole(5)}}};
}

/// ViTs and ResNets, whose regions are `blocks.*` and `layer?.?`.
inline const std::vector<Description>& block_descriptions() {
  static const std::vector<Description> all{
      tiny_vit(),
      tiny_vit({{"global_pool", "avg"}, {"drop_rate", 0.1}, {"proj_drop_rate", 0.1}, {"drop_path_rate", 0.2}}),
      tiny_vit({{"attention", "chain"}, {"attn_drop_rate", 0.1}, {"pos_drop_rate", 0.1}}),
      tiny_vit({{"attn_drop_rate", 0.3}}),
      tiny_vit({{"init_values", 0.1}, {"reg_tokens", whole(2)}, {"pre_norm", true}}),
      tiny_resnet(),
      tiny_resnet({{"stem", "deep"}, {"stem_width", whole(8)}, {"avg_down", true}}),
      tiny_resnet({{"stem", "cifar"}, {"block", "basic"}, {"drop_path_rate", 0.3}}),
  };
  return all;
}

/// Swins and ConvNeXts, whose regions are `*.blocks.*`.
inline const std::vector<Description>& stage_descriptions() {
  static const std::vector<Description> all{tiny_swin("swin", {{"drop_path_rate", 0.2}}),
                                            tiny_swin("swin_v2", {{"proj_drop_rate", 0.1}}), tiny_convnext()};
  return all;
}

inline const std::vector<Description>& descriptions() {
  static const std::vector<Description> all = [] {
    std::vector<Description> list = block_descriptions();
    list.insert(list.end(), stage_descriptions().begin(), stage_descriptions().end());
    list.push_back(tiny_vit({{"class_token", false}, {"global_pool", "map"}, {"mlp_layer", "swiglu"}}));
    list.push_back(tiny_vgg());
    list.push_back(tiny_efficientnet({{"drop_path_rate", 0.2}}));
    return list;
  }();
  return all;
}

struct Step {
  std::map<std::string, std::vector<double>> results;  // logits, gradients by path, buffers afterwards
  std::map<std::string, std::int64_t> rows;            // of the gradients, that are alike (rows_alike)
  std::int64_t saved = 0;                              // bytes, when backward began
  std::int64_t coded_elements = 0, coded_bits = 0;     // of all codes, ranges aside
};

inline constexpr std::int64_t batch = 3;

/// Logits of a model for images, which may gather a gradient.
inline Variable logits_of(Model& model, Variable images) {
  Inputs inputs;
  inputs.set("images", std::move(images));
  return model.forward(std::move(inputs)).take("logits");
}

/// One forward and backward pass of a fresh model, in which a policy that adapts is calibrated if that is due; `draw`:
/// the step that random numbers belong to.
inline Step step(const Description& description, MemoryPolicy& policy, const FreezeRules& rules = {},
                 const ModelContext& context = {}, std::uint32_t draw = 4,
                 ErrorMeasure measure = ErrorMeasure::absolute) {
  const RandomStateScope random({.seed = 11, .step = draw});
  const std::unique_ptr<Model> model = build_model(description.name, description.hyper_parameters, context);
  freeze(*model, rules);
  const std::int64_t size = field_of(model->inputs(), "images").shape[0];
  std::vector<float> pixels(static_cast<std::size_t>(batch * size * size * 3));
  const RandomStream stream{5, 0, 0};
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = 2 * stream.uniform(i) - 1;
  const Tensor images = Tensor::from(pixels, {batch, size, size, 3}, DType::f32, context.device);
  const Tensor targets = Tensor::from(std::vector<std::int64_t>{0, 1, 2}, {batch}, context.device);
  for (const Tensor& tensor : {images, targets}) tensor.set_purpose(Purpose::data);
  Step done;
  const bool readable = context.device != Device::meta;
  const auto pass = [&](Tape& tape, const BackwardOptions& options) {
    const Recording recording(tape);
    Variable logits = logits_of(*model, Variable(images));
    if (readable) done.results["logits"] = logits.tensor().to_vector();
    const Variable loss = apply(CrossEntropy{}, std::move(logits), Variable(targets));
    for (const Tape::SavedTensorReport& slot : tape.report()) {
      if (slot.hold != Hold::quantize) continue;
      done.coded_elements += slot.info.shape.count();
      done.coded_bits += slot.bits * slot.info.shape.count();
    }
    tape.backward(loss, options);
    done.saved = tape.saved_bytes();
  };
  Tape tape(policy);
  if (Adaptive* const adaptive = adaptive_of(policy); adaptive != nullptr && adaptive->calibration_due())
    adaptive->calibrate(0, [&] {
      BackwardCalibration calibration(measure);
      pass(tape, {.before_node = std::ref(calibration)});
      return Calibration{.sensitivities = calibration.sensitivities()};
    });
  else
    pass(tape, {});
  if (!readable) return done;
  for (const Parameter* parameter : model->parameters()) {
    if (!parameter->trainable()) continue;
    done.results[parameter->path()] = parameter->grad().to_vector();
    done.rows[parameter->path()] = rows_alike(parameter->grad().shape());
  }
  for (const Buffer* buffer : model->buffers()) done.results[buffer->path()] = buffer->tensor().to_vector();
  return done;
}

inline Step step(const Description& description, std::string_view policy, const FreezeRules& rules = {},
                 const ModelContext& context = {}) {
  return step(description, *make_policy(policy), rules, context);
}

/// Whether a result of a step is a parameter's gradient.
inline bool is_gradient(std::string_view name) {
  return name != "logits" && name.find("running") == name.npos && name.find("tracked") == name.npos;
}

/// |a − b| / |b| over all parameters' gradients together.
inline double gradient_error(const Step& step, const Step& exact) {
  double difference = 0, norm = 0;
  for (const auto& [name, values] : exact.results) {
    if (!is_gradient(name)) continue;
    const std::vector<double>& others = step.results.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      difference += (others[i] - values[i]) * (others[i] - values[i]);
      norm += values[i] * values[i];
    }
  }
  return std::sqrt(difference / norm);
}

}  // namespace lacuna::test
