// Residual networks (He et al. 2016), ResNeXt (Xie et al. 2017), wide (Zagoruyko and Komodakis 2016) and D forms (He et
// al. 2019) as timm has them, and their CIFAR forms.
#pragma once

#include "models/hyper_parameters.h"
#include "models/image_model.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/norm.h"

#include <array>
#include <memory>
#include <optional>
#include <vector>

namespace lacuna {

struct ResNetOptions : ImageOptions {
  enum class Block : std::uint8_t {
    basic,      // 3×3, 3×3
    bottleneck  // 1×1, 3×3, 1×1 to four times the channels
  };
  enum class Stem : std::uint8_t {
    imagenet,  // 7×7 with stride 2 and a max pool
    cifar,     // 3×3 with stride 1
    deep       // three of 3×3, the first with stride 2, and a max pool; the last has 2 · stem_width outputs
  };

  Block block = Block::bottleneck;
  std::vector<std::int64_t> layers = {3, 4, 6, 3};           // blocks per stage
  std::vector<std::int64_t> channels = {64, 128, 256, 512};  // per stage
  std::int64_t cardinality = 1, base_width = 64;             // bottlenecks: groups, and width per group at 64 channels
  Stem stem = Stem::imagenet;
  std::int64_t stem_width = 64;
  bool average_shortcut = false;
  bool zero_init_last = true;
  std::int64_t output_stride = 32;
  double drop_rate = 0, drop_path_rate = 0;

  static Fields fields();
  void check(HyperProblems& problems) const;
};
std::array<std::pair<std::string_view, ResNetOptions::Block>, 2> names_of(ResNetOptions::Block);
std::array<std::pair<std::string_view, ResNetOptions::Stem>, 3> names_of(ResNetOptions::Stem);

/// timm's ResNet: the same names, shapes and initial distributions. Stages after the first halve the image until it is
/// smaller by `output_stride`; the 3×3 convolutions of later ones are dilated in its place. As a backbone gives the map
/// of each stage. Takes images of any size.
class ResNet final : public ImageModel {
 public:
  ResNet(const ModelContext& context, const ResNetOptions& options);

  std::vector<MapShape> map_shapes() const override;
  std::vector<Variable> maps(Variable images) override;

 private:
  class Block;
  class DeepStem;

  void make_stages(const ResNetOptions& options);
  Variable stem(Variable images);
  Variable run_stage(std::size_t number, Variable x);
  Variable classify(Variable images) override;
  bool takes(std::int64_t, std::int64_t) const override { return true; }

  bool max_pool_;
  std::unique_ptr<nn::Conv2d> stem_;  // or the deep one
  std::unique_ptr<DeepStem> deep_stem_;
  nn::BatchNorm2d stem_norm_;
  std::vector<std::vector<std::unique_ptr<Block>>> stages_;
  std::vector<MapShape> shapes_;     // of the stages' maps
  std::vector<std::size_t> wanted_;  // stages whose maps the backbone gives
  std::optional<nn::Dropout> classifier_dropout_;
  std::optional<nn::Linear> classifier_;
};

}  // namespace lacuna
