#include "autograd/holders/holder.h"

#include "ops/quantize/sign_mask.h"

namespace lacuna {

Holder make_holder(const Hold& hold, const HolderInputs& tensor) {
  const Owner saved{Purpose::saved, tensor.info.op, tensor.info.path};
  const AllocationScope scope(saved);
  const auto owned = [](Tensor made) {
    made.set_purpose(Purpose::saved);
    return made;
  };
  const auto sign_bits = [&] { return owned(quant::pack_signs(tensor.values)); };
  switch (hold.kind) {
    case Hold::drop:
      return Dropped();
    case Hold::keep:
      // Offloading memory with other references would free nothing.
      if (hold.store != nullptr && tensor.is_owned && tensor.values.unique())
        if (const std::optional<OffloadStore::Id> id = hold.store->put(tensor.values))
          return Offloaded(*hold.store, *id, saved);
      return Kept(tensor.values, tensor.version, tensor.owner, saved, tensor.is_owned);
    case Hold::sign_mask:
      return SignMask(sign_bits());
    case Hold::rematerialize:
      return Rematerialized(tensor.origin, tensor.info, tensor.values.device(), hold.signs ? sign_bits() : Tensor());
    case Hold::quantize:
    case Hold::offload:  // never a policy's answer
      break;
  }
  if (hold.slopes != nullptr) return Slopes(owned(quant::quantize_slopes(tensor.values, *hold.slopes)), *hold.slopes);
  Tensor signs = hold.signs ? sign_bits() : Tensor();
  quant::QuantizedTensor quantized = quantize(tensor.values, tensor.info.key(), hold);
  quantized.bytes.set_purpose(Purpose::saved);
  if (quantized.drawn.defined()) quantized.drawn.set_purpose(Purpose::saved);
  if (hold.store != nullptr)
    if (const std::optional<OffloadStore::Id> id = hold.store->put(quantized.bytes)) {
      quantized.bytes = {};
      return Offloaded(*hold.store, *id, saved, std::move(quantized), std::move(signs));
    }
  return Quantized(std::move(quantized), std::move(signs));
}

}  // namespace lacuna
