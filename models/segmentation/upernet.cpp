// UperNet (Xiao et al. 2018): pyramid pooling of the last map, a feature pyramid over all, and one convolution of all
// levels. transformers' UperNetForSemanticSegmentation: the same names, shapes and initial distributions.
#include "models/segmentation/upernet.h"

#include "models/registry.h"
#include "nn/functional.h"
#include "ops/pooling/pool.h"

#include <fmt/format.h>

#include <optional>

namespace lacuna {

Fields UperNetOptions::fields() {
  using U = UperNetOptions;
  constexpr ItemCount any{1, 15};
  return rows_of_base<U, SegmenterOptions>() +
         Fields{field("hidden_size", &U::hidden_size, extent_range, "channels of the decoder"),
                field("pool_scales", &U::pool_scales, extent_range, any, "sides of the pooled maps"),
                field("aux", &U::aux, fits_weights,
                      "a second head on the map before the last, with a loss of its own in training"),
                field("aux_channels", &U::aux_channels, extent_range, "channels of the second head")};
}

namespace {

/// A ConvNormRelu under transformers' names.
std::unique_ptr<ConvNormRelu> layer(Module& parent, const std::string& name, std::int64_t in, std::int64_t out,
                                    std::int64_t kernel) {
  return std::make_unique<ConvNormRelu>(parent, ConvNormRelu::Names{name + ".conv", name + ".batch_norm"}, in, out,
                                        kernel);
}

class UperNet final : public Segmenter {
 public:
  UperNet(const ModelContext& context, const UperNetOptions& options)
      : Segmenter(context, options,
                  {"decode_head.classifier", "auxiliary_head", "auxiliary_head.classifier", options.aux}),
        scales_(options.pool_scales) {
    const std::vector<MapShape> maps = shapes();
    const std::int64_t hidden = options.hidden_size, last = maps.back().channels;
    for (std::size_t k = 0; k < scales_.size(); ++k)
      pooled_.push_back(layer(*this, fmt::format("decode_head.psp_modules.{}.1", k), last, hidden, 1));
    bottleneck_ = layer(*this, "decode_head.bottleneck", last + std::ssize(scales_) * hidden, hidden, 3);
    for (std::size_t i = 0; i + 1 < maps.size(); ++i) {
      laterals_.push_back(layer(*this, fmt::format("decode_head.lateral_convs.{}", i), maps[i].channels, hidden, 1));
      outputs_.push_back(layer(*this, fmt::format("decode_head.fpn_convs.{}", i), hidden, hidden, 3));
    }
    fuse_ = layer(*this, "decode_head.fpn_bottleneck", std::ssize(maps) * hidden, hidden, 3);
    dropout_.emplace(*this, "decode_head.dropout", options.dropout);
    classifier_.emplace(*this, "decode_head.classifier", hidden, options.num_classes, nn::Conv2dOptions{});
    if (!options.aux) return;
    aux_ = layer(*this, "auxiliary_head.convs.0", maps[maps.size() - 2].channels, options.aux_channels, 3);
    aux_dropout_.emplace(*this, "auxiliary_head.dropout", options.dropout);
    aux_classifier_.emplace(*this, "auxiliary_head.classifier", options.aux_channels, options.num_classes,
                            nn::Conv2dOptions{});
  }

 private:
  Variable decode_aux(const std::vector<Variable>& maps) override {
    if (!aux_) return {};
    return aux_classifier_->forward(aux_dropout_->forward(aux_->forward(maps[maps.size() - 2])));
  }

  /// The last map and its means over parts of it, side by side.
  Variable pool_last(Variable map) {
    const Shape shape = map.shape();
    std::vector<Variable> all;
    for (std::size_t k = 0; k < scales_.size(); ++k) {
      const AdaptiveAvgPool2d pool{
          .out_height = scales_[k], .out_width = scales_[k], .height = shape[1], .width = shape[2]};
      all.push_back(resized_as(pooled_[k]->forward(apply(pool, map)), shape));
    }
    all.insert(all.begin(), std::move(map));
    return bottleneck_->forward(concat_channels(std::move(all)));
  }

  Variable decode(std::vector<Variable> maps) override {
    for (std::size_t i = 0; i + 1 < maps.size(); ++i) maps[i] = laterals_[i]->forward(std::move(maps[i]));
    maps.back() = pool_last(std::move(maps.back()));
    for (std::size_t i = maps.size() - 1; i > 0; --i)
      maps[i - 1] = std::move(maps[i - 1]) + resized_as(maps[i], maps[i - 1].shape());
    const Shape finest = maps.front().shape();
    for (std::size_t i = 0; i < maps.size(); ++i) {
      if (i + 1 < maps.size()) maps[i] = outputs_[i]->forward(std::move(maps[i]));
      maps[i] = resized_as(std::move(maps[i]), finest);
    }
    return classifier_->forward(dropout_->forward(fuse_->forward(concat_channels(std::move(maps)))));
  }

  std::vector<std::int64_t> scales_;
  std::vector<std::unique_ptr<ConvNormRelu>> pooled_, laterals_, outputs_;
  std::unique_ptr<ConvNormRelu> bottleneck_, fuse_, aux_;
  std::optional<nn::ChannelDropout> dropout_, aux_dropout_;
  std::optional<nn::Conv2d> classifier_, aux_classifier_;
};

const RegisterFamily<UperNet, UperNetOptions> upernet("upernet", "shape_masks", "", "segmentation");

std::vector<HyperParameter> upernet_on(const char* backbone) { return {{"backbone", backbone}}; }

const RegisterPreset upernet_presets[] = {
    {"upernet_convnext_tiny", "upernet", upernet_on("convnext_tiny")},
    {"upernet_convnext_small", "upernet", upernet_on("convnext_small")},
    {"upernet_convnext_base", "upernet", upernet_on("convnext_base")},
    {"upernet_swin_tiny", "upernet", upernet_on("swin_tiny_patch4_window7_224")},
};

}  // namespace
}  // namespace lacuna
