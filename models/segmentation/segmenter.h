// Semantic segmentation: a backbone's maps to classes of pixels.
#pragma once

#include "models/backbone.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/norm.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

struct SegmenterOptions : ImageOptions {
  BackboneOptions backbone{};
  std::vector<std::int64_t> maps{};  // as BackboneForm::maps; empty: the last ones, as many as the head reads
  bool map_norm = false;
  double dropout = 0.1;

  static Fields fields();

 protected:
  /// Sets `maps` to the last `count` where none are given. Adds the problems of the backbone; returns its maps' shapes,
  /// at least `count`, or none.
  std::vector<MapShape> check_backbone(std::int64_t count, HyperProblems& problems);
};

/// The layers that give logits. The auxiliary head may be left out of the model.
struct SegmenterHeads {
  std::string classifier;        // path of the decoder's last layer
  std::string aux{};             // path of the auxiliary head; empty: the family has none
  std::string aux_classifier{};  // path of its last layer
  bool has_aux = false;
};

/// The parameters of the backbone lie below `backbone`. Input `images`; output `logits` [N, h, w, num_classes], of a
/// lower resolution than the images, and in training `aux_logits` of a head that has a loss of its own. The task
/// resizes them.
class Segmenter : public ImageModel {
 public:
  Tensor adapt(const Parameter& parameter, const Tensor& stored, Library library) const override;
  std::string_view backbone_path() const override { return backbone_.model().path(); }
  std::vector<std::string> beside_backbone() const override { return backbone_.left_out(); }
  bool takes(std::int64_t height, std::int64_t width) const override { return backbone_.model().takes(height, width); }

 protected:
  Segmenter(const ModelContext& context, const SegmenterOptions& options, const SegmenterHeads& heads);

  std::vector<MapShape> shapes() const { return backbone_.shapes(); }

 private:
  Outputs run(Variable images) final;
  Variable classify(Variable images) final;
  /// Logits [N, h, w, num_classes] of the backbone's maps.
  virtual Variable decode(std::vector<Variable> maps) = 0;
  /// The same of an auxiliary head; undefined: there is none.
  virtual Variable decode_aux(const std::vector<Variable>& /*maps*/) { return {}; }

  Backbone backbone_;
};

/// A convolution without bias, a batch norm and a ReLU.
class ConvNormRelu {
 public:
  struct Names {
    std::string convolution, norm;
  };
  ConvNormRelu(Module& parent, const Names& names, std::int64_t in, std::int64_t out, std::int64_t kernel = 1,
               std::int64_t dilation = 1);
  Variable forward(Variable x);

 private:
  nn::Conv2d convolution_;
  nn::BatchNorm2d norm_;
};

/// x [N, h, w, C] resized bilinearly to `like`'s height and width: the outer pixels' corners meet. x itself where the
/// sizes agree.
Variable resized_as(Variable x, const Shape& like);
Variable concat_channels(std::vector<Variable> maps);
/// [N, h, w, C] to the means over places [N, 1, 1, C].
Variable mean_pixel(Variable x);

}  // namespace lacuna
