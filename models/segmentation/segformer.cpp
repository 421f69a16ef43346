// SegFormer (Xie et al. 2021): PVTv2's encoder, and a decoder of linear layers on its maps. The decoder's names are
// those of transformers' files.
#include "models/segmentation/segformer.h"
#include "models/pvt/reduced_attention.h"
#include "models/registry.h"
#include "models/segmentation/segmenter.h"

namespace lacuna {

Fields SegFormerOptions::fields() {
  using S = SegFormerOptions;
  return rows_of_base<S, PvtOptions>() +
         Fields{field("decoder_hidden_size", &S::decoder_hidden_size, extent_range, "channels of the decoder"),
                field("classifier_dropout", &S::classifier_dropout, rate_range, fits_weights,
                      "dropout before the classifier")};
}

namespace {

SegmenterOptions segmenter_of(const SegFormerOptions& options) {
  SegmenterOptions segmenter;
  static_cast<ImageOptions&>(segmenter) = options;
  segmenter.backbone.name = "pvt_v2";
  const Options all = options;
  const Fields of_images = ImageOptions::fields();
  for (const Field& field : PvtOptions::fields())
    if (find_field(of_images, field.name) == nullptr)
      segmenter.backbone.values.push_back({std::string(field.name), all.write(*all.find(field.name))});
  segmenter.maps = {0, 1, 2, 3};
  return segmenter;
}

class SegFormer final : public Segmenter {
 public:
  SegFormer(const ModelContext& context, const SegFormerOptions& options)
      : Segmenter(context, segmenter_of(options), {"decode_head.classifier"}),
        fuse_(*this, {"decode_head.linear_fuse", "decode_head.batch_norm"}, 4 * options.decoder_hidden_size,
              options.decoder_hidden_size),
        dropout_(*this, "decode_head.dropout", options.classifier_dropout),
        classifier_(*this, "decode_head.classifier", options.decoder_hidden_size, options.num_classes, {}) {
    for (const MapShape& map : shapes())
      projections_.push_back(
          std::make_unique<nn::Linear>(*this, fmt::format("decode_head.linear_c.{}.proj", projections_.size()),
                                       map.channels, options.decoder_hidden_size));
  }

 private:
  Variable decode(std::vector<Variable> maps) override {
    const Shape finest = maps.front().shape();
    std::vector<Variable> all;
    for (std::size_t i = maps.size(); i-- > 0;)
      all.push_back(resized_as(projections_[i]->forward(std::move(maps[i])), finest));
    return classifier_.forward(dropout_.forward(fuse_.forward(concat_channels(std::move(all)))));
  }

  std::vector<std::unique_ptr<nn::Linear>> projections_;
  ConvNormRelu fuse_;
  nn::Dropout dropout_;
  nn::Conv2d classifier_;
};

const RegisterFamily<SegFormer, SegFormerOptions> segformer("segformer", "shape_masks", "", "segmentation");

using Counts = std::vector<std::int64_t>;
std::vector<HyperParameter> segformer_form(const Counts& depths, std::int64_t decoder) {
  return {{"depths", depths}, {"decoder_hidden_size", decoder}};
}

const RegisterPreset segformer_presets[] = {
    {"segformer_b0", "segformer", {{"embed_dims", Counts{32, 64, 160, 256}}}},
    {"segformer_b1", "segformer", segformer_form({2, 2, 2, 2}, 256)},
    {"segformer_b2", "segformer", segformer_form({3, 4, 6, 3}, 768)},
    {"segformer_b3", "segformer", segformer_form({3, 4, 18, 3}, 768)},
    {"segformer_b4", "segformer", segformer_form({3, 8, 27, 3}, 768)},
    {"segformer_b5", "segformer", segformer_form({3, 6, 40, 3}, 768)},
};

}  // namespace
}  // namespace lacuna
