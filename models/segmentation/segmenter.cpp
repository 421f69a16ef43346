#include "models/segmentation/segmenter.h"

#include "models/registry.h"
#include "ops/pooling/pool.h"
#include "ops/shapes/concat_channels.h"
#include "ops/shapes/resize.h"

#include <algorithm>

namespace lacuna {

Fields SegmenterOptions::fields() {
  using S = SegmenterOptions;
  constexpr ItemCount any{0, 64};
  return rows_of_base<S, ImageOptions>() +
         Fields{
             field("backbone", &S::backbone, fits_weights,
                   "model whose maps the head reads: a name, or a map of name and hyper-parameters"),
             field("maps", &S::maps, between(-4096, 4096), any,
                   "numbers of the backbone's maps, ascending; negative ones count from the end; empty: the last ones "
                   "that the head reads"),
             field("map_norm", &S::map_norm, "a layer norm for each map; a ViT's maps go through its final norm"),
             field("dropout", &S::dropout, rate_range, fits_weights, "dropout before the classifier")};
}

std::vector<MapShape> SegmenterOptions::check_backbone(std::int64_t count, HyperProblems& problems) {
  if (maps.empty())
    for (std::int64_t i = -count; i < 0; ++i) maps.push_back(i);
  if (std::ssize(maps) < count)
    problems.add("maps", fmt::format("`maps` names {} maps: the head reads {} or more", maps.size(), count));
  if (backbone.name.empty()) {
    problems.add("backbone", "`backbone`: expected the name of a model, as in backbone: resnet50");
    return {};
  }
  std::vector<MapShape> shapes =
      Backbone::check(backbone, {image_size, in_channels, maps, map_norm}, "backbone", problems);
  return std::ssize(shapes) < count ? std::vector<MapShape>() : shapes;
}

namespace {

ImageModelSignature signature_of(const SegmenterOptions& options, const SegmenterHeads& heads) {
  ImageModelSignature signature{.image_size = options.image_size,
                                .in_channels = options.in_channels,
                                .num_classes = options.num_classes,
                                .heads = {heads.classifier}};
  if (heads.has_aux) signature.heads.push_back(heads.aux_classifier);
  if (!heads.aux.empty()) (heads.has_aux ? signature.optional_parts : signature.other_heads).push_back(heads.aux);
  if (options.map_norm)
    for (std::size_t i = 0; i < options.maps.size(); ++i)
      signature.optional_parts.push_back(fmt::format("backbone.norm{}", i));
  return signature;
}

}  // namespace

Segmenter::Segmenter(const ModelContext& context, const SegmenterOptions& options, const SegmenterHeads& heads)
    : ImageModel(context, signature_of(options, heads)),
      backbone_(*this, "backbone", options.backbone,
                {options.image_size, options.in_channels, options.maps, options.map_norm}) {}

Tensor Segmenter::adapt(const Parameter& parameter, const Tensor& stored, Library library) const {
  return backbone_.model().adapt(parameter, stored, library);
}

Outputs Segmenter::run(Variable images) {
  const Scope scope(*this);
  std::vector<Variable> maps = backbone_.maps(std::move(images));
  Outputs outputs;
  if (training())
    if (Variable aux = decode_aux(maps); aux.defined()) outputs.set("aux_logits", std::move(aux));
  outputs.set("logits", decode(std::move(maps)));
  return outputs;
}

Variable Segmenter::classify(Variable images) { return run(std::move(images)).take("logits"); }

ConvNormRelu::ConvNormRelu(Module& parent, const Names& names, std::int64_t in, std::int64_t out, std::int64_t kernel,
                           std::int64_t dilation)
    : convolution_(parent, names.convolution, in, out,
                   {.kernel = kernel, .padding = dilation * (kernel / 2), .dilation = dilation, .bias = false}),
      norm_(parent, names.norm, out) {}

Variable ConvNormRelu::forward(Variable x) { return norm_.forward_relu(convolution_.forward(std::move(x))); }

Variable resized_as(Variable x, const Shape& like) {
  const Shape from = x.shape();
  if (from[1] == like[1] && from[2] == like[2]) return x;
  return apply(Resize{.height = from[1], .width = from[2], .out_height = like[1], .out_width = like[2]}, std::move(x));
}

Variable concat_channels(std::vector<Variable> maps) {
  if (maps.size() == 1) return std::move(maps.front());
  ConcatChannels op;
  for (const Variable& map : maps) op.channels.push_back(map.shape().back());
  RecordedOp recorded = record(std::make_shared<const Bound<ConcatChannels>>(std::move(op)), maps);
  maps.clear();  // the caller's expression would hold them until its end
  return std::move(recorded.outputs.front());
}

Variable mean_pixel(Variable x) {
  const Shape shape = x.shape();
  return apply(GlobalAvgPool{.shape = shape}, std::move(x)).reshape({shape[0], 1, 1, shape[3]});
}

}  // namespace lacuna
