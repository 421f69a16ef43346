#include "models/efficientnet.h"

#include "models/image_model.h"
#include "models/registry.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/functional.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/region.h"
#include "ops/arithmetic/gate_channels.h"

#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>

namespace lacuna {
namespace efficientnet {
namespace {

using Form = EfficientNetOptions::Form;
using Curve = EfficientNetOptions::Curve;

/// The contents of a string such as ir_r2_k5_s2_e6_c40_se0.25.
struct BlockString {
  enum class Kind : std::uint8_t {
    separable,  // ds: depthwise, 1×1
    inverted,   // ir: 1×1, depthwise, 1×1
    edge,       // er: k×k, 1×1
    plain       // cn: k×k
  } kind;
  std::int64_t repeats = 1, kernel = 3, stride = 1, outputs = 0;
  double expansion = 1, squeeze = 0;
  std::optional<Curve> curve{};
  bool skip = false, no_skip = false;
};

std::optional<BlockString::Kind> kind_of(std::string_view name) {
  using Kind = BlockString::Kind;
  for (const auto& [known, kind] : {std::pair<std::string_view, Kind>{"ds", Kind::separable},
                                    {"ir", Kind::inverted},
                                    {"er", Kind::edge},
                                    {"cn", Kind::plain}})
    if (name == known) return kind;
  return std::nullopt;
}

std::optional<Curve> curve_of(std::string_view name) {
  for (const auto& [known, curve] : {std::pair<std::string_view, Curve>{"sw", Curve::silu},
                                     {"hs", Curve::hard_swish},
                                     {"re", Curve::relu},
                                     {"r6", Curve::relu6}})
    if (name == known) return curve;
  return std::nullopt;
}

template <class T>
bool read_number(std::string_view text, T& to) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc() && end == text.data() + text.size();
}

/// Reads one part of a string behind its kind.
bool read_part(std::string_view part, BlockString& to) {
  if (part == "skip") return to.skip = true;
  if (part == "noskip") return to.no_skip = true;
  if (part.starts_with("se")) return read_number(part.substr(2), to.squeeze) && to.squeeze > 0 && to.squeeze <= 1;
  if (part.empty()) return false;
  const std::string_view value = part.substr(1);
  switch (part.front()) {
    case 'r':
      return read_number(value, to.repeats) && to.repeats > 0 && to.repeats <= 4096;
    case 'k':
      return read_number(value, to.kernel) && to.kernel > 0 && to.kernel <= 15 && to.kernel % 2 == 1;
    case 's':
      return read_number(value, to.stride) && (to.stride == 1 || to.stride == 2);
    case 'c':
      return read_number(value, to.outputs) && to.outputs > 0 && to.outputs <= largest_extent;
    case 'e':
      return read_number(value, to.expansion) && to.expansion >= 1.0 / 64 && to.expansion <= 64;
    case 'n':
      return (to.curve = curve_of(value)).has_value();
    default:
      return false;
  }
}

/// Nothing and a problem if it is no such string.
std::optional<BlockString> read_block(const std::string& text, std::string& problem) {
  std::istringstream parts(text);
  std::string part;
  std::getline(parts, part, '_');
  const std::optional<BlockString::Kind> kind = kind_of(part);
  if (!kind) {
    problem =
        fmt::format("`blocks`: {} is no block that Lacuna has: expected ds, ir, er or cn before the first _", text);
    return std::nullopt;
  }
  BlockString block{.kind = *kind};
  while (std::getline(parts, part, '_'))
    if (!read_part(part, block)) {
      problem = fmt::format(
          "`blocks`: {} in {} is unknown or out of range: expected r (repeats), k (odd kernel, at most 15), s (stride "
          "1 or 2), e (expansion, 1/64 to 64), c (channels), se (share), nre, nr6, nhs, nsw, skip or noskip",
          part, text);
      return std::nullopt;
    }
  if (block.kind == BlockString::Kind::plain && block.squeeze > 0) {
    problem = fmt::format("`blocks`: {} has se, which goes with ds, ir and er only", text);
    return std::nullopt;
  }
  if (block.outputs > 0) return block;
  problem = fmt::format("`blocks`: {} says no channels: expected c and a number", text);
  return std::nullopt;
}

/// The blocks of each stage; `problem` receives the error.
std::vector<std::vector<BlockString>> read_stages(const std::string& text, std::string& problem) {
  std::vector<std::vector<BlockString>> stages;
  std::istringstream all(text);
  std::string stage, word;
  while (problem.empty() && std::getline(all, stage, ';')) {
    std::vector<BlockString>& blocks = stages.emplace_back();
    std::istringstream words(stage);
    while (problem.empty() && words >> word)
      if (const std::optional<BlockString> block = read_block(word, problem)) blocks.push_back(*block);
    if (problem.empty() && blocks.empty()) problem = "`blocks` has a stage without blocks";
  }
  if (stages.empty() || stages.size() > 64)
    problem = fmt::format("`blocks` has {} stages: expected 1 to 64", stages.size());
  return stages;
}

/// Channels of the k×k convolution of a block whose input has `in`.
std::int64_t inner_channels(const BlockString& block, std::int64_t in) {
  using Kind = BlockString::Kind;
  const bool expands = block.kind == Kind::inverted || block.kind == Kind::edge;
  return expands ? round_to_8(static_cast<double>(in) * block.expansion) : in;
}
/// Channels between the two layers of its squeeze; 0 if the share is too small.
std::int64_t squeezed_channels(Form form, const BlockString& block, std::int64_t inner) {
  const bool of_inner = form == Form::mobilenetv3;
  const double reduced = static_cast<double>(inner) * (block.squeeze / (of_inner ? 1 : block.expansion));
  return of_inner ? round_to_8(reduced) : static_cast<std::int64_t>(std::nearbyint(reduced));
}

Variable curve(Curve which, Variable x) {
  switch (which) {
    case Curve::silu:
      return silu(std::move(x));
    case Curve::hard_swish:
      return hard_swish(std::move(x));
    case Curve::relu:
      return relu(std::move(x));
    case Curve::relu6:
      return relu6(std::move(x));
  }
  return x;
}

struct Window {
  std::int64_t kernel = 1, stride = 1, groups = 1;
};

nn::Conv2dOptions convolution(const EfficientNetOptions& options, std::int64_t out, const Window& window,
                              bool bias = false) {
  return {
      .kernel = window.kernel,
      .stride = window.stride,
      .padding = (window.stride - 1 + window.kernel - 1) / 2,
      .groups = window.groups,
      .same = options.same_padding,
      .bias = bias,
      .init = {init::kaiming_normal_fan_out(out / window.groups * window.kernel * window.kernel), init::constant(0)}};
}

nn::BatchNormOptions norm(const EfficientNetOptions& options) {
  return {.eps = options.norm_eps, .momentum = options.norm_momentum};
}

/// [N, C] as images of one pixel, and back.
Variable as_pixel(Variable x) {
  const Shape& shape = x.shape();
  return x.reshape({shape[0], 1, 1, shape[1]});
}
Variable without_pixel(Variable x) {
  const Shape& shape = x.shape();
  return x.reshape({shape[0], shape[3]});
}

/// x times a gate for each channel, which two layers compute from the mean over pixels (Hu et al. 2018).
class SqueezeExcite final : public Module {
 public:
  SqueezeExcite(Module& parent, std::string_view name, const EfficientNetOptions& options, std::int64_t channels,
                std::int64_t reduced, Curve curve)
      : Module(parent, name),
        curve_(curve),
        hard_(options.form == Form::mobilenetv3),
        reduce_(*this, "conv_reduce", channels, reduced, convolution(options, reduced, {}, true)),
        expand_(*this, "conv_expand", reduced, channels, convolution(options, channels, {}, true)) {}

  Variable forward(Variable x) const {
    const Scope scope(*this);
    Variable gate = reduce_.forward(as_pixel(global_avg_pool(x)));  // [N, 1, 1, reduced]
    gate = expand_.forward(curve(curve_, std::move(gate)));         // [N, 1, 1, C]
    gate = without_pixel(hard_ ? hard_sigmoid(std::move(gate)) : sigmoid(std::move(gate)));
    const GateChannels op{.shape = x.shape()};
    return apply(op, std::move(x), std::move(gate));
  }

 private:
  Curve curve_;
  bool hard_;
  nn::Conv2d reduce_, expand_;
};

/// One to three convolutions with norms, and a shortcut around them if the shape stays.
class Block final : public Module {
 public:
  struct Place {
    std::int64_t in, stride;
    double drop_path;
  };
  Block(Module& parent, std::string_view name, const EfficientNetOptions& options, const BlockString& form,
        const Place& place)
      : Module(parent, name), drop_path_(*this, "drop_path", place.drop_path) {
    using Kind = BlockString::Kind;
    set_role(Role::block);
    const Curve curve = form.curve.value_or(options.activation);
    const auto add = [&](const char* convolution, std::int64_t in, std::int64_t out, const Window& window, bool last) {
      layers_.push_back(std::make_unique<Layer>(*this, options, convolution, fmt::format("bn{}", layers_.size() + 1),
                                                in, out, window));
      if (!last) layers_.back()->curve = curve;
    };
    const bool expands = form.kind == Kind::inverted || form.kind == Kind::edge;
    const std::int64_t inner = inner_channels(form, place.in), out = form.outputs;
    const Window window{.kernel = form.kernel, .stride = place.stride};
    const Window depthwise{.kernel = form.kernel, .stride = place.stride, .groups = inner};
    if (form.kind == Kind::plain) add("conv", place.in, out, window, false);
    if (form.kind == Kind::edge) add("conv_exp", place.in, inner, window, false);
    if (form.kind == Kind::inverted) add("conv_pw", place.in, inner, {}, false);
    if (form.kind == Kind::inverted || form.kind == Kind::separable) add("conv_dw", inner, inner, depthwise, false);
    if (form.squeeze > 0 && form.kind != Kind::plain) {
      squeezed_ = layers_.size();
      squeeze_.emplace(*this, "se", options, inner, squeezed_channels(options.form, form, inner),
                       options.form == Form::mobilenetv3 ? Curve::relu : curve);
    }
    if (form.kind == Kind::separable) add("conv_pw", inner, out, {}, true);
    if (expands) add("conv_pwl", inner, out, {}, true);
    const bool may_skip = form.kind == Kind::plain ? form.skip : !form.no_skip;
    skips_ = may_skip && place.stride == 1 && place.in == out;
  }

  /// x [N, H, W, in]; the result has `outputs` channels.
  Variable forward(Variable x) {
    return run_region(*this, std::move(x), [this](Variable in) {
      const Scope scope(*this);
      Variable h = skips_ ? in : std::move(in);
      for (std::size_t i = 0; i < layers_.size(); ++i) {
        h = layers_[i]->forward(std::move(h));
        if (squeeze_ && i + 1 == squeezed_) h = squeeze_->forward(std::move(h));
      }
      return skips_ ? drop_path_.forward_onto(std::move(in), std::move(h)) : h;
    });
  }

 private:
  struct Layer {
    Layer(Module& block, const EfficientNetOptions& options, const char* name, const std::string& norm_name,
          std::int64_t in, std::int64_t out, const Window& window)
        : convolution(block, name, in, out, efficientnet::convolution(options, out, window)),
          norm(block, norm_name, out, efficientnet::norm(options)) {}
    Variable forward(Variable x) {
      x = convolution.forward(std::move(x));
      if (curve == Curve::relu) return norm.forward_relu(std::move(x));
      x = norm.forward(std::move(x));
      return curve ? efficientnet::curve(*curve, std::move(x)) : x;
    }
    nn::Conv2d convolution;
    nn::BatchNorm2d norm;
    std::optional<Curve> curve{};  // none: the norm ends the block
  };

  std::vector<std::unique_ptr<Layer>> layers_;
  std::size_t squeezed_ = 0;  // layers before the squeeze
  std::optional<SqueezeExcite> squeeze_;
  nn::DropPath drop_path_;
  bool skips_ = false;
};

/// timm's EfficientNet and MobileNetV3: the same names, shapes and initial distributions. Takes images of any size. As
/// a backbone gives the last map of each stride.
class EfficientNet final : public ImageModel {
 public:
  EfficientNet(const ModelContext& context, const EfficientNetOptions& options)
      : ImageModel(context,
                   {options.image_size, options.in_channels, options.num_classes, {"classifier"}, "conv_stem"}),
        activation_(options.activation),
        stem_(*this, "conv_stem", options.in_channels, options.stem_size,
              convolution(options, options.stem_size, {.kernel = 3, .stride = 2})),
        stem_norm_(*this, "bn1", options.stem_size, norm(options)),
        stages_(make_stages(options, context)) {
    if (is_part(context)) return;
    head_.emplace(*this, "conv_head", last_channels_, options.num_features,
                  convolution(options, options.num_features, {}, options.form == Form::mobilenetv3));
    dropout_.emplace(*this, "drop", options.drop_rate);
    classifier_.emplace(
        *this, "classifier", options.num_features, options.num_classes,
        nn::LinearOptions{
            .init = {init::uniform(1 / std::sqrt(static_cast<double>(options.num_classes))), init::constant(0)}});
    if (options.form == Form::mobilenetv3) return;
    head_->set_follows_block();
    head_norm_.emplace(*this, "bn2", options.num_features, norm(options));
    head_norm_->set_follows_block();
  }

  std::vector<MapShape> map_shapes() const override {
    std::vector<MapShape> shapes;
    for (const Map& map : maps_) shapes.push_back(map.shape);
    return shapes;
  }
  std::vector<Variable> maps(Variable images) override {
    const Scope scope(*this);
    Variable x = embed(std::move(images));
    std::vector<Variable> found;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      x = run_stage(i, std::move(x));
      if (maps_[found.size()].stage == i) found.push_back(x);
    }
    return found;
  }

 private:
  std::vector<std::vector<std::unique_ptr<Block>>> make_stages(const EfficientNetOptions& options,
                                                               const ModelContext& context) {
    std::string problem;  // none: the options are checked
    const std::vector<std::vector<BlockString>> strings = read_stages(options.blocks, problem);
    std::int64_t all = 0, number = 0;
    for (const std::vector<BlockString>& stage : strings)
      for (const BlockString& block : stage) all += block.repeats;
    find_maps(strings, context);
    std::vector<std::vector<std::unique_ptr<Block>>> stages(maps_.empty() ? strings.size() : maps_.back().stage + 1);
    std::int64_t in = options.stem_size;
    for (std::size_t stage = 0; stage < stages.size(); ++stage)
      for (const BlockString& form : strings[stage])
        for (std::int64_t i = 0; i < form.repeats; ++i) {
          std::vector<std::unique_ptr<Block>>& blocks = stages[stage];
          const Block::Place place{
              .in = in,
              .stride = blocks.empty() ? form.stride : 1,  // of a stage, the first block alone has a stride
              .drop_path = options.drop_path_rate * static_cast<double>(number++) / static_cast<double>(all)};
          blocks.push_back(
              std::make_unique<Block>(*this, fmt::format("blocks.{}.{}", stage, blocks.size()), options, form, place));
          in = form.outputs;
        }
    last_channels_ = in;
    return stages;
  }

  /// A backbone's maps end the last stage of each stride.
  void find_maps(const std::vector<std::vector<BlockString>>& strings, const ModelContext& context) {
    std::vector<Map> all;
    std::int64_t stride = 2;  // behind the stem
    for (std::size_t stage = 0; stage < strings.size(); ++stage) {
      const std::int64_t reduced = strings[stage].front().stride;
      if (stage > 0 && reduced == 1) all.pop_back();
      stride *= reduced;
      all.push_back({stage, {strings[stage].back().outputs, stride}});
    }
    for (const std::size_t number : wanted_maps(context, all.size())) maps_.push_back(all[number]);
  }

  Variable embed(Variable images) { return activated(stem_norm_, stem_.forward(std::move(images))); }
  Variable run_stage(std::size_t number, Variable x) {
    return run_sequence(stages_[number], std::move(x),
                        [](Block& block, Variable in) { return block.forward(std::move(in)); });
  }
  Variable activated(nn::BatchNorm2d& norm, Variable x) const {
    return activation_ == Curve::relu ? norm.forward_relu(std::move(x))
                                      : curve(activation_, norm.forward(std::move(x)));
  }
  Variable classify(Variable x) override {
    const Scope scope(*this);
    x = embed(std::move(x));
    for (std::size_t i = 0; i < stages_.size(); ++i) x = run_stage(i, std::move(x));
    if (head_norm_) {
      x = global_avg_pool(activated(*head_norm_, head_->forward(std::move(x))));
    } else {
      x = head_->forward(as_pixel(global_avg_pool(std::move(x))));
      x = without_pixel(curve(activation_, std::move(x)));
    }
    return classifier_->forward(dropout_->forward(std::move(x)));
  }
  bool takes(std::int64_t, std::int64_t) const override { return true; }

  struct Map {
    std::size_t stage;
    MapShape shape;
  };

  Curve activation_;
  std::int64_t last_channels_ = 0;
  std::vector<Map> maps_;  // that the backbone gives
  nn::Conv2d stem_;
  nn::BatchNorm2d stem_norm_;
  std::vector<std::vector<std::unique_ptr<Block>>> stages_;
  std::optional<nn::Conv2d> head_;
  std::optional<nn::BatchNorm2d> head_norm_;
  std::optional<nn::Dropout> dropout_;
  std::optional<nn::Linear> classifier_;
};

const RegisterFamily<EfficientNet, EfficientNetOptions> family("efficientnet");

using Values = std::vector<HyperParameter>;
using Stages = std::vector<std::string>;

std::string joined(const Stages& stages) { return fmt::format("{}", fmt::join(stages, "; ")); }

Values with(Values values, const Values& more) {
  values.insert(values.end(), more.begin(), more.end());
  return values;
}
/// As Google trained them in TensorFlow.
Values tensorflow(Values values) { return with(std::move(values), {{"same_padding", true}, {"norm_eps", 1e-3}}); }
Values sized(Values values, std::int64_t side) { return with(std::move(values), {{"image_size", side}}); }

std::string squeezed(const char* kind, std::int64_t repeats, const char* middle, std::int64_t channels) {
  return fmt::format("{}_r{}_{}_c{}_se0.25", kind, repeats, middle, channels);
}

/// B0 with more channels and blocks (Tan and Le 2019, section 4).
Values scaled(double width, double depth) {
  const auto channels = [=](std::int64_t of_b0) { return round_to_8(width * static_cast<double>(of_b0)); };
  const auto repeats = [=](std::int64_t of_b0) {
    return static_cast<std::int64_t>(std::ceil(depth * static_cast<double>(of_b0)));
  };
  return {{"stem_size", channels(32)},
          {"num_features", channels(1280)},
          {"blocks", joined({squeezed("ds", repeats(1), "k3_s1_e1", channels(16)),
                             squeezed("ir", repeats(2), "k3_s2_e6", channels(24)),
                             squeezed("ir", repeats(2), "k5_s2_e6", channels(40)),
                             squeezed("ir", repeats(3), "k3_s2_e6", channels(80)),
                             squeezed("ir", repeats(3), "k5_s1_e6", channels(112)),
                             squeezed("ir", repeats(4), "k5_s2_e6", channels(192)),
                             squeezed("ir", repeats(1), "k3_s1_e6", channels(320))})}};
}

const Values b0 = scaled(1, 1);
const Values v2_s{{"stem_size", 24},
                  {"blocks", joined({"cn_r2_k3_s1_e1_c24_skip", "er_r4_k3_s2_e4_c48", "er_r4_k3_s2_e4_c64",
                                     squeezed("ir", 6, "k3_s2_e4", 128), squeezed("ir", 9, "k3_s1_e6", 160),
                                     squeezed("ir", 15, "k3_s2_e6", 256)})}};
const Values v2_m{{"stem_size", 24},
                  {"blocks", joined({"cn_r3_k3_s1_e1_c24_skip", "er_r5_k3_s2_e4_c48", "er_r5_k3_s2_e4_c80",
                                     squeezed("ir", 7, "k3_s2_e4", 160), squeezed("ir", 14, "k3_s1_e6", 176),
                                     squeezed("ir", 18, "k3_s2_e6", 304), squeezed("ir", 5, "k3_s1_e6", 512)})}};
const Values v2_l{{"stem_size", 32},
                  {"blocks", joined({"cn_r4_k3_s1_e1_c32_skip", "er_r7_k3_s2_e4_c64", "er_r7_k3_s2_e4_c96",
                                     squeezed("ir", 10, "k3_s2_e4", 192), squeezed("ir", 19, "k3_s1_e6", 224),
                                     squeezed("ir", 25, "k3_s2_e6", 384), squeezed("ir", 7, "k3_s1_e6", 640)})}};

Values mobilenet_v3(std::int64_t features, const Stages& blocks) {
  return {{"form", "mobilenetv3"},
          {"activation", "hard_swish"},
          {"stem_size", 16},
          {"num_features", features},
          {"blocks", joined(blocks)}};
}
const Values v3_large =
    mobilenet_v3(1280, {"ds_r1_k3_s1_e1_c16_nre", "ir_r1_k3_s2_e4_c24_nre ir_r1_k3_s1_e3_c24_nre",
                        "ir_r3_k5_s2_e3_c40_se0.25_nre", "ir_r1_k3_s2_e6_c80 ir_r1_k3_s1_e2.5_c80 ir_r2_k3_s1_e2.3_c80",
                        "ir_r2_k3_s1_e6_c112_se0.25", "ir_r3_k5_s2_e6_c160_se0.25", "cn_r1_k1_s1_c960"});
const Values v3_small =
    mobilenet_v3(1024, {"ds_r1_k3_s2_e1_c16_se0.25_nre", "ir_r1_k3_s2_e4.5_c24_nre ir_r1_k3_s1_e3.67_c24_nre",
                        "ir_r1_k5_s2_e4_c40_se0.25 ir_r2_k5_s1_e6_c40_se0.25", "ir_r2_k5_s1_e3_c48_se0.25",
                        "ir_r3_k5_s2_e6_c96_se0.25", "cn_r1_k1_s1_c576"});
const Values v2_mobile{
    {"activation", "relu6"},
    {"blocks", joined({"ds_r1_k3_s1_c16", "ir_r2_k3_s2_e6_c24", "ir_r3_k3_s2_e6_c32", "ir_r4_k3_s2_e6_c64",
                       "ir_r3_k3_s1_e6_c96", "ir_r3_k3_s2_e6_c160", "ir_r1_k3_s1_e6_c320"})}};

ImagePreparation bilinear(ImagePreparation images) {
  images.interpolation = "bilinear";
  return images;
}
ImagePreparation squashed(ImagePreparation images) {
  images.crop_mode = "squash";
  return images;
}

const RegisterPreset efficientnet_presets[] = {
    {"mobilenetv2_100", "efficientnet", v2_mobile, imagenet_images(0.875)},
    {"mobilenetv3_large_100", "efficientnet", v3_large, imagenet_images(0.875)},
    {"mobilenetv3_small_100", "efficientnet", v3_small, imagenet_images(0.875)},
    {"tf_mobilenetv3_large_100", "efficientnet", tensorflow(v3_large), bilinear(inception_images(0.875))},
    {"tf_mobilenetv3_small_100", "efficientnet", tensorflow(v3_small), bilinear(inception_images(0.875))},
    {"efficientnet_b0", "efficientnet", b0, imagenet_images(0.875)},
    {"efficientnet_b1", "efficientnet", sized(scaled(1, 1.1), 240), inception_images(0.9)},
    {"efficientnet_b2", "efficientnet", sized(scaled(1.1, 1.2), 256), imagenet_images(0.875)},
    {"efficientnet_b3", "efficientnet", sized(scaled(1.2, 1.4), 288), imagenet_images(0.875)},
    {"efficientnet_b4", "efficientnet", sized(scaled(1.4, 1.8), 320), imagenet_images(0.875)},
    {"tf_efficientnet_b0", "efficientnet", tensorflow(b0), imagenet_images(0.875)},
    {"efficientnetv2_s", "efficientnet", sized(v2_s, 288), imagenet_images(1)},
    {"efficientnetv2_m", "efficientnet", sized(v2_m, 320), imagenet_images(1)},
    {"efficientnetv2_l", "efficientnet", sized(v2_l, 384), imagenet_images(1)},
    {"tf_efficientnetv2_s", "efficientnet", sized(tensorflow(v2_s), 300), inception_images(1)},
    {"tf_efficientnetv2_m", "efficientnet", sized(tensorflow(v2_m), 384), squashed(inception_images(1))},
    {"tf_efficientnetv2_l", "efficientnet", sized(tensorflow(v2_l), 384), squashed(inception_images(1))},
};

}  // namespace
}  // namespace efficientnet

std::array<std::pair<std::string_view, EfficientNetOptions::Form>, 2> names_of(EfficientNetOptions::Form) {
  using Form = EfficientNetOptions::Form;
  return {{{"efficientnet", Form::efficientnet}, {"mobilenetv3", Form::mobilenetv3}}};
}
std::array<std::pair<std::string_view, EfficientNetOptions::Curve>, 4> names_of(EfficientNetOptions::Curve) {
  using Curve = EfficientNetOptions::Curve;
  return {{{"silu", Curve::silu}, {"hard_swish", Curve::hard_swish}, {"relu", Curve::relu}, {"relu6", Curve::relu6}}};
}

Fields EfficientNetOptions::fields() {
  using E = EfficientNetOptions;
  return rows_of_base<E, ImageOptions>() +
         Fields{field("blocks", &E::blocks,
                      "timm's block strings, with ; between stages: kind (ds, ir, er, cn), repeats, kernel, stride, "
                      "expansion, channels, squeeze"),
                field("form", &E::form,
                      "efficientnet: a norm and the pooling follow the last convolution; mobilenetv3: pooling comes "
                      "before it, and the squeezes are wider, with hard sigmoids"),
                field("activation", &E::activation, "activation of blocks that name none"),
                field("stem_size", &E::stem_size, extent_range, "channels of the stem"),
                field("num_features", &E::num_features, extent_range, "channels before the classifier"),
                field("same_padding", &E::same_padding, "pad as TensorFlow does: less above and on the left"),
                field("norm_eps", &E::norm_eps, epsilon_range, "epsilon of the batch norms"),
                field("norm_momentum", &E::norm_momentum, up_to(1), fits_weights,
                      "share of a batch in running statistics"),
                field("drop_rate", &E::drop_rate, rate_range, fits_weights, "dropout before the classifier"),
                field("drop_path_rate", &E::drop_path_rate, rate_range, fits_weights,
                      "stochastic depth; it grows linearly over the blocks and is not reached by the last")};
}

void EfficientNetOptions::check(HyperProblems& problems) const {
  std::string problem;
  std::int64_t in = stem_size;
  for (const std::vector<efficientnet::BlockString>& stage : efficientnet::read_stages(blocks, problem))
    for (const efficientnet::BlockString& block : stage) {
      for (const std::int64_t channels : {in, block.repeats > 1 ? block.outputs : in}) {
        const std::int64_t inner = efficientnet::inner_channels(block, channels);
        if (problem.empty() && block.squeeze > 0 && efficientnet::squeezed_channels(form, block, inner) < 1)
          problem =
              fmt::format("`blocks`: se{} leaves none of {} channels: expected a larger share", block.squeeze, inner);
      }
      in = block.outputs;
    }
  if (!problem.empty()) problems.add("blocks", problem);
}

}  // namespace lacuna
