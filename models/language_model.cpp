#include "models/language_model.h"

#include "nn/functional.h"

namespace lacuna {

void KeyValueCache::append(std::size_t layer, Tensor& k, Tensor& v) {
  const auto put = [&](Tensor& all, Tensor& rows) {
    const std::int64_t count = rows.shape()[1], width = rows.shape()[2];
    expect(length_ + count <= capacity_, "a cache of {} tokens has no room for {} behind {}", capacity_, count,
           length_);
    if (!all.defined()) all = Tensor::zeros({1, capacity_, width}, rows.dtype(), rows.device());
    all.reshape({capacity_, width}).leading(length_, length_ + count).copy_from(rows.reshape({count, width}));
    rows = all;
  };
  put(keys_[layer], k);
  put(values_[layer], v);
}

Tensor LanguageModel::read_rest(std::span<const std::int64_t> all, KeyValueCache& cache) {
  if (outdates(cache, std::ssize(all))) cache.clear();
  return read(all.subspan(static_cast<std::size_t>(cache.length())), cache);
}

Variable logits_of(const Outputs& outputs, double soft_cap) {
  const Variable &hidden = outputs.at("hidden"), &weight = outputs.at("decoder_weight");
  const Variable bias = outputs.contains("decoder_bias") ? outputs.at("decoder_bias") : Variable();
  Variable logits = linear(hidden, weight, bias).reshape({hidden.shape()[1], weight.shape()[0]});
  if (soft_cap != 0) logits = tanh(std::move(logits) / soft_cap) * soft_cap;
  return logits;
}

}  // namespace lacuna
