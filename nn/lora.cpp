// Low-rank adapters: LoRA (Hu et al. 2022), with rank-stabilised scaling (Kalajdzievski 2023), and LoRA-FA (Zhang et
// al. 2023), by the conventions of the library PEFT.
#include "nn/adapter.h"
#include "nn/dropout.h"
#include "nn/functional.h"
#include "nn/init.h"
#include "ops/dropout_linear.h"
#include "ops/kernels/gemm.h"
#include "ops/low_rank_linear.h"
#include "ops/scaled_linear.h"

#include <cmath>
#include <set>

namespace lacuna::nn {
namespace {

enum class Trains : std::uint8_t {
  both,
  up  // LoRA-FA: A stays as it was drawn, and the input of the layer is not needed in backward
};

/// y = layer(x) + s · B · A · dropout(x), with A [rank, in], B [out, rank] and s = alpha / rank, or alpha / √rank.
/// A is uniform in ±1/√in (Kaiming's with a = √5), B zero.
class Lora final : public LinearAdapter {
 public:
  Lora(Linear& layer, const Settings& settings, Trains trains)
      : trains_(trains),
        scale_(scale_of(settings)),
        dropout_(layer, "lora_dropout", settings.number("dropout")),
        down_(layer, "lora_A", layer.in(), settings.whole_number("rank"), {.bias = false}),
        up_(layer, "lora_B", settings.whole_number("rank"), layer.out(),
            {.bias = false, .init = {init::constant(0), {}}}) {}

  Variable forward(const Linear& layer, Variable x, Variable scale) const override {
    Variable low = lowered(x);  // [..., rank]
    if (!scale.defined())
      return apply(LowRankLinear{.scale = scale_}, std::move(x), layer.weight().variable(), layer.bias(),
                   std::move(low), up_.weight().variable());
    Variable base = apply(ScaledLinear{}, std::move(x), layer.weight().variable(), layer.bias(), scale);
    return std::move(base) + up_.forward(std::move(low) * scale_, std::move(scale));
  }
  std::vector<Parameter*> parameters() const override {
    std::vector<Parameter*> all = down_.parameters();
    for (Parameter* const parameter : up_.parameters()) all.push_back(parameter);
    return all;
  }
  void set_trainable() const override {
    for (Parameter* const parameter : down_.parameters()) parameter->set_trainable(trains_ == Trains::both);
    for (Parameter* const parameter : up_.parameters()) parameter->set_trainable(true);
  }
  void merge_into(const Tensor& weight) const override {
    gemm(Matrix(up_.weight().tensor()), Matrix(down_.weight().tensor()), Matrix(weight),
         {.alpha = scale_, .add = true});
  }

 private:
  Variable lowered(Variable x) const {
    if (dropout_.current_rate() == 0) return down_.forward(std::move(x));
    return apply(DropoutLinear{.p = dropout_.current_rate(), .stream = dropout_.mask_stream()}, std::move(x),
                 down_.weight().variable());
  }
  static double scale_of(const Settings& settings) {
    const auto rank = static_cast<double>(settings.whole_number("rank"));
    return settings.number("alpha") / (settings.flag("rslora") ? std::sqrt(rank) : rank);
  }

  Trains trains_;
  double scale_;
  Dropout dropout_;
  Linear down_, up_;
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
    reject("{}: expected `bias: none`, got {}; train biases with `freeze.train: [\"@bias\"]` beside the adapter", origin,
           std::get_if<std::string>(&bias->second) ? std::get<std::string>(bias->second) : "another type");
  // pissa, olora, corda and eva take a part out of the base's weights as they load.
  if (const auto initial = fields.find("init_lora_weights"); initial != fields.end())
    if (const auto* const name = std::get_if<std::string>(&initial->second);
        name != nullptr && *name != "gaussian" && *name != "orthogonal")
      reject("{}: expected `init_lora_weights` true, false, gaussian or orthogonal, got {}: PEFT changes the base with it",
             origin, *name);
  return settings;
}

AdapterKind kind(Trains trains) {
  return {.settings = {{"rank", 8.0, ranks, "values that A gives for each row of the layer's input"},
                       {"alpha", 8.0, not_negative, "the adapter's result is multiplied by alpha / rank"},
                       {"rslora", false, {}, "multiply by alpha / √rank in its place"},
                       {"dropout", 0.0, below_one, "rate of dropout on the adapter's input"}},
          .make = [trains](Linear& layer, const Settings& settings) -> std::unique_ptr<LinearAdapter> {
            return std::make_unique<Lora>(layer, settings, trains);
          },
          .peft_type = file_type,
          .to_peft = to_peft,
          .from_peft = from_peft};
}

const RegisterAdapter lora("lora", kind(Trains::both));
const RegisterAdapter lora_fa("lora_fa", kind(Trains::up));

}  // namespace
}  // namespace lacuna::nn
