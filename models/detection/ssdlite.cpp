// SSDLite (Sandler et al. 2018, section 6.2) on MobileNetV3 (Howard et al. 2019), as torchvision has it: the same
// names, shapes and initial distributions.
#include "models/detection/detector.h"
#include "models/efficientnet.h"
#include "models/io/tensor_names.h"
#include "models/registry.h"
#include "nn/conv.h"
#include "nn/functional.h"
#include "nn/init.h"
#include "nn/norm.h"
#include "nn/region.h"
#include "ops/arithmetic/gate_channels.h"
#include "ops/detection/box_losses.h"
#include "ops/detection/boxes.h"
#include "ops/losses/loss.h"
#include "ops/shapes/embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>

namespace lacuna::ssdlite {
namespace {

enum class Curve : std::uint8_t { none, relu, relu6, hard_swish };

/// A block of MobileNetV3, as torchvision's InvertedResidualConfig says it.
struct BlockForm {
  std::int64_t in = 0, kernel = 0, inner = 0, out = 0;
  bool squeezes = false;
  Curve curve = Curve::none;
  std::int64_t stride = 0;

  bool expands() const { return inner != in; }
};

/// Nothing and a problem where the text says no such block.
std::optional<BlockForm> read_block(const std::string& text, std::string& problem) {
  std::istringstream words(text);
  BlockForm block;
  std::string curve, rest;
  const bool has_all = static_cast<bool>(words >> block.in >> block.kernel >> block.inner >> block.out >>
                                         block.squeezes >> curve >> block.stride) &&
                       !(words >> rest);
  block.curve = curve == "RE" ? Curve::relu : curve == "HS" ? Curve::hard_swish : Curve::none;
  const auto fits = [](std::int64_t channels) { return channels >= 1 && channels <= largest_extent; };
  if (has_all && fits(block.in) && fits(block.inner) && fits(block.out) && block.kernel >= 1 && block.kernel <= 15 &&
      block.kernel % 2 == 1 && block.curve != Curve::none && (block.stride == 1 || block.stride == 2)) {
    for (std::int64_t* const channels : {&block.in, &block.inner, &block.out})
      *channels = round_to_8(static_cast<double>(*channels));
    return block;
  }
  problem = fmt::format(
      "`blocks`: expected input channels, kernel (odd, at most 15), expanded channels, output channels, squeeze (0 or "
      "1), RE or HS, and stride (1 or 2), got `{}`",
      text);
  return std::nullopt;
}

std::vector<BlockForm> read_blocks(const std::string& text, std::string& problem) {
  std::vector<BlockForm> blocks;
  std::istringstream all(text);
  std::string one;
  while (problem.empty() && std::getline(all, one, ';'))
    if (const std::optional<BlockForm> block = read_block(one, problem)) {
      if (!blocks.empty() && block->in != blocks.back().out)
        problem = fmt::format("`blocks`: expected a block of {} input channels, got `{}`", blocks.back().out, one);
      blocks.push_back(*block);
    }
  return blocks;
}

/// The last block with a stride: the first map is its expansion.
std::size_t split_of(const std::vector<BlockForm>& blocks) {
  const auto last = std::find_if(blocks.rbegin(), blocks.rend(), [](const BlockForm& one) { return one.stride == 2; });
  return static_cast<std::size_t>(blocks.rend() - last) - 1;
}

struct SsdLiteOptions : DetectorOptions {
  /// torchvision's with a reduced tail (Howard et al. 2019, section 6.3).
  std::string blocks =
      "16 3 16 16 0 RE 1; 16 3 64 24 0 RE 2; 24 3 72 24 0 RE 1; 24 5 72 40 1 RE 2; 40 5 120 40 1 RE 1; "
      "40 5 120 40 1 RE 1; 40 3 240 80 0 HS 2; 80 3 200 80 0 HS 1; 80 3 184 80 0 HS 1; 80 3 184 80 0 HS 1; "
      "80 3 480 112 1 HS 1; 112 3 672 112 1 HS 1; 112 5 672 80 1 HS 2; 80 5 480 80 1 HS 1; 80 5 480 80 1 HS 1";
  bool reduced_tail = true;
  double width = 1;

  SsdLiteOptions() {
    score_thresh = 0.001;
    nms_thresh = 0.55;
    topk_candidates = detections_per_img = 300;
  }
  static Fields fields() {
    using S = SsdLiteOptions;
    return rows_of_base<S, DetectorOptions>() +
           Fields{field("blocks", &S::blocks,
                        "blocks of MobileNetV3 with ; between them, each as torchvision's InvertedResidualConfig: "
                        "input channels, kernel, expanded channels, output channels, squeeze (0 or 1), RE or HS, "
                        "stride; channels are rounded to multiples of 8"),
                  field("reduced_tail", &S::reduced_tail,
                        "the tail is as narrow as `blocks` says; false: behind the last stride's expansion it is twice "
                        "as wide, as torchvision's with weights_backbone, and MobileNetV3's of a classifier fits"),
                  field("width", &S::width, NumberRange{.low = 0, .high = 16},
                        "share of the 512, 256, 256 and 128 channels of the extra maps, each 8 at least")};
  }
  void check(HyperProblems& problems) const {
    std::string problem;
    const std::vector<BlockForm> all = read_blocks(blocks, problem);
    const std::size_t split = split_of(all);
    if (problem.empty() && (split >= all.size() || !all[split].expands()))
      problem = "`blocks`: expected a last block with stride 2 whose expanded channels differ from its input channels";
    if (!problem.empty()) problems.add("blocks", problem);
  }
  /// The blocks as they are built; the options are checked.
  std::vector<BlockForm> forms() const {
    std::string none;
    std::vector<BlockForm> all = read_blocks(blocks, none);
    if (reduced_tail) return all;
    const std::size_t split = split_of(all);
    for (std::size_t i = split; i < all.size(); ++i) {
      all[i].out *= 2;
      if (i == split) continue;
      all[i].in *= 2;
      all[i].inner *= 2;
    }
    return all;
  }
  std::vector<std::int64_t> extra_channels() const {
    std::vector<std::int64_t> all;
    for (const double channels : {512, 256, 256, 128})
      all.push_back(std::max<std::int64_t>(8, static_cast<std::int64_t>(channels * width)));
    return all;
  }
};

/// The names that torchvision and timm give the backbone's tensors in a MobileNetV3.
class ClassifierNames {
 public:
  explicit ClassifierNames(const std::vector<BlockForm>& forms) {
    names_.ignored_heads = {"conv_head.", "classifier."};
    add("0.0.0.", "0.0.", "conv_stem.");
    add("0.0.1.", "0.1.", "bn1.");
    const std::size_t split = split_of(forms);
    std::size_t stage = 0, place = 0;  // of timm
    for (std::size_t i = 0; i < forms.size(); ++i) {
      const BlockForm& form = forms[i];
      if (i > 0) ++place;
      if (i > 0 && (form.stride == 2 || form.in != form.out)) {
        ++stage;
        place = 0;
      }
      const std::string ours = i < split    ? fmt::format("0.{}.block.", i + 1)
                               : i == split ? std::string("1.0.")
                                            : fmt::format("1.{}.block.", i - split),
                        torchvision = fmt::format("{}.block.", i + 1),
                        timm = fmt::format("blocks.{}.{}.", stage, place);
      int layer = 0, norm = 0;
      const auto add_layer = [&](const char* convolution) {
        const bool is_split = i == split && layer == 0;  // the expansion before the first map
        const std::string own = is_split ? fmt::format("0.{}.", i + 1) : fmt::format("{}{}.", ours, layer);
        add(own + "0.", fmt::format("{}{}.0.", torchvision, layer), timm + convolution + ".");
        add(own + "1.", fmt::format("{}{}.1.", torchvision, layer), fmt::format("{}bn{}.", timm, ++norm));
        ++layer;
      };
      if (form.expands()) add_layer("conv_pw");
      add_layer("conv_dw");
      if (form.squeezes) {
        add(fmt::format("{}{}.fc1.", ours, layer), fmt::format("{}{}.fc1.", torchvision, layer),
            timm + "se.conv_reduce.");
        add(fmt::format("{}{}.fc2.", ours, layer), fmt::format("{}{}.fc2.", torchvision, layer),
            timm + "se.conv_expand.");
        ++layer;
      }
      add_layer(form.expands() ? "conv_pwl" : "conv_pw");
    }
    const std::string last = fmt::format("1.{}.", forms.size() - split), theirs = fmt::format("{}.", forms.size() + 1);
    add(last + "0.", theirs + "0.", fmt::format("blocks.{}.0.conv.", stage + 1));
    add(last + "1.", theirs + "1.", fmt::format("blocks.{}.0.bn1.", stage + 1));
  }
  ClassifierNames(const ClassifierNames&) = delete;
  ClassifierNames& operator=(const ClassifierNames&) = delete;

  const TensorNames& names() const { return names_; }

 private:
  void add(const std::string& ours, const std::string& torchvision, const std::string& timm) {
    const std::string_view own = texts_.emplace_back("backbone.features." + ours);
    names_.body.push_back({texts_.emplace_back("features." + torchvision), own});
    names_.body.push_back({texts_.emplace_back(timm), own});
  }

  std::deque<std::string> texts_;  // that the names point to
  TensorNames names_{};
};

struct Window {
  std::int64_t kernel = 1, stride = 1, groups = 1;
};
nn::Conv2dOptions convolution(const Window& window, bool bias) {
  return {.kernel = window.kernel,
          .stride = window.stride,
          .padding = (window.kernel - 1) / 2,
          .groups = window.groups,
          .bias = bias,
          .init = {init::normal(0.03), init::constant(0)}};
}

/// Convolution, batch norm, curve (Conv2dNormActivation).
class ConvNorm final : public Module {
 public:
  ConvNorm(Module& parent, std::string_view name, std::int64_t in, std::int64_t out, const Window& window, Curve curve)
      : Module(parent, name),
        curve_(curve),
        convolution_(*this, "0", in, out, convolution(window, false)),
        norm_(*this, "1", out, {.eps = 1e-3, .momentum = 0.03}) {}

  Variable forward(Variable x) {
    const Scope scope(*this);
    x = convolution_.forward(std::move(x));
    if (curve_ == Curve::relu) return norm_.forward_relu(std::move(x));
    x = norm_.forward(std::move(x));
    if (curve_ == Curve::relu6) return relu6(std::move(x));
    return curve_ == Curve::hard_swish ? hard_swish(std::move(x)) : x;
  }

 private:
  Curve curve_;
  nn::Conv2d convolution_;
  nn::BatchNorm2d norm_;
};

/// x times a gate for each channel, which two layers compute from the mean over pixels (Hu et al. 2018).
class Squeeze final : public Module {
 public:
  Squeeze(Module& parent, std::string_view name, std::int64_t channels)
      : Module(parent, name),
        fc1_(*this, "fc1", channels, reduced(channels), convolution({}, true)),
        fc2_(*this, "fc2", reduced(channels), channels, convolution({}, true)) {}

  Variable forward(Variable x) const {
    const Scope scope(*this);
    const std::int64_t samples = x.shape()[0], channels = x.shape().back();
    Variable gate = global_avg_pool(x).reshape({samples, 1, 1, channels});
    gate = hard_sigmoid(fc2_.forward(relu(fc1_.forward(std::move(gate)))));
    const GateChannels op{.shape = x.shape()};
    return apply(op, std::move(x), std::move(gate).reshape({samples, channels}));
  }

 private:
  static std::int64_t reduced(std::int64_t channels) { return round_to_8(static_cast<double>(channels / 4)); }
  nn::Conv2d fc1_, fc2_;
};

class InvertedResidual final : public Module {
 public:
  /// `is_expanded`: the expansion comes before, in a module of its own.
  InvertedResidual(Module& parent, std::string_view name, const BlockForm& form, bool is_expanded = false)
      : Module(parent, name), skips_(form.stride == 1 && form.in == form.out) {
    set_role(Role::block);
    int number = is_expanded ? 1 : 0;
    const auto next = [&] { return fmt::format("{}{}", is_expanded ? "" : "block.", number++); };
    if (form.expands() && !is_expanded) expand_.emplace(*this, next(), form.in, form.inner, Window{}, form.curve);
    depthwise_.emplace(*this, next(), form.inner, form.inner, Window{form.kernel, form.stride, form.inner}, form.curve);
    if (form.squeezes) squeeze_.emplace(*this, next(), form.inner);
    project_.emplace(*this, next(), form.inner, form.out, Window{}, Curve::none);
  }

  Variable forward(Variable x) {
    return run_region(*this, std::move(x), [this](Variable in) {
      const Scope scope(*this);
      Variable h = skips_ ? in : std::move(in);
      if (expand_) h = expand_->forward(std::move(h));
      h = depthwise_->forward(std::move(h));
      if (squeeze_) h = squeeze_->forward(std::move(h));
      h = project_->forward(std::move(h));
      return skips_ ? std::move(in) + std::move(h) : h;
    });
  }

 private:
  bool skips_;
  std::optional<ConvNorm> expand_, depthwise_, project_;
  std::optional<Squeeze> squeeze_;
};

/// A coarser map of the one before.
class ExtraMap final : public Module {
 public:
  ExtraMap(Module& parent, std::string_view name, std::int64_t in, std::int64_t out)
      : Module(parent, name),
        reduce_(*this, "0", in, out / 2, {}, Curve::relu6),
        depthwise_(*this, "1", out / 2, out / 2, {3, 2, out / 2}, Curve::relu6),
        expand_(*this, "2", out / 2, out, {}, Curve::relu6) {
    set_role(Role::block);
  }
  Variable forward(Variable x) {
    return run_region(*this, std::move(x), [this](Variable in) {
      const Scope scope(*this);
      return expand_.forward(depthwise_.forward(reduce_.forward(std::move(in))));
    });
  }

 private:
  ConvNorm reduce_, depthwise_, expand_;
};

/// The outputs of each box of a map.
class MapHead final : public Module {
 public:
  MapHead(Module& parent, std::string_view name, std::int64_t channels, std::int64_t width)
      : Module(parent, name),
        width_(width),
        depthwise_(*this, "0", channels, channels, {3, 1, channels}, Curve::relu6),
        last_(*this, "1", channels, default_boxes * width, convolution({}, true)) {}

  /// [N, h, w, channels] to [N, h · w · boxes, width].
  Variable forward(Variable x) {
    const Scope scope(*this);
    x = last_.forward(depthwise_.forward(std::move(x)));
    const std::int64_t samples = x.shape()[0], count = x.shape().count() / samples / width_;
    return std::move(x).reshape({samples, count, width_});
  }

 private:
  std::int64_t width_;
  ConvNorm depthwise_;
  nn::Conv2d last_;
};

class SsdLite final : public Detector {
 public:
  SsdLite(const ModelContext& context, const SsdLiteOptions& options)
      : Detector(context, {.image_size = options.image_size,
                           .in_channels = options.in_channels,
                           .num_classes = options.num_classes,
                           .heads = class_heads(),
                           .first_convolution = "backbone.features.0.0.0"}),
        options_(options),
        backbone_names_(options.forms()) {
    const std::vector<BlockForm> forms = options.forms();
    const std::size_t split = split_of(forms);
    stem_.emplace(*this, "backbone.features.0.0", options.in_channels, forms.front().in, Window{3, 2},
                  Curve::hard_swish);
    for (std::size_t i = 0; i < split; ++i)
      fine_.push_back(
          std::make_unique<InvertedResidual>(*this, fmt::format("backbone.features.0.{}", i + 1), forms[i]));
    expand_.emplace(*this, fmt::format("backbone.features.0.{}", split + 1), forms[split].in, forms[split].inner,
                    Window{}, forms[split].curve);
    for (std::size_t i = split; i < forms.size(); ++i)
      coarse_.push_back(std::make_unique<InvertedResidual>(*this, fmt::format("backbone.features.1.{}", i - split),
                                                           forms[i], i == split));
    std::int64_t channels = 6 * forms.back().out;
    last_.emplace(*this, fmt::format("backbone.features.1.{}", forms.size() - split), forms.back().out, channels,
                  Window{}, Curve::hard_swish);
    std::vector<std::int64_t> widths{forms[split].inner, channels};
    for (const std::int64_t out : options.extra_channels()) {
      extra_.push_back(
          std::make_unique<ExtraMap>(*this, fmt::format("backbone.extra.{}", extra_.size()), channels, out));
      widths.push_back(channels = out);
    }
    const auto add_heads = [&](std::vector<std::unique_ptr<MapHead>>& heads, const char* name, std::int64_t width) {
      for (const std::int64_t of_map : widths)
        heads.push_back(
            std::make_unique<MapHead>(*this, fmt::format("head.{}.module_list.{}", name, heads.size()), of_map, width));
    };
    add_heads(classes_, "classification_head", logits_of_box());
    add_heads(boxes_, "regression_head", 4);
  }

  bool takes(std::int64_t, std::int64_t) const override { return true; }
  std::string_view backbone_path() const override { return "backbone.features"; }
  const TensorNames* backbone_names() const override { return &backbone_names_.names(); }
  std::string_view advice_on_shapes() const override {
    if (!options_.reduced_tail) return {};
    return "model.reduced_tail=false takes a backbone of full width, as torchvision's with weights_backbone";
  }

 private:
  static constexpr std::int64_t maps = 6, negatives_of_positive = 3;
  static constexpr BoxCoding coding{.weights = {10, 10, 5, 5}};

  static std::vector<std::string> class_heads() {
    std::vector<std::string> all;
    for (std::int64_t i = 0; i < maps; ++i) all.push_back(fmt::format("head.classification_head.module_list.{}.1", i));
    return all;
  }
  std::int64_t logits_of_box() const { return num_classes() + 1; }

  Outputs detect(Variable images, const std::vector<TrueObjects>& truth) override {
    const ImageSize size{images.shape()[1], images.shape()[2]};
    std::vector<MapSize> sizes;
    std::vector<Variable> all_logits, all_codes;
    for (Variable& map : features(std::move(images))) {
      sizes.push_back({map.shape()[1], map.shape()[2]});
      all_logits.push_back(classes_[all_logits.size()]->forward(map));
      all_codes.push_back(boxes_[all_codes.size()]->forward(std::move(map)));
    }
    Variable logits = concat(std::move(all_logits), 1), codes = concat(std::move(all_codes), 1);
    const Tensor boxes = make_default_boxes({size.height, size.width}, sizes, 0.2, 0.95, box_type());
    Outputs outputs;
    if (!truth.empty()) add_losses(logits, codes, boxes, truth, outputs);
    if (!training()) set_found(find(logits, codes, boxes, size), outputs);
    outputs.set("cls_logits", std::move(logits));
    outputs.set("bbox_regression", std::move(codes));
    outputs.set("anchors", Variable(boxes));
    return outputs;
  }

  std::vector<Variable> features(Variable x) {
    std::vector<Variable> all;
    x = stem_->forward(std::move(x));
    for (const std::unique_ptr<InvertedResidual>& block : fine_) x = block->forward(std::move(x));
    all.push_back(x = expand_->forward(std::move(x)));
    for (const std::unique_ptr<InvertedResidual>& block : coarse_) x = block->forward(std::move(x));
    all.push_back(x = last_->forward(std::move(x)));
    for (const std::unique_ptr<ExtraMap>& extra : extra_) all.push_back(x = extra->forward(std::move(x)));
    return all;
  }

  /// Both are sums over the matched boxes of the batch, divided by their number; that of classes has the hardest boxes
  /// of the background too.
  void add_losses(const Variable& logits, const Variable& codes, const Tensor& boxes,
                  const std::vector<TrueObjects>& truth, Outputs& outputs) const {
    const std::int64_t count = boxes.shape()[0];
    const std::vector<double> costs = costs_of_background(logits);  // [N · count], or empty on `meta`
    std::vector<std::int64_t> matched, counted, labels;             // rows of the N · count, and classes of `counted`
    RowList targets(box_type(), 4), own(box_type(), 4);             // of `matched`
    for (std::size_t n = 0; n < truth.size(); ++n) {
      const auto first = static_cast<std::int64_t>(n) * count;
      const std::vector<std::int64_t> matches =
          match_anchors(boxes, truth[n].boxes,
                        {.background_below = 0.5, .object_from = 0.5, .best_anchors = false, .claims_best = true});
      const auto label_of = [&](std::int64_t box) {
        const std::int64_t match = matches[static_cast<std::size_t>(box)];
        return match < 0 ? 0 : truth[n].labels[static_cast<std::size_t>(match)] + 1;
      };
      const auto add = [&](std::int64_t box) {
        counted.push_back(first + box);
        labels.push_back(label_of(box));
      };
      std::vector<std::int64_t> order, objects;
      for (std::int64_t box = 0; box < count; ++box) (label_of(box) == 0 ? order : objects).push_back(box);
      if (!costs.empty())
        std::ranges::stable_sort(order, std::greater(),
                                 [&](std::int64_t box) { return costs[static_cast<std::size_t>(first + box)]; });
      // torchvision counts matched boxes twice where the background has too few.
      order.insert(order.end(), objects.begin(), objects.end());
      order.resize(static_cast<std::size_t>(std::min(count, negatives_of_positive * std::ssize(objects))));
      for (const std::int64_t box : objects) {
        add(box);
        matched.push_back(first + box);
        targets.add(truth[n].boxes, matches[static_cast<std::size_t>(box)]);
        own.add(boxes, box);
      }
      for (const std::int64_t box : order) add(box);
    }
    const auto found = std::ssize(matched);
    const double share = 1 / static_cast<double>(std::max<std::ptrdiff_t>(found, 1));
    const Tensor weights = Tensor::full({found}, share, box_type(), Device::cpu, Purpose::data);
    outputs.set("loss_bbox_regression",
                apply(RowSmoothL1{.shape = codes.shape(), .beta = 1}, codes,
                      constant(Tensor::from(std::span<const std::int64_t>(matched), {found})),
                      constant(coding.encode(targets.tensor(), own.tensor())), constant(weights)));
    const double rows = static_cast<double>(counted.size());
    if (counted.empty()) {  // no object in the batch: a loss of 0 needs a row too
      counted.push_back(0);
      labels.push_back(0);
    }
    outputs.set("loss_classification", class_loss(logits, counted, labels) * (rows * share));
  }

  Variable class_loss(const Variable& logits, const std::vector<std::int64_t>& rows,
                      const std::vector<std::int64_t>& labels) const {
    const auto count = std::ssize(rows);
    Variable flat = logits;
    flat = std::move(flat).reshape({1, logits.shape()[0] * logits.shape()[1], logits_of_box()});
    Variable chosen = apply(Embedding{.shape = flat.shape(), .dtype = logits.tensor().dtype()}, flat,
                            constant(Tensor::from(rows, {count})), Variable());
    return apply(CrossEntropy{}, std::move(chosen).reshape({count, logits_of_box()}),
                 constant(Tensor::from(labels, {count})));
  }

  /// The loss of each box as background.
  std::vector<double> costs_of_background(const Variable& logits) const {
    if (context().device == Device::meta) return {};
    const NoGrad no_grad;
    return (-slice(log_softmax(logits), 2, 0, 1)).tensor().to(Device::cpu).to_vector();
  }

  std::vector<FoundObjects> find(const Variable& logits, const Variable& codes, const Tensor& boxes,
                                 ImageSize size) const {
    const std::int64_t images = logits.shape()[0], count = logits.shape()[1], width = logits_of_box();
    std::vector<FoundObjects> found(static_cast<std::size_t>(images), {Tensor::empty({0, 4}, box_type(), Device::cpu),
                                                                       Tensor::empty({0}, box_type(), Device::cpu)});
    if (context().device == Device::meta) return found;
    const NoGrad no_grad;
    const Tensor scores = softmax(logits).tensor().to(Device::cpu).to(box_type()),
                 all_codes = codes.tensor().to(Device::cpu).to(box_type());
    for (std::int64_t n = 0; n < images; ++n) {
      const Tensor decoded = coding.decode(all_codes.leading(n, n + 1).reshape({count, 4}), boxes);
      RowList corners(box_type(), 4), values(box_type(), 1);
      std::vector<std::int64_t> labels;
      for (std::int64_t label = 1; label < width; ++label) {
        const Elements own{n * count * width + label, count, width};
        for (const std::int64_t box : best_scores(scores, own, options_.score_thresh, options_.topk_candidates)) {
          corners.add(decoded, box);
          values.add(scores, own.first + box * width);
          labels.push_back(label - 1);
        }
      }
      found[static_cast<std::size_t>(n)] = best_objects({corners.tensor(), values.tensor(), labels}, size,
                                                        options_.nms_thresh, options_.detections_per_img);
    }
    return found;
  }

  SsdLiteOptions options_;
  ClassifierNames backbone_names_;
  std::optional<ConvNorm> stem_, expand_, last_;
  std::vector<std::unique_ptr<InvertedResidual>> fine_, coarse_;
  std::vector<std::unique_ptr<ExtraMap>> extra_;
  std::vector<std::unique_ptr<MapHead>> classes_, boxes_;
};

const RegisterFamily<SsdLite, SsdLiteOptions> family("ssdlite", "shape_boxes", "", "detection");

const RegisterPreset presets[] = {
    {"ssdlite320_mobilenet_v3_large",
     "ssdlite",
     {{"num_classes", 90}, {"image_size", 320}},
     {.mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}, .interpolation = "bilinear"}},
};

}  // namespace
}  // namespace lacuna::ssdlite
