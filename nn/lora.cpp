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

#include <array>
#include <cmath>
#include <set>

namespace lacuna::nn {
namespace {

enum class Trains : std::uint8_t {
  both,
  up  // LoRA-FA: A keeps its initial values, and backward does not need the layer's input
};

double scale_of(const Settings& settings) {
  const auto rank = static_cast<double>(settings.whole_number("rank"));
  return settings.number("alpha") / (settings.flag("rslora") ? std::sqrt(rank) : rank);
}

void train(const Module& down, const Module& up, Trains trains) {
  for (Parameter* const parameter : down.parameters()) parameter->set_trainable(trains == Trains::both);
  for (Parameter* const parameter : up.parameters()) parameter->set_trainable(true);
}

/// y = layer(x) + s · B · A · dropout(x), with A [rank, in], B [out, rank] and s = alpha / rank, or alpha / √rank.
/// A is initially uniform in ±1/√in (Kaiming with a = √5), B zero. Each part of a layer may have its own pair, for its
/// rows.
class LinearLora final : public Adapter {
 public:
  LinearLora(Linear& layer, const std::vector<std::size_t>& parts, const Settings& settings, Trains trains)
      : layer_(layer), trains_(trains), scale_(scale_of(settings)) {
    if (parts.empty()) branches_.push_back(std::make_unique<Branch>(layer, layer.in(), layer.out(), 0, settings));
    expect(parts.size() <= LowRankLinear::pairs, "{}: an adapter for {} parts", layer.path(), parts.size());
    for (const std::size_t part : parts) {
      const std::int64_t rows = layer.out() / std::ssize(layer.parts());
      parts_.push_back(std::make_unique<Module>(layer, layer.parts().at(part)));
      branches_.push_back(
          std::make_unique<Branch>(*parts_.back(), layer.in(), rows, static_cast<std::int64_t>(part) * rows, settings));
    }
  }

  Variable forward(Variable x, Variable scale, const SequencesPtr& sequences) const override {
    if (scale.defined()) return scaled(std::move(x), std::move(scale), sequences);
    LowRankLinear op{.scale = scale_};
    std::array<Variable, 2 * LowRankLinear::pairs> pairs;  // z [..., rank] and B
    for (std::size_t i = 0; i < branches_.size(); ++i) {
      op.first[i] = branches_[i]->first;
      op.columns[i] = branches_[i]->up.out();
      pairs[2 * i] = branches_[i]->lowered(x, sequences);
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
           Matrix(weight.leading(branch->first, branch->first + branch->up.out())), {.alpha = scale_, .add = true});
  }

 private:
  struct Branch {
    Branch(Module& parent, std::int64_t in, std::int64_t out, std::int64_t first_row, const Settings& settings)
        : first(first_row),
          dropout(parent, "lora_dropout", settings.number("dropout")),
          down(parent, "lora_A", in, settings.whole_number("rank"), {.bias = false}),
          up(parent, "lora_B", settings.whole_number("rank"), out, {.bias = false, .init = {init::constant(0), {}}}) {}

    Variable lowered(Variable x, const SequencesPtr& sequences) const {
      if (dropout.current_rate() == 0) return down.forward(std::move(x));
      return apply(DropoutLinear{.p = dropout.current_rate(), .stream = dropout.mask_stream(), .sequences = sequences},
                   std::move(x), down.weight().variable());
    }

    std::int64_t first;  // first row in the layer's weight
    Dropout dropout;
    Linear down, up;
  };

  Variable scaled(Variable x, Variable scale, const SequencesPtr& sequences) const {
    expect(parts_.empty(), "{}: an adapter for parts of a layer that is scaled", layer_.path());
    Variable low = branches_[0]->lowered(x, sequences);
    Variable base = apply(ScaledLinear{}, std::move(x), layer_.weight().variable(), layer_.bias(), scale);
    return std::move(base) + branches_[0]->up.forward(std::move(low) * scale_, std::move(scale));
  }

  const Linear& layer_;
  Trains trains_;
  double scale_;
  std::vector<std::unique_ptr<Module>> parts_;
  std::vector<std::unique_ptr<Branch>> branches_;
};

/// y = layer(x) + s · B * A * dropout(x). A is a convolution to `rank` channels with the layer's kernel size, stride
/// and padding; B is a 1×1 convolution in the layer's groups. A [rank, in, k, k] is not grouped, as in PEFT.
class ConvLora final : public Adapter {
 public:
  ConvLora(Conv2d& layer, const Settings& settings, Trains trains)
      : layer_(layer),
        trains_(trains),
        scale_(scale_of(settings)),
        dropout_(layer, "lora_dropout", settings.number("dropout")),
        down_(layer, "lora_A", layer.in(), checked_rank(layer, settings),
              {.kernel = layer.kernel(), .stride = layer.stride(), .padding = layer.padding(), .bias = false}),
        up_(layer, "lora_B", settings.whole_number("rank"), layer.out(),
            {.groups = layer.groups(), .bias = false, .init = {init::constant(0), {}}}) {}

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
  static std::int64_t checked_rank(const Conv2d& layer, const Settings& settings) {
    const std::int64_t rank = settings.whole_number("rank");
    if (rank % layer.groups() != 0)
      reject(
          "adapter.rank: expected a multiple of the {} groups of {}, got {}; adapter.targets may leave the layer out",
          layer.groups(), layer.path(), rank);
    return rank;
  }

  const Conv2d& layer_;
  Trains trains_;
  double scale_;
  Dropout dropout_;
  Conv2d down_, up_;
};

constexpr SettingRange ranks{.low = 1, .high = 65536, .below_high = false, .whole = true};
constexpr std::string_view file_type = "LORA";

SettingValues to_peft(const Settings& settings) {
  return {{"r", settings.number("rank")},
          {"lora_alpha", settings.number("alpha")},
          {"lora_dropout", settings.number("dropout")},
          {"use_rslora", settings.flag("rslora")}};
}

SettingValues from_peft(const SettingValues& fields, std::string_view origin) {
  const std::pair<std::string_view, std::string_view> taken[] = {
      {"r", "rank"}, {"lora_alpha", "alpha"}, {"lora_dropout", "dropout"}, {"use_rslora", "rslora"}};
  const std::set<std::string_view> refused{"use_dora", "use_qalora", "fan_in_fan_out", "lora_bias"};
  SettingValues settings;
  for (const auto& [theirs, ours] : taken)
    if (const auto found = fields.find(theirs); found != fields.end()) settings.emplace(ours, found->second);
  for (const auto& [name, value] : fields)
    if (refused.contains(name) && value == SettingValue(true))
      reject("{}: expected an adapter without `{}`, which is not computed here", origin, name);
  if (const auto bias = fields.find("bias"); bias != fields.end() && bias->second != SettingValue(std::string("none")))
    reject("{}: expected `bias: none`, got {}; train biases with `freeze.train: [\"@bias\"]` beside the adapter",
           origin, std::get_if<std::string>(&bias->second) ? std::get<std::string>(bias->second) : "another type");
  // pissa, olora, corda and eva subtract a part from the base weights on loading.
  if (const auto initial = fields.find("init_lora_weights"); initial != fields.end())
    if (const auto* const name = std::get_if<std::string>(&initial->second);
        name != nullptr && *name != "gaussian" && *name != "orthogonal")
      reject(
          "{}: expected `init_lora_weights` true, false, gaussian or orthogonal, got {}: PEFT changes the base with it",
          origin, *name);
  return settings;
}

AdapterKind kind(Trains trains) {
  return {.settings = {{"rank", 8.0, ranks, "values that A gives for each row, or place, of the layer's input"},
                       {"alpha", 8.0, not_negative, "the adapter's result is multiplied by alpha / rank"},
                       {"rslora", false, {}, "multiply by alpha / √rank in its place"},
                       {"dropout", 0.0, below_one, "rate of dropout on the adapter's input"}},
          .for_linear = [trains](Linear& layer, const std::vector<std::size_t>& parts, const Settings& settings)
              -> std::unique_ptr<Adapter> { return std::make_unique<LinearLora>(layer, parts, settings, trains); },
          .for_convolution = [trains](Conv2d& layer, const Settings& settings) -> std::unique_ptr<Adapter> {
            return std::make_unique<ConvLora>(layer, settings, trains);
          },
          .peft_type = file_type,
          .to_peft = to_peft,
          .from_peft = from_peft};
}

const RegisterAdapter lora("lora", kind(Trains::both));
const RegisterAdapter lora_fa("lora_fa", kind(Trains::up));

}  // namespace
}  // namespace lacuna::nn
