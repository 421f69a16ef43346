// Low-rank adapters: LoRA (Hu et al. 2022), with rank-stabilised scaling (Kalajdzievski 2023), and LoRA-FA (Zhang et
// al. 2023), with the conventions of PEFT.
#include "nn/adapter.h"
#include "nn/dropout.h"
#include "nn/functional.h"
#include "nn/init.h"
#include "ops/products/dropout_linear.h"
#include "ops/products/gemm.h"
#include "ops/products/low_rank_linear.h"
#include "ops/products/scaled_linear.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace lacuna::nn {
namespace {

enum class Trains : std::uint8_t {
  both,
  up  // LoRA-FA: A keeps its initial values, and backward does not need the layer's input
};

struct LoraOptions {
  std::int64_t rank = 8;
  double alpha = 8;
  bool rslora = false;
  double dropout = 0;

  static Fields fields() {
    return {field("rank", &LoraOptions::rank, between(1, 65536), "rank of the update"),
            field("alpha", &LoraOptions::alpha, "the update is scaled by alpha / rank"),
            field("rslora", &LoraOptions::rslora, "scale by alpha / √rank instead"),
            field("dropout", &LoraOptions::dropout, below(1), "dropout rate of the adapter's input")};
  }
  double scale() const {
    const auto r = static_cast<double>(rank);
    return alpha / (rslora ? std::sqrt(r) : r);
  }
};

void train(const Module& down, const Module& up, Trains trains) {
  for (Parameter* const parameter : down.parameters()) parameter->set_trainable(trains == Trains::both);
  for (Parameter* const parameter : up.parameters()) parameter->set_trainable(true);
}

/// y = layer(x) + s · B · A · dropout(x), with A [rank, in], B [out, rank] and s = alpha / rank, or alpha / √rank.
/// A is initially uniform in ±1/√in (Kaiming with a = √5), B zero. Each part of a layer may have its own pair, for its
/// rows.
class LinearLora final : public Adapter {
 public:
  LinearLora(Linear& layer, const std::vector<std::size_t>& parts, const std::vector<Options>& options, Trains trains)
      : layer_(layer), trains_(trains) {
    expect(options.size() == std::max(parts.size(), std::size_t{1}) && parts.size() <= LowRankLinear::pairs,
           "{}: an adapter for {} parts with {} options", layer.path(), parts.size(), options.size());
    if (parts.empty())
      branches_.push_back(
          std::make_unique<Branch>(layer, layer.in(), layer.out(), 0, options.front().as<LoraOptions>()));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::int64_t rows = layer.out() / std::ssize(layer.parts());
      parts_.push_back(std::make_unique<Module>(layer, layer.parts().at(parts[i])));
      branches_.push_back(std::make_unique<Branch>(
          *parts_.back(), layer.in(), rows, static_cast<std::int64_t>(parts[i]) * rows, options[i].as<LoraOptions>()));
    }
  }

  Variable forward(Variable x, Variable scale, const SequencesPtr& sequences) const override {
    if (scale.defined()) return scaled(std::move(x), std::move(scale), sequences);
    // A scale of its own is in z.
    const bool in_common =
        std::ranges::all_of(branches_, [&](const auto& branch) { return branch->scale == branches_[0]->scale; });
    LowRankLinear op{.scale = in_common ? branches_[0]->scale : 1};
    std::array<Variable, 2 * LowRankLinear::pairs> pairs;  // z [..., rank] and B
    for (std::size_t i = 0; i < branches_.size(); ++i) {
      op.first[i] = branches_[i]->first;
      op.columns[i] = branches_[i]->up.out();
      pairs[2 * i] = branches_[i]->lowered(x, sequences);
      if (!in_common) pairs[2 * i] = std::move(pairs[2 * i]) * branches_[i]->scale;
      pairs[2 * i + 1] = branches_[i]->up.weight().variable();
    }
    return apply(op, std::move(x), layer_.weight().variable(), layer_.bias(), std::move(pairs[0]), std::move(pairs[1]),
                 std::move(pairs[2]), std::move(pairs[3]), std::move(pairs[4]), std::move(pairs[5]));
  }
  std::vector<Parameter*> parameters() const override {
    std::vector<Parameter*> all;
    for (const auto& branch : branches_)
      for (const Linear* const matrix : {&branch->down, &branch->up})
        for (Parameter* const parameter : matrix->parameters()) all.push_back(parameter);
    return all;
  }
  void set_trainable() const override {
    for (const auto& branch : branches_) train(branch->down, branch->up, trains_);
  }
  void merge_into(const Tensor& weight) const override {
    for (const auto& branch : branches_)
      gemm(Matrix(branch->up.weight().tensor()), Matrix(branch->down.weight().tensor()),
           Matrix(weight.leading(branch->first, branch->first + branch->up.out())),
           {.alpha = branch->scale, .add = true});
  }

 private:
  struct Branch {
    Branch(Module& parent, std::int64_t in, std::int64_t out, std::int64_t first_row, const LoraOptions& options)
        : first(first_row),
          scale(options.scale()),
          dropout(parent, "lora_dropout", options.dropout),
          down(parent, "lora_A", in, options.rank, {.bias = false, .takes_few_bits = false}),
          up(parent, "lora_B", options.rank, out,
             {.bias = false, .init = {init::constant(0), {}}, .takes_few_bits = false}) {}

    Variable lowered(Variable x, const SequencesPtr& sequences) const {
      if (dropout.current_rate() == 0) return down.forward(std::move(x));
      return apply(DropoutLinear{.p = dropout.current_rate(), .stream = dropout.mask_stream(), .sequences = sequences},
                   std::move(x), down.weight().variable());
    }

    std::int64_t first;  // first row in the layer's weight
    double scale;
    Dropout dropout;
    Linear down, up;
  };

  Variable scaled(Variable x, Variable scale, const SequencesPtr& sequences) const {
    expect(parts_.empty(), "{}: an adapter for parts of a layer that is scaled", layer_.path());
    Variable low = branches_[0]->lowered(x, sequences);
    Variable base = apply(ScaledLinear{}, std::move(x), layer_.weight().variable(), layer_.bias(), scale);
    return std::move(base) + branches_[0]->up.forward(std::move(low) * branches_[0]->scale, std::move(scale));
  }

  const Linear& layer_;
  Trains trains_;
  std::vector<std::unique_ptr<Module>> parts_;
  std::vector<std::unique_ptr<Branch>> branches_;
};

/// y = layer(x) + s · B * A * dropout(x). A is a convolution to `rank` channels with the layer's kernel size, stride
/// and padding; B is a 1×1 convolution in the layer's groups. A [rank, in, k, k] is not grouped, as in PEFT.
class ConvLora final : public Adapter {
 public:
  ConvLora(Conv2d& layer, const LoraOptions& options, Trains trains)
      : layer_(layer),
        trains_(trains),
        scale_(options.scale()),
        dropout_(layer, "lora_dropout", options.dropout),
        down_(layer, "lora_A", layer.in(), checked_rank(layer, options),
              {.kernel = layer.kernel(),
               .stride = layer.stride(),
               .padding = layer.padding(),
               .dilation = layer.dilation(),
               .same = layer.same(),
               .bias = false,
               .takes_few_bits = false}),
        up_(layer, "lora_B", options.rank, layer.out(),
            {.groups = layer.groups(), .bias = false, .init = {init::constant(0), {}}, .takes_few_bits = false}) {}

  Variable forward(Variable x, Variable /*scale*/, const SequencesPtr& /*sequences*/) const override {
    Variable low = down_.forward(dropout_.forward(x));  // [N, H', W', rank]
    return layer_.forward_alone(std::move(x)) + up_.forward(std::move(low) * scale_);
  }
  std::vector<Parameter*> parameters() const override {
    std::vector<Parameter*> all = down_.parameters();
    for (Parameter* const parameter : up_.parameters()) all.push_back(parameter);
    return all;
  }
  void set_trainable() const override { train(down_, up_, trains_); }
  void merge_into(const Tensor& weight) const override {
    if (layer_.groups() > 1)
      reject(
          "{}: the adapter of a convolution in {} groups reads all channels, and no weight of the layer equals it; "
          "`lacuna export --adapter` writes the adapter alone",
          layer_.path(), layer_.groups());
    const Tensor &down = down_.weight().tensor(), &up = up_.weight().tensor();
    const std::int64_t rank = down.shape()[0], taps = down.count() / rank;
    gemm(Matrix(up.reshape({layer_.out(), rank})), Matrix(down.reshape({rank, taps})),
         Matrix(weight.reshape({layer_.out(), taps})), {.alpha = scale_, .add = true});
  }

 private:
  static std::int64_t checked_rank(const Conv2d& layer, const LoraOptions& options) {
    if (options.rank % layer.groups() != 0)
      reject(
          "adapter.rank: expected a multiple of the {} groups of {}, got {}; adapter.targets may leave the layer out",
          layer.groups(), layer.path(), options.rank);
    return options.rank;
  }

  const Conv2d& layer_;
  Trains trains_;
  double scale_;
  Dropout dropout_;
  Conv2d down_, up_;
};

constexpr std::string_view file_type = "LORA";

OptionValues to_peft(const Options& given) {
  const auto& options = given.as<LoraOptions>();
  return {{"r", options.rank},
          {"lora_alpha", options.alpha},
          {"lora_dropout", options.dropout},
          {"use_rslora", options.rslora}};
}

OptionValues from_peft(const OptionValues& fields, std::string_view origin) {
  const std::pair<std::string_view, std::string_view> taken[] = {
      {"r", "rank"}, {"lora_alpha", "alpha"}, {"lora_dropout", "dropout"}, {"use_rslora", "rslora"}};
  OptionValues options;
  for (const auto& [theirs, ours] : taken)
    if (const auto found = fields.find(theirs); found != fields.end()) options.emplace(ours, found->second);
  // pissa, olora, corda and eva take a part out of the base's weights as they load.
  if (const auto initial = fields.find("init_lora_weights"); initial != fields.end())
    if (const Tree& name = initial->second; name.quoted && name.text != "gaussian" && name.text != "orthogonal")
      reject(
          "{}: expected `init_lora_weights` true, false, gaussian or orthogonal, got {}: PEFT changes the base with it",
          origin, name.text);
  return options;
}

AdapterKind kind(Trains trains) {
  return {.options = LoraOptions{},
          .for_linear = [trains](Linear& layer, const std::vector<std::size_t>& parts,
                                 const std::vector<Options>& options) -> std::unique_ptr<Adapter> {
            return std::make_unique<LinearLora>(layer, parts, options, trains);
          },
          .for_convolution = [trains](Conv2d& layer, const Options& options) -> std::unique_ptr<Adapter> {
            return std::make_unique<ConvLora>(layer, options.as<LoraOptions>(), trains);
          },
          .peft_type = file_type,
          .peft_keys = {"r", "lora_alpha", "lora_dropout", "use_rslora", "rank_pattern", "alpha_pattern",
                        "init_lora_weights", "bias", "modules_to_save", "ensure_weight_tying", "target_modules",
                        "exclude_modules", "layers_to_transform", "layers_pattern", "fan_in_fan_out", "megatron_core",
                        "qalora_group_size"},
          .peft_patterns = {{"rank_pattern", "r"}, {"alpha_pattern", "lora_alpha"}},
          .to_peft = to_peft,
          .from_peft = from_peft};
}

const RegisterAdapter lora("lora", kind(Trains::both));
const RegisterAdapter lora_fa("lora_fa", kind(Trains::up));

}  // namespace
}  // namespace lacuna::nn
