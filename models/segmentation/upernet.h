// Options of UperNet.
#pragma once

#include "models/segmentation/segmenter.h"

namespace lacuna {

struct UperNetOptions : SegmenterOptions {
  std::int64_t hidden_size = 512;
  std::vector<std::int64_t> pool_scales{1, 2, 3, 6};
  bool aux = true;
  std::int64_t aux_channels = 256;

  UperNetOptions() {
    image_size = 512;
    num_classes = 150;
    backbone.name = "convnext_tiny";
    map_norm = true;
    dropout = 0;
  }
  static Fields fields();
  void check(HyperProblems& problems) {
    backbone.set_default("always_partition", true);  // as transformers
    backbone.set_default("pad_before_shift", true);
    check_backbone(4, problems);
  }
};

}  // namespace lacuna
