#include "models/swin.h"

#include "models/io/resample.h"
#include "models/registry.h"
#include "nn/init.h"
#include "nn/mlp.h"
#include "nn/region.h"
#include "nn/window_attention.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/pooling/pool.h"
#include "ops/shapes/patch_merging.h"

#include <numeric>
#include <optional>

namespace lacuna {
namespace {

constexpr double eps = 1e-5;  // of every norm

nn::WeightInit swin_linear() { return {init::truncated_normal(.02), init::constant(0)}; }

/// One axis of a stage's windows.
struct Axis {
  std::int64_t window, shift;
  Axis(std::int64_t extent, std::int64_t wanted, bool always)
      : window(always ? wanted : std::min(wanted, extent)), shift(!always && extent <= wanted ? 0 : wanted / 2) {}
};

/// The place of a stage in the model.
struct StagePlace {
  std::int64_t height, width;  // of its map
  ImageSize windowed;          // the map that the windows are chosen for
  std::int64_t channels, heads, depth;
  std::int64_t first_block;  // among all
  std::int64_t all_blocks;
  std::int64_t pretrained_window;
};

}  // namespace

class SwinTransformer::Block final : public Module {
 public:
  Block(Module& parent, std::string_view name, const SwinOptions& options, const StagePlace& stage, std::int64_t number)
      : Module(parent, name),
        norms_behind_(options.second),
        norm1_(*this, "norm1", stage.channels, eps, options.second ? 0 : 1),
        attention_(make_attention(options, stage, number % 2 == 1)),
        drop_path1_(*this, "drop_path1", drop_path(options, stage, number)),
        norm2_(*this, "norm2", stage.channels, eps, options.second ? 0 : 1),
        mlp_(*this, "mlp", stage.channels,
             static_cast<std::int64_t>(static_cast<double>(stage.channels) * options.mlp_ratio),
             {.dropout = options.proj_drop_rate, .init = swin_linear()}),
        drop_path2_(*this, "drop_path2", drop_path(options, stage, number)) {
    set_role(Role::block);
  }

  /// x [B, height · width, channels], and so the result.
  Variable forward(Variable x) const {
    return run_region(*this, std::move(x), [this](Variable in) { return transform(std::move(in)); });
  }

 private:
  std::unique_ptr<nn::WindowAttention> make_attention(const SwinOptions& options, const StagePlace& stage,
                                                      bool shifted) {
    const Axis down(stage.windowed.height, options.window.first, options.always_partition),
        across(stage.windowed.width, options.window.second, options.always_partition);
    const nn::WindowAttentionOptions attention{.heads = stage.heads,
                                               .height = stage.height,
                                               .width = stage.width,
                                               .window_height = down.window,
                                               .window_width = across.window,
                                               .shift_down = shifted ? down.shift : 0,
                                               .shift_right = shifted ? across.shift : 0,
                                               .pads_first = options.pad_before_shift,
                                               .qkv_bias = options.qkv_bias,
                                               .projection_dropout = options.proj_drop_rate,
                                               .init = swin_linear(),
                                               .pretrained_window = stage.pretrained_window};
    if (options.second) return std::make_unique<nn::CosineWindowAttention>(*this, "attn", stage.channels, attention);
    return std::make_unique<nn::TableWindowAttention>(*this, "attn", stage.channels, attention);
  }
  static double drop_path(const SwinOptions& options, const StagePlace& stage, std::int64_t number) {
    return nn::drop_path_rate(options.drop_path_rate, stage.first_block + number, stage.all_blocks);
  }
  Variable transform(Variable x) const {
    const Scope scope(*this);
    if (norms_behind_) {
      Variable mixed = norm1_.forward(attention_->forward(x));
      x = drop_path1_.forward_onto(std::move(x), std::move(mixed));
      Variable transformed = norm2_.forward(mlp_.forward(x));
      return drop_path2_.forward_onto(std::move(x), std::move(transformed));
    }
    Variable h = norm1_.forward(x);
    x = add_branch(std::move(x), drop_path1_,
                   [&](Variable to) { return attention_->forward(std::move(h), std::move(to)); });
    h = norm2_.forward(x);
    return add_branch(std::move(x), drop_path2_,
                      [&](Variable to) { return mlp_.forward(std::move(h), {}, std::move(to)); });
  }

  bool norms_behind_;
  nn::LayerNorm norm1_;
  std::unique_ptr<nn::WindowAttention> attention_;
  nn::DropPath drop_path1_;
  nn::LayerNorm norm2_;
  nn::Mlp mlp_;
  nn::DropPath drop_path2_;
};

/// Patch merging, except in the first stage, and blocks.
class SwinTransformer::Stage final : public Module {
 public:
  Stage(Module& parent, std::string_view name, const SwinOptions& options, const StagePlace& place,
        const ImageSize& before)
      : Module(parent, name),
        place_(place),
        before_(before),
        norm_behind_(options.second),
        window_height_(Axis(place.windowed.height, options.window.first, options.always_partition).window),
        window_width_(Axis(place.windowed.width, options.window.second, options.always_partition).window) {
    if (place.first_block > 0) {
      const std::int64_t in = place.channels / 2;
      if (!norm_behind_) merging_norm_.emplace(*this, "downsample.norm", 4 * in, eps);
      reduction_.emplace(*this, "downsample.reduction", 4 * in, 2 * in,
                         nn::LinearOptions{.bias = false, .init = swin_linear()});
      if (norm_behind_) merging_norm_.emplace(*this, "downsample.norm", 2 * in, eps);
    }
    for (std::int64_t i = 0; i < place.depth; ++i)
      blocks_.push_back(std::make_unique<Block>(*this, "blocks." + std::to_string(i), options, place, i));
  }

  /// x [B, L, channels], tokens of the former stage's map, to those of this one's.
  Variable forward(Variable x) const {
    if (reduction_) x = merge(std::move(x));
    return run_sequence(blocks_, std::move(x),
                        [](const Block& block, Variable in) { return block.forward(std::move(in)); });
  }
  std::int64_t height() const { return place_.height; }
  std::int64_t width() const { return place_.width; }
  std::int64_t window_height() const { return window_height_; }
  std::int64_t window_width() const { return window_width_; }

 private:
  Variable merge(Variable x) const {
    const Scope scope(*this);
    const std::int64_t batch = x.shape()[0], in = x.shape()[2];
    x = apply(PatchMerging{.height = before_.height, .width = before_.width},
              x.reshape({batch, before_.height, before_.width, in}))
            .reshape({batch, place_.height * place_.width, 4 * in});
    if (norm_behind_) return merging_norm_->forward(reduction_->forward(std::move(x)));
    return reduction_->forward(merging_norm_->forward(std::move(x)));
  }

  StagePlace place_;
  ImageSize before_;  // tokens of the former stage's map
  bool norm_behind_;
  std::int64_t window_height_, window_width_;
  std::optional<nn::LayerNorm> merging_norm_;
  std::optional<nn::Linear> reduction_;
  std::vector<std::unique_ptr<Block>> blocks_;
};

SwinTransformer::SwinTransformer(const ModelContext& context, const SwinOptions& options)
    : ImageModel(context,
                 {options.image_size, options.in_channels, options.num_classes, {"head.fc"}, "patch_embed.proj"}),
      patch_size_(options.patch_size),
      patch_embedding_(*this, "patch_embed.proj", options.in_channels, options.embed_dim,
                       {.kernel = options.patch_size, .stride = options.patch_size}),
      patch_norm_(*this, "patch_embed.norm", options.embed_dim, eps),
      wanted_(wanted_maps(context, options.depths.size())),
      stages_(make_stages(options)) {
  if (is_part(context)) return;
  const std::int64_t channels = options.embed_dim << (options.depths.size() - 1);
  norm_.emplace(*this, "norm", channels, eps);
  norm_->set_follows_block();
  head_dropout_.emplace(*this, "head.drop", options.drop_rate);
  head_.emplace(*this, "head.fc", channels, options.num_classes, nn::LinearOptions{.init = swin_linear()});
}

std::vector<std::unique_ptr<SwinTransformer::Stage>> SwinTransformer::make_stages(const SwinOptions& options) {
  std::vector<std::unique_ptr<Stage>> stages;
  const ImageSize first{options.image_size.height / options.patch_size, options.image_size.width / options.patch_size};
  ImageSize map = first;
  std::int64_t blocks = 0;
  const std::int64_t all = std::accumulate(options.depths.begin(), options.depths.end(), std::int64_t{0});
  const std::size_t count = wanted_.empty() ? options.depths.size() : wanted_.back() + 1;
  for (std::size_t i = 0; i < count; ++i) {
    const ImageSize before = map;
    if (i > 0) map = {(map.height + 1) / 2, (map.width + 1) / 2};
    // transformers' Swinv2 chooses windows for sides that are rounded down.
    const ImageSize rounded_down{std::max<std::int64_t>(first.height >> i, 1),
                                 std::max<std::int64_t>(first.width >> i, 1)};
    const StagePlace place{.height = map.height,
                           .width = map.width,
                           .windowed = options.second && options.pad_before_shift ? rounded_down : map,
                           .channels = options.embed_dim << i,
                           .heads = options.num_heads[i],
                           .depth = options.depths[i],
                           .first_block = blocks,
                           .all_blocks = all,
                           .pretrained_window = options.pretrained_windows.empty() ? 0 : options.pretrained_windows[i]};
    stages.push_back(std::make_unique<Stage>(*this, "layers." + std::to_string(i), options, place, before));
    blocks += options.depths[i];
  }
  return stages;
}

Variable SwinTransformer::embed(Variable images) {
  Variable x = patch_embedding_.forward(std::move(images));  // [B, H / patch, W / patch, embed_dim]
  const Shape map = x.shape();
  return patch_norm_.forward(x.reshape({map[0], map[1] * map[2], map[3]}));
}

std::vector<MapShape> SwinTransformer::map_shapes() const {
  std::vector<MapShape> shapes;
  for (const std::size_t number : wanted_) shapes.push_back({patch_embedding_.out() << number, patch_size_ << number});
  return shapes;
}

std::vector<Variable> SwinTransformer::maps(Variable images) {
  const Scope scope(*this);
  Variable x = embed(std::move(images));
  std::vector<Variable> found;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    x = stages_[i]->forward(std::move(x));
    const Shape map = x.shape();
    if (wanted_[found.size()] == i)
      found.push_back(x.reshape({map[0], stages_[i]->height(), stages_[i]->width(), map[2]}));
  }
  return found;
}

Variable SwinTransformer::classify(Variable images) {
  const Scope scope(*this);
  Variable x = embed(std::move(images));
  for (const std::unique_ptr<Stage>& stage : stages_) x = stage->forward(std::move(x));
  x = norm_->forward(std::move(x));
  const Shape shape = x.shape();
  x = apply(GlobalAvgPool{.shape = shape}, std::move(x));  // [B, channels]
  return head_->forward(head_dropout_->forward(std::move(x)));
}

Tensor SwinTransformer::adapt(const Parameter& parameter, const Tensor& stored, Library library) const {
  if (!parameter.path().ends_with(".relative_position_bias_table"))
    return ImageModel::adapt(parameter, stored, library);
  for (const std::unique_ptr<Stage>& stage : stages_)
    if (parameter.path().starts_with(stage->path() + "."))
      return resample_bias_table(stored, stage->window_height(), stage->window_width(), parameter.shape()[1]);
  return {};
}

namespace {

constexpr ItemCount stages{1, 64};

template <class S>
Fields swin_rows() {
  return rows_of_base<S, ImageOptions>() +
         Fields{field<S>("patch_size", &S::patch_size, extent_range, "patch side in pixels"),
                field<S>("embed_dim", &S::embed_dim, extent_range,
                         "channels of the first stage; each later stage has twice as many"),
                field<S>("depths", &S::depths, count_range, stages, "blocks per stage"),
                field<S>("num_heads", &S::num_heads, count_range, stages, "attention heads per stage"),
                field<S>("window_size", &S::window, extent_range, fits_weights,
                         "window side in tokens, or [height, width]"),
                field<S>("always_partition", &S::always_partition, fits_weights,
                         "windows neither shrink to a map that is smaller nor stay where they are on it (upernet's "
                         "default, as in transformers)"),
                field<S>("pad_before_shift", &S::pad_before_shift, fits_weights,
                         "maps are padded to whole windows before they are shifted, as in transformers (upernet's "
                         "default), and not after it, as in timm; Swin V2 chooses windows for sides rounded down"),
                field<S>("mlp_ratio", &S::mlp_ratio, below(1024), "hidden width of the MLP / channels"),
                field<S>("qkv_bias", &S::qkv_bias, "bias of queries, keys and values"),
                field<S>("drop_rate", &S::drop_rate, rate_range, fits_weights, "dropout before the head"),
                field<S>("proj_drop_rate", &S::proj_drop_rate, rate_range, fits_weights,
                         "dropout after projections and in the MLP"),
                field<S>("drop_path_rate", &S::drop_path_rate, rate_range, fits_weights,
                         "stochastic depth of the last block; it grows linearly over the blocks")};
}

}  // namespace

Fields SwinOptions::fields() { return swin_rows<SwinOptions>(); }

Fields SwinV2Options::fields() {
  using S = SwinV2Options;
  return swin_rows<S>() + Fields{field<S>("pretrained_window_sizes", &S::pretrained_windows, up_to(0x7fffffff),
                                          "windows of pretraining per stage, which scale the position bias; 0: the "
                                          "model's own")};
}

void SwinV2Options::check(HyperProblems& problems) {
  if (pretrained_windows.empty()) pretrained_windows.resize(depths.size());
  if (pretrained_windows.size() != depths.size())
    problems.add("pretrained_window_sizes", fmt::format("`pretrained_window_sizes` names {} stages, but `depths` {}",
                                                        pretrained_windows.size(), depths.size()));
  SwinOptions::check(problems);
}

void SwinOptions::check(HyperProblems& problems) const {
  if (image_size.height % patch_size != 0 || image_size.width % patch_size != 0)
    problems.add("image_size", fmt::format("`patch_size` {} does not divide `image_size` {}x{}", patch_size,
                                           image_size.height, image_size.width));
  if (num_heads.size() != depths.size())
    problems.add("num_heads",
                 fmt::format("`num_heads` names {} stages, but `depths` {}", num_heads.size(), depths.size()));
  constexpr std::size_t most_stages = 8;
  if (depths.size() > most_stages)
    problems.add("depths", fmt::format("`depths` names {} stages: expected at most {}", depths.size(), most_stages));
  for (std::size_t i = 0; i < std::min({depths.size(), num_heads.size(), most_stages}); ++i)
    if ((embed_dim << i) % num_heads[i] != 0)
      problems.add("num_heads", fmt::format("`num_heads` {} does not divide the {} channels of stage {}", num_heads[i],
                                            embed_dim << i, i));
  for (const std::int64_t depth : depths)
    if (depth > 4096) problems.add("depths", fmt::format("`depths` of {}: expected at most 4096", depth));
  if (static_cast<double>(embed_dim) * mlp_ratio < 1)
    problems.add("mlp_ratio",
                 fmt::format("`mlp_ratio` {} of `embed_dim` {} leaves no hidden unit", mlp_ratio, embed_dim));
}

namespace {

const RegisterFamily<SwinTransformer, SwinOptions> swin("swin");
const RegisterFamily<SwinTransformer, SwinV2Options> swin_v2("swin_v2");

using List = std::vector<std::int64_t>;

std::vector<HyperParameter> shape(std::int64_t embed_dim, const List& depths, const List& num_heads,
                                  std::int64_t image_size, std::int64_t window, const List& pretrained = {}) {
  std::vector<HyperParameter> values{{"image_size", image_size},
                                     {"embed_dim", embed_dim},
                                     {"depths", depths},
                                     {"num_heads", num_heads},
                                     {"window_size", window}};
  if (!pretrained.empty()) values.push_back({"pretrained_window_sizes", pretrained});
  return values;
}

const List shallow{2, 2, 6, 2}, deep{2, 2, 18, 2};
const List tiny_heads{3, 6, 12, 24}, base_heads{4, 8, 16, 32}, large_heads{6, 12, 24, 48};
const List window12{12, 12, 12, 6};

const RegisterPreset swin_presets[] = {
    {"swin_tiny_patch4_window7_224", "swin", shape(96, shallow, tiny_heads, 224, 7), imagenet_images(0.9)},
    {"swin_small_patch4_window7_224", "swin", shape(96, deep, tiny_heads, 224, 7), imagenet_images(0.9)},
    {"swin_base_patch4_window7_224", "swin", shape(128, deep, base_heads, 224, 7), imagenet_images(0.9)},
    {"swin_base_patch4_window12_384", "swin", shape(128, deep, base_heads, 384, 12), imagenet_images(1)},
    {"swin_large_patch4_window7_224", "swin", shape(192, deep, large_heads, 224, 7), imagenet_images(0.9)},
    {"swin_large_patch4_window12_384", "swin", shape(192, deep, large_heads, 384, 12), imagenet_images(1)},
    {"swinv2_tiny_window8_256", "swin_v2", shape(96, shallow, tiny_heads, 256, 8), imagenet_images(0.9)},
    {"swinv2_tiny_window16_256", "swin_v2", shape(96, shallow, tiny_heads, 256, 16), imagenet_images(0.9)},
    {"swinv2_small_window8_256", "swin_v2", shape(96, deep, tiny_heads, 256, 8), imagenet_images(0.9)},
    {"swinv2_small_window16_256", "swin_v2", shape(96, deep, tiny_heads, 256, 16), imagenet_images(0.9)},
    {"swinv2_base_window8_256", "swin_v2", shape(128, deep, base_heads, 256, 8), imagenet_images(0.9)},
    {"swinv2_base_window16_256", "swin_v2", shape(128, deep, base_heads, 256, 16), imagenet_images(0.9)},
    {"swinv2_base_window12_192", "swin_v2", shape(128, deep, base_heads, 192, 12), imagenet_images(0.9)},
    {"swinv2_base_window12to16_192to256", "swin_v2", shape(128, deep, base_heads, 256, 16, window12),
     imagenet_images(0.9)},
    {"swinv2_base_window12to24_192to384", "swin_v2", shape(128, deep, base_heads, 384, 24, window12),
     imagenet_images(1)},
    {"swinv2_large_window12_192", "swin_v2", shape(192, deep, large_heads, 192, 12), imagenet_images(0.9)},
    {"swinv2_large_window12to16_192to256", "swin_v2", shape(192, deep, large_heads, 256, 16, window12),
     imagenet_images(0.9)},
    {"swinv2_large_window12to24_192to384", "swin_v2", shape(192, deep, large_heads, 384, 24, window12),
     imagenet_images(1)},
};

}  // namespace
}  // namespace lacuna
