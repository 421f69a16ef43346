#include "models/resnet.h"

#include "models/registry.h"
#include "nn/init.h"
#include "nn/region.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/curves/activation.h"
#include "ops/pooling/pool.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

namespace lacuna {
namespace {

constexpr std::int64_t bottleneck_expansion = 4;

struct Window {
  std::int64_t kernel = 1, stride = 1, padding = 0, groups = 1, dilation = 1;
};

/// A convolution as all of them are here: no bias, since a norm follows.
nn::Conv2dOptions convolution(std::int64_t out, const Window& window) {
  return {.kernel = window.kernel,
          .stride = window.stride,
          .padding = window.padding,
          .groups = window.groups,
          .dilation = window.dilation,
          .bias = false,
          .init = {init::kaiming_normal_fan_out(out * window.kernel * window.kernel), {}}};
}

Window stem_window(const ResNetOptions& options) {
  return options.stem == ResNetOptions::Stem::cifar ? Window{.kernel = 3, .stride = 1, .padding = 1}
                                                    : Window{.kernel = 7, .stride = 2, .padding = 3};
}
std::int64_t stem_outputs(const ResNetOptions& options) {
  return options.stem == ResNetOptions::Stem::deep ? 2 * options.stem_width : options.stem_width;
}

std::int64_t expansion(const ResNetOptions& options) {
  return (options.block == ResNetOptions::Block::bottleneck) ? bottleneck_expansion : 1;
}

/// Channels of a block's inner convolutions.
std::int64_t inner_width(const ResNetOptions& options, std::int64_t planes) {
  if (!(options.block == ResNetOptions::Block::bottleneck)) return planes;
  return planes * options.base_width / 64 * options.cardinality;
}

}  // namespace

/// Two or three convolutions with norms, and a shortcut around them that is projected where the shape changes.
class ResNet::Block final : public Module {
 public:
  struct Place {
    std::int64_t in, planes, stride;
    std::int64_t first_dilation, dilation;  // of the first 3×3 convolution, and of a second one
    double drop_path;
  };
  Block(Module& parent, std::string_view name, const ResNetOptions& options, const Place& place)
      : Module(parent, name), drop_path_(*this, "drop_path", place.drop_path) {
    set_role(Role::block);
    const std::int64_t width = inner_width(options, place.planes);
    const std::int64_t out = place.planes * expansion(options);
    if ((options.block == ResNetOptions::Block::bottleneck)) {
      add_layer(place.in, width, {}, 1);
      add_layer(width, width,
                {.kernel = 3,
                 .stride = place.stride,
                 .padding = place.first_dilation,
                 .groups = options.cardinality,
                 .dilation = place.first_dilation},
                1);
      add_layer(width, out, {}, options.zero_init_last ? 0 : 1);
    } else {
      add_layer(
          place.in, width,
          {.kernel = 3, .stride = place.stride, .padding = place.first_dilation, .dilation = place.first_dilation}, 1);
      add_layer(width, out, {.kernel = 3, .padding = place.dilation, .dilation = place.dilation},
                options.zero_init_last ? 0 : 1);
    }
    if (place.stride == 1 && place.in == out) return;
    pools_shortcut_ = options.average_shortcut && place.stride > 1;
    const int first = options.average_shortcut ? 1 : 0;  // the pool has a number, too
    shortcut_.emplace(*this, fmt::format("downsample.{}", first), place.in, out,
                      convolution(out, {.stride = options.average_shortcut ? 1 : place.stride}));
    shortcut_norm_.emplace(*this, fmt::format("downsample.{}", first + 1), out);
  }

  Variable forward(Variable x) {
    return run_region(*this, std::move(x), [this](Variable in) { return transform(std::move(in)); });
  }

 private:
  Variable transform(Variable x) {
    const Scope scope(*this);
    Variable h = x;  // [N, H, W, in]
    for (std::size_t i = 0; i + 1 < layers_.size(); ++i)
      h = layers_[i]->norm.forward_relu(layers_[i]->convolution.forward(std::move(h)));
    h = layers_.back()->convolution.forward(std::move(h));  // [N, H / stride, W / stride, out]
    if (pools_shortcut_)
      x = apply(AvgPool2d{.count_include_pad = false, .ceil_mode = true, .height = x.shape()[1], .width = x.shape()[2]},
                std::move(x));
    if (shortcut_) x = shortcut_norm_->forward(shortcut_->forward(std::move(x)));
    if (drop_path_.current_rate() == 0) return layers_.back()->norm.forward_add_relu(std::move(h), std::move(x));
    h = drop_path_.forward(layers_.back()->norm.forward(std::move(h)));
    return apply(Relu{}, apply(Add{}, std::move(h), std::move(x)));
  }

  struct Layer {
    Layer(Module& block, const std::string& number, std::int64_t in, std::int64_t out, const Window& window,
          double norm_weight)
        : convolution(block, "conv" + number, in, out, lacuna::convolution(out, window)),
          norm(block, "bn" + number, out, {.weight = norm_weight}) {}
    nn::Conv2d convolution;
    nn::BatchNorm2d norm;
  };
  void add_layer(std::int64_t in, std::int64_t out, const Window& window, double norm_weight) {
    const std::string number = std::to_string(layers_.size() + 1);
    layers_.push_back(std::make_unique<Layer>(*this, number, in, out, window, norm_weight));
  }

  std::vector<std::unique_ptr<Layer>> layers_;
  nn::DropPath drop_path_;
  bool pools_shortcut_ = false;
  std::optional<nn::Conv2d> shortcut_;
  std::optional<nn::BatchNorm2d> shortcut_norm_;
};

/// Three convolutions of 3×3 with norms and ReLUs between them.
class ResNet::DeepStem final : public Module {
 public:
  DeepStem(Module& parent, std::string_view name, const ResNetOptions& options)
      : Module(parent, name),
        first_(*this, "0", options.in_channels, options.stem_width,
               convolution(options.stem_width, {.kernel = 3, .stride = 2, .padding = 1})),
        first_norm_(*this, "1", options.stem_width),
        second_(*this, "3", options.stem_width, options.stem_width,
                convolution(options.stem_width, {.kernel = 3, .padding = 1})),
        second_norm_(*this, "4", options.stem_width),
        third_(*this, "6", options.stem_width, 2 * options.stem_width,
               convolution(2 * options.stem_width, {.kernel = 3, .padding = 1})) {}
  Variable forward(Variable x) {
    const Scope scope(*this);
    x = first_norm_.forward_relu(first_.forward(std::move(x)));
    return third_.forward(second_norm_.forward_relu(second_.forward(std::move(x))));
  }

 private:
  nn::Conv2d first_;
  nn::BatchNorm2d first_norm_;
  nn::Conv2d second_;
  nn::BatchNorm2d second_norm_;
  nn::Conv2d third_;
};

ResNet::ResNet(const ModelContext& context, const ResNetOptions& options)
    : ImageModel(context, {options.image_size,
                           options.in_channels,
                           options.num_classes,
                           {"fc"},
                           options.stem == ResNetOptions::Stem::deep ? "conv1.0" : "conv1"}),
      max_pool_(options.stem != ResNetOptions::Stem::cifar),
      stem_(options.stem == ResNetOptions::Stem::deep
                ? nullptr
                : std::make_unique<nn::Conv2d>(*this, "conv1", options.in_channels, options.stem_width,
                                               convolution(options.stem_width, stem_window(options)))),
      deep_stem_(options.stem == ResNetOptions::Stem::deep ? std::make_unique<DeepStem>(*this, "conv1", options)
                                                           : nullptr),
      stem_norm_(*this, "bn1", stem_outputs(options)),
      wanted_(wanted_maps(context, options.layers.size())) {
  make_stages(options);
  if (is_part(context)) return;
  classifier_dropout_.emplace(*this, "drop", options.drop_rate);
  classifier_.emplace(*this, "fc", options.channels.back() * expansion(options), options.num_classes);
}

void ResNet::make_stages(const ResNetOptions& options) {
  const std::size_t count = wanted_.empty() ? options.layers.size() : wanted_.back() + 1;
  stages_.resize(count);
  const std::int64_t total = std::accumulate(options.layers.begin(), options.layers.end(), std::int64_t{0});
  std::int64_t in = stem_outputs(options), index = 0;  // of the block among all
  std::int64_t reduced = max_pool_ ? 4 : 1, dilation = 1;
  for (std::size_t stage = 0; stage < count; ++stage) {
    const std::int64_t wanted_stride = stage > 0 ? 2 : 1, before = dilation;
    const bool dilates = reduced >= options.output_stride;
    (dilates ? dilation : reduced) *= wanted_stride;
    for (std::int64_t i = 0; i < options.layers[stage]; ++i) {
      const Block::Place place{.in = in,
                               .planes = options.channels[stage],
                               .stride = i == 0 && !dilates ? wanted_stride : 1,
                               .first_dilation = i == 0 ? before : dilation,
                               .dilation = dilation,
                               .drop_path = nn::drop_path_rate(options.drop_path_rate, index++, total)};
      stages_[stage].push_back(std::make_unique<Block>(*this, fmt::format("layer{}.{}", stage + 1, i), options, place));
      in = place.planes * expansion(options);
    }
    shapes_.push_back({in, reduced});
  }
}

Variable ResNet::stem(Variable images) {
  Variable x = deep_stem_ ? deep_stem_->forward(std::move(images)) : stem_->forward(std::move(images));
  x = stem_norm_.forward_relu(std::move(x));
  if (max_pool_) {
    const MaxPool2d pool{.kernel = 3, .stride = 2, .padding = 1, .height = x.shape()[1], .width = x.shape()[2]};
    x = apply(pool, std::move(x));
  }
  return x;
}

Variable ResNet::run_stage(std::size_t number, Variable x) {
  return run_sequence(stages_[number], std::move(x),
                      [](Block& block, Variable in) { return block.forward(std::move(in)); });
}

std::vector<MapShape> ResNet::map_shapes() const {
  std::vector<MapShape> shapes;
  for (const std::size_t number : wanted_) shapes.push_back(shapes_[number]);
  return shapes;
}

std::vector<Variable> ResNet::maps(Variable images) {
  const Scope scope(*this);
  Variable x = stem(std::move(images));
  std::vector<Variable> found;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    x = run_stage(i, std::move(x));
    if (wanted_[found.size()] == i) found.push_back(x);
  }
  return found;
}

Variable ResNet::classify(Variable images) {
  const Scope scope(*this);
  Variable x = stem(std::move(images));
  for (std::size_t i = 0; i < stages_.size(); ++i) x = run_stage(i, std::move(x));
  const Shape shape = x.shape();
  x = apply(GlobalAvgPool{.shape = shape}, std::move(x));  // [N, channels]
  return classifier_->forward(classifier_dropout_->forward(std::move(x)));
}

std::array<std::pair<std::string_view, ResNetOptions::Block>, 2> names_of(ResNetOptions::Block) {
  return {{{"basic", ResNetOptions::Block::basic}, {"bottleneck", ResNetOptions::Block::bottleneck}}};
}
std::array<std::pair<std::string_view, ResNetOptions::Stem>, 3> names_of(ResNetOptions::Stem) {
  using Stem = ResNetOptions::Stem;
  return {{{"imagenet", Stem::imagenet}, {"cifar", Stem::cifar}, {"deep", Stem::deep}}};
}

Fields ResNetOptions::fields() {
  using R = ResNetOptions;
  constexpr ItemCount stages{1, 64};
  return rows_of_base<R, ImageOptions>() +
         Fields{
             field("block", &R::block, "residual block: two 3×3 convolutions, or 1×1, 3×3, 1×1"),
             field("layers", &R::layers, count_range, stages, "blocks per stage"),
             field("channels", &R::channels, count_range, stages,
                   "channels per stage; bottlenecks have four times as many"),
             field("cardinality", &R::cardinality, extent_range,
                   "groups of the 3×3 convolution of bottlenecks (ResNeXt)"),
             field("base_width", &R::base_width, extent_range, "width of a group of bottlenecks with 64 channels"),
             field("stem", &R::stem,
                   "7×7 with stride 2 and max pooling, 3×3 with stride 1, or three 3×3 and max pooling"),
             field("stem_width", &R::stem_width, extent_range, "channels of the stem"),
             field("avg_down", &R::average_shortcut, "shortcuts downsample by average pooling (ResNet-D)"),
             field("output_stride", &R::output_stride, fits_weights,
                   "the last map is smaller than the image by this factor, 8, 16 or 32; what stages do not reduce, "
                   "dilated convolutions see"),
             field("zero_init_last", &R::zero_init_last, fits_weights, "initialize the last norm of each block with 0"),
             field("drop_rate", &R::drop_rate, rate_range, fits_weights, "dropout before the head"),
             field("drop_path_rate", &R::drop_path_rate, rate_range, fits_weights,
                   "stochastic depth of the last block; it grows linearly over the blocks")};
}

void ResNetOptions::check(HyperProblems& problems) const {
  if (layers.size() != channels.size())
    problems.add("channels",
                 fmt::format("`channels` names {} stages, but `layers` {}", channels.size(), layers.size()));
  for (const std::int64_t planes : channels) {
    if (planes > largest_extent)
      problems.add("channels", fmt::format("`channels` of {}: expected at most {}", planes, largest_extent));
    else if (inner_width(*this, planes) < 1)
      problems.add("base_width", fmt::format("`base_width` {} leaves no channel of {}", base_width, planes));
  }
  for (const std::int64_t count : layers)
    if (count > 4096) problems.add("layers", fmt::format("`layers` of {}: expected at most 4096", count));
  if (output_stride != 8 && output_stride != 16 && output_stride != 32)
    problems.add("output_stride", fmt::format("`output_stride` {}: expected 8, 16 or 32", output_stride));
  if (average_shortcut && output_stride != 32)
    problems.add("output_stride", "`output_stride` below 32 goes with `avg_down: false` only");
  if (block == Block::basic && (cardinality != 1 || base_width != 64))
    problems.add("block", "`cardinality` and `base_width` need `block: bottleneck`");
}

namespace {

const RegisterFamily<ResNet, ResNetOptions> resnet("resnet");

using Layers = std::vector<std::int64_t>;

/// The form of He et al. 2016, section 4.2: 6n + 2 layers on 32×32 images, here with projected shortcuts.
std::vector<HyperParameter> cifar_form(std::int64_t n) {
  return {{"image_size", std::int64_t{32}}, {"num_classes", std::int64_t{10}}, {"block", "basic"},
          {"layers", Layers{n, n, n}},      {"channels", Layers{16, 32, 64}},  {"stem", "cifar"},
          {"stem_width", std::int64_t{16}}};
}

std::vector<HyperParameter> basic(const Layers& layers) { return {{"block", "basic"}, {"layers", layers}}; }
std::vector<HyperParameter> groups(const Layers& layers, std::int64_t cardinality, std::int64_t base_width) {
  return {{"layers", layers}, {"cardinality", cardinality}, {"base_width", base_width}};
}
std::vector<HyperParameter> form_d(std::vector<HyperParameter> values) {
  values.insert(values.end(), {{"stem", "deep"}, {"stem_width", std::int64_t{32}}, {"avg_down", true}});
  return values;
}

const Layers layers50{3, 4, 6, 3}, layers101{3, 4, 23, 3}, layers152{3, 8, 36, 3};

const RegisterPreset resnet_presets[] = {
    {"resnet18", "resnet", basic({2, 2, 2, 2}), imagenet_images(0.95)},
    {"resnet34", "resnet", basic(layers50), imagenet_images(0.95)},
    {"resnet50", "resnet", {{"layers", layers50}}, imagenet_images(0.95)},
    {"resnet101", "resnet", {{"layers", layers101}}, imagenet_images(0.95)},
    {"resnet152", "resnet", {{"layers", layers152}}, imagenet_images(0.95)},
    {"resnext50_32x4d", "resnet", groups(layers50, 32, 4), imagenet_images(0.95)},
    {"resnext101_32x4d", "resnet", groups(layers101, 32, 4), imagenet_images(0.875, "bilinear")},
    {"resnext101_32x8d", "resnet", groups(layers101, 32, 8), imagenet_images(0.875, "bilinear")},
    {"resnext101_64x4d", "resnet", groups(layers101, 64, 4), imagenet_images(0.95)},
    {"wide_resnet50_2", "resnet", groups(layers50, 1, 128), imagenet_images(0.875)},
    {"wide_resnet101_2", "resnet", groups(layers101, 1, 128), imagenet_images(0.875, "bilinear")},
    {"resnet18d", "resnet", form_d(basic({2, 2, 2, 2})), imagenet_images(0.875)},
    {"resnet34d", "resnet", form_d(basic(layers50)), imagenet_images(0.875)},
    {"resnet50d", "resnet", form_d({{"layers", layers50}}), imagenet_images(0.875)},
    {"resnet101d", "resnet", form_d({{"layers", layers101}}), imagenet_images(0.95)},
    {"resnet152d", "resnet", form_d({{"layers", layers152}}), imagenet_images(0.95)},
    {"resnet20", "resnet", cifar_form(3)},
    {"resnet56", "resnet", cifar_form(9)},
    {"resnet18_cifar",
     "resnet",
     {{"image_size", std::int64_t{32}},
      {"num_classes", std::int64_t{10}},
      {"block", "basic"},
      {"layers", Layers{2, 2, 2, 2}},
      {"stem", "cifar"}}},
};

}  // namespace
}  // namespace lacuna
