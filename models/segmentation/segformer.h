// Options of SegFormer.
#pragma once

#include "models/pvt/reduced_attention.h"

namespace lacuna {

struct SegFormerOptions : PvtOptions {
  std::int64_t decoder_hidden_size = 256;
  double classifier_dropout = 0.1;

  SegFormerOptions() {
    image_size = 512;
    num_classes = 150;
    mlp_ratios = {4, 4, 4, 4};
    norm_eps = 1e-5;
    drop_path_rate = 0.1;
  }
  static Fields fields();
};

}  // namespace lacuna
