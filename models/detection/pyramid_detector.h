// The parts that RetinaNet and Faster R-CNN share: a backbone, a feature pyramid's width, anchors of five maps.
#pragma once

#include "models/backbone.h"
#include "models/detection/detector.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

struct PyramidDetectorOptions : DetectorOptions {
  static constexpr std::int64_t pyramid_maps = 5, ratios = 3;
  BackboneOptions backbone{};
  bool frozen_norm = false;
  double norm_eps = 1e-5;
  std::int64_t fpn_channels = 256;
  std::vector<std::int64_t> anchor_sizes{};  // [pyramid_maps, sizes]

  PyramidDetectorOptions() { backbone.name = "resnet50"; }
  static Fields fields();
  std::int64_t anchors_of_place() const;

 protected:
  /// `maps`: of the backbone, as BackboneForm has them.
  void check(const std::vector<std::int64_t>& maps, HyperProblems& problems) const;
};

/// The parameters of the backbone lie below `backbone.body`.
class PyramidDetector : public Detector {
 public:
  Tensor adapt(const Parameter& parameter, const Tensor& stored, Library library) const override;
  std::string_view backbone_path() const override { return backbone_.model().path(); }
  std::vector<std::string> beside_backbone() const override { return backbone_.left_out(); }
  bool takes(std::int64_t height, std::int64_t width) const override { return backbone_.model().takes(height, width); }

 protected:
  PyramidDetector(const ModelContext& context, const PyramidDetectorOptions& options,
                  const std::vector<std::int64_t>& maps, const std::vector<std::string>& heads);

  std::vector<MapShape> shapes() const { return backbone_.shapes(); }
  std::vector<Variable> maps(Variable images) const { return backbone_.maps(std::move(images)); }

 private:
  Backbone backbone_;
};

}  // namespace lacuna
