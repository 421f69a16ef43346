// The linear segmentation head of DINOv2 (Oquab et al. 2023), its BNHead: a batch norm of one or more maps and a 1×1
// convolution. On a frozen backbone nothing else is trained.
#include "models/registry.h"
#include "models/segmentation/segmenter.h"
#include "nn/init.h"

#include <numeric>

namespace lacuna {
namespace {

struct LinearSegmenterOptions : SegmenterOptions {
  LinearSegmenterOptions() {
    backbone.name = "vit_small_patch14_dinov2";
    map_norm = true;
    dropout = 0;
  }
  static Fields fields() { return rows_of_base<LinearSegmenterOptions, SegmenterOptions>(); }
  void check(HyperProblems& problems) { check_backbone(1, problems); }
};

class LinearSegmenter final : public Segmenter {
 public:
  LinearSegmenter(const ModelContext& context, const LinearSegmenterOptions& options)
      : Segmenter(context, options, {"decode_head.conv_seg"}),
        norm_(*this, "decode_head.bn", width()),
        dropout_(*this, "decode_head.dropout", options.dropout),
        classifier_(*this, "decode_head.conv_seg", width(), options.num_classes,
                    {.init = {init::normal(0.01), init::constant(0)}}) {}

 private:
  std::int64_t width() const {
    const std::vector<MapShape> maps = shapes();
    return std::accumulate(maps.begin(), maps.end(), std::int64_t{0},
                           [](std::int64_t sum, const MapShape& map) { return sum + map.channels; });
  }
  Variable decode(std::vector<Variable> maps) override {
    const Shape finest = maps.front().shape();
    for (Variable& map : maps) map = resized_as(std::move(map), finest);
    return classifier_.forward(dropout_.forward(norm_.forward(concat_channels(std::move(maps)))));
  }

  nn::BatchNorm2d norm_;
  nn::ChannelDropout dropout_;
  nn::Conv2d classifier_;
};

const RegisterFamily<LinearSegmenter, LinearSegmenterOptions> linear("linear_segmenter", "shape_masks", "",
                                                                     "segmentation");

}  // namespace
}  // namespace lacuna
