// Pyramid vision transformers (Wang et al. 2021) with the names of their authors' files.
#include "models/image_model.h"
#include "models/pvt/reduced_attention.h"
#include "models/registry.h"
#include "nn/functional.h"
#include "nn/init.h"
#include "nn/region.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/shapes/resize.h"
#include "ops/shapes/slicing.h"

#include <cmath>

namespace lacuna {
namespace {

constexpr double patch_eps = 1e-5;  // of the norms of patches
constexpr std::size_t pvt_stages = 4;

struct PvtV1Options : PvtOptions {
  static Fields fields() { return rows_of_base<PvtV1Options, PvtOptions>(); }
  void check(HyperProblems& problems) const {
    PvtOptions::check(problems);
    if (image_size.height % 32 != 0 || image_size.width % 32 != 0)
      problems.add("image_size",
                   fmt::format("`image_size` {}x{}: expected multiples of 32", image_size.height, image_size.width));
  }
};

/// Patches, positions and blocks of one stage. The last one of a classifier has a class token before its map.
class Pvt final : public ImageModel {
 public:
  Pvt(const ModelContext& context, const PvtV1Options& options)
      : ImageModel(context,
                   {options.image_size, options.in_channels, options.num_classes, {"head"}, "patch_embed1.proj"}),
        options_(options),
        wanted_(wanted_maps(context, pvt_stages)) {
    const std::size_t count = wanted_.empty() ? pvt_stages : wanted_.back() + 1;
    for (std::size_t i = 0; i < count; ++i) add_stage(i);
    if (is_part(context)) return;
    const std::int64_t channels = options.embed_dims.back();
    norm_.emplace(*this, "norm", channels, options.norm_eps);
    norm_->set_follows_block();
    class_token_.emplace(*this, "cls_token", Shape{1, 1, channels}, init::truncated_normal(.02));
    class_token_->exclude_from_decay();
    dropout_.emplace(*this, "head_drop", options.drop_rate);
    head_.emplace(*this, "head", channels, options.num_classes,
                  nn::LinearOptions{.init = {init::truncated_normal(.02), init::constant(0)}});
  }

  std::vector<MapShape> map_shapes() const override {
    std::vector<MapShape> shapes;
    for (const std::size_t i : wanted_) shapes.push_back({options_.embed_dims[i], std::int64_t{4} << i});
    return shapes;
  }
  std::vector<Variable> maps(Variable images) override {
    const Scope scope(*this);
    std::vector<Variable> found;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      images = run_stage(i, std::move(images));
      if (wanted_[found.size()] == i) found.push_back(images);
    }
    return found;
  }

  /// Positions of another size are resampled bilinearly, as in the authors' code.
  Tensor adapt(const Parameter& parameter, const Tensor& stored, Library library) const override {
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      if (&parameter != &stages_[i]->positions) continue;
      const Shape &from = stored.shape(), &to = parameter.shape();
      const std::int64_t leading = i + 1 == pvt_stages ? 1 : 0;
      const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(from[1] - leading))));
      if (from.rank() != 3 || from[2] != to[2] || side < 1 || side * side != from[1] - leading) return {};
      if (stored.device() == Device::meta) return Tensor::empty(to, DType::f32, Device::meta);
      const auto [height, width] = grid(i);
      const Tensor table = stored.to(DType::f32).reshape({from[1], from[2]});
      const Tensor map = table.leading(leading, from[1]).reshape({1, side, side, from[2]});
      const Resize resize{.height = side, .width = side, .out_height = height, .out_width = width};
      const Tensor out = Tensor::empty({to[1], to[2]}, DType::f32, Device::cpu, Purpose::parameters);
      if (leading > 0) out.leading(0, 1).copy_from(table.leading(0, 1));
      out.leading(leading, to[1]).copy_from(resize.forward({{map}}).reshape({to[1] - leading, to[2]}));
      return out.reshape(to);
    }
    return ImageModel::adapt(parameter, stored, library);
  }

 private:
  struct Stage {
    Stage(Module& model, const std::string& number, std::int64_t in, std::int64_t channels, std::int64_t patch,
          std::int64_t rows)
        : patches(model, "patch_embed" + number + ".proj", in, channels, {.kernel = patch, .stride = patch}),
          norm(model, "patch_embed" + number + ".norm", channels, patch_eps),
          positions(model, "pos_embed" + number, {1, rows, channels}, init::truncated_normal(.02)) {}
    nn::Conv2d patches;
    nn::LayerNorm norm;
    Parameter positions;  // [1, tokens, channels]; of the last stage a class token's row comes first
    std::vector<std::unique_ptr<PvtBlock>> blocks;
  };

  ImageSize grid(std::size_t stage) const {
    const std::int64_t stride = std::int64_t{4} << stage;
    return {image_size().height / stride, image_size().width / stride};
  }
  void add_stage(std::size_t i) {
    const auto [height, width] = grid(i);
    const std::string number = std::to_string(i + 1);
    Stage& stage = *stages_.emplace_back(std::make_unique<Stage>(
        *this, number, i == 0 ? options_.in_channels : options_.embed_dims[i - 1], options_.embed_dims[i],
        i == 0 ? 4 : 2, height * width + (i + 1 == pvt_stages ? 1 : 0)));
    for (std::int64_t k = 0; k < options_.depths[i]; ++k)
      stage.blocks.push_back(std::make_unique<PvtBlock>(*this, fmt::format("block{}.{}", number, k), options_,
                                                        PvtBlockPlace{.stage = i, .number = k}));
  }

  /// x [N, H, W, C] to the stage's map, or behind the last stage of a classifier to tokens with the class token first.
  Variable run_stage(std::size_t i, Variable x) const {
    const Stage& stage = *stages_[i];
    x = stage.patches.forward(std::move(x));
    const Shape map = x.shape();  // [N, h, w, C]
    x = stage.norm.forward(x.reshape({map[0], map[1] * map[2], map[3]}));
    Variable positions = stage.positions.variable();
    const bool has_token = i + 1 == pvt_stages && class_token_;
    if (has_token) {
      std::vector<Variable> all;
      all.push_back(apply(Expand{.count = map[0], .dtype = x.dtype()}, class_token_->variable()));
      all.push_back(std::move(x));
      x = concat(std::move(all), 1);
    } else if (i + 1 == pvt_stages) {
      positions = slice(std::move(positions), 1, 1, 1 + map[1] * map[2]);
    }
    const Shape of_positions = positions.shape();
    x = apply(AddBroadcast{.shape = of_positions}, std::move(x), std::move(positions));
    x = run_sequence(stage.blocks, std::move(x), [&map](const PvtBlock& block, Variable in) {
      return block.forward(std::move(in), map[1], map[2]);
    });
    return has_token ? x : x.reshape(map);
  }

  Variable classify(Variable x) override {
    const Scope scope(*this);
    for (std::size_t i = 0; i < stages_.size(); ++i) x = run_stage(i, std::move(x));
    const std::int64_t batch = x.shape()[0], channels = x.shape()[2];
    x = norm_->forward(slice(std::move(x), 1, 0, 1)).reshape({batch, channels});
    return head_->forward(dropout_->forward(std::move(x)));
  }

  PvtOptions options_;
  std::vector<std::size_t> wanted_;  // stages whose maps the backbone gives
  std::vector<std::unique_ptr<Stage>> stages_;
  std::optional<nn::LayerNorm> norm_;
  std::optional<Parameter> class_token_;  // [1, 1, channels]
  std::optional<nn::Dropout> dropout_;
  std::optional<nn::Linear> head_;
};

const RegisterFamily<Pvt, PvtV1Options> pvt("pvt");

std::vector<HyperParameter> pvt_form(const std::vector<std::int64_t>& depths) { return {{"depths", depths}}; }

const RegisterPreset pvt_presets[] = {
    {"pvt_tiny", "pvt", pvt_form({2, 2, 2, 2})},
    {"pvt_small", "pvt", pvt_form({3, 4, 6, 3})},
    {"pvt_medium", "pvt", pvt_form({3, 4, 18, 3})},
    {"pvt_large", "pvt", pvt_form({3, 8, 27, 3})},
};

}  // namespace
}  // namespace lacuna
