#include "models/detection/pyramid_detector.h"

#include <fmt/format.h>

namespace lacuna {

Fields PyramidDetectorOptions::fields() {
  using P = PyramidDetectorOptions;
  return rows_of_base<P, DetectorOptions>() +
         Fields{field("backbone", &P::backbone, fits_weights,
                      "model whose last maps the pyramid reads (retinanet three, fasterrcnn four): a name, or a map of "
                      "name and hyper-parameters"),
                field("frozen_norm", &P::frozen_norm, fits_weights,
                      "the backbone's batch norms keep their statistics, weights and biases"),
                field("norm_eps", &P::norm_eps, up_to(1), fits_weights,
                      "epsilon of frozen norms; 0 for torchvision's weights of COCO"),
                field("fpn_channels", &P::fpn_channels, extent_range, "channels of the pyramid"),
                field("anchor_sizes", &P::anchor_sizes, extent_range, ItemCount{pyramid_maps, 64},
                      "sides of the anchors in pixels: those of the finest of the five maps, those of the next, ...; "
                      "equally many for each")};
}

std::int64_t PyramidDetectorOptions::anchors_of_place() const {
  return ratios * std::ssize(anchor_sizes) / pyramid_maps;
}

void PyramidDetectorOptions::check(const std::vector<std::int64_t>& maps, HyperProblems& problems) const {
  Backbone::check(backbone, {image_size, in_channels, maps}, "backbone", problems);
  if (anchor_sizes.size() % pyramid_maps != 0)
    problems.add("anchor_sizes", fmt::format("`anchor_sizes` has {} sides: expected equally many for each of {} maps",
                                             anchor_sizes.size(), pyramid_maps));
}

PyramidDetector::PyramidDetector(const ModelContext& context, const PyramidDetectorOptions& options,
                                 const std::vector<std::int64_t>& maps, const std::vector<std::string>& heads)
    : Detector(context, {.image_size = options.image_size,
                         .in_channels = options.in_channels,
                         .num_classes = options.num_classes,
                         .heads = heads}),
      backbone_(*this, "backbone.body", options.backbone,
                {.image_size = options.image_size,
                 .in_channels = options.in_channels,
                 .maps = maps,
                 .fixed_norms = options.frozen_norm ? std::optional(options.norm_eps) : std::nullopt}) {}

Tensor PyramidDetector::adapt(const Parameter& parameter, const Tensor& stored, Library library) const {
  return backbone_.model().adapt(parameter, stored, library);
}

}  // namespace lacuna
