#include "models/io/halves.h"

#include "models/io/weights.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace lacuna {
namespace {

constexpr int half_bits = 16;

/// Each half of the bits of `values` (f32), 16 bits that `half` makes of 32, to a tensor of `dtype` and `shape`.
template <class Half>
Tensor halves_of(const Tensor& values, DType dtype, const Shape& shape, Half half) {
  const Tensor on_host = values.to(Device::cpu), halves = Tensor::empty(shape, dtype, Device::cpu);
  const float* const from = on_host.data<const float>();
  auto* const to = static_cast<std::byte*>(halves.raw());
  for (std::int64_t i = 0; i < values.count(); ++i) {
    const std::uint16_t bits = half(std::bit_cast<std::uint32_t>(from[i]));
    std::memcpy(to + 2 * i, &bits, sizeof bits);
  }
  return halves;
}

}  // namespace

void save_halves(const Module& model, const std::filesystem::path& folder) {
  std::vector<PendingTensor> rounded, lost;
  const std::vector<NamedTensor> state = state_of(model);
  for (const auto& [name, tensor] : state) {
    if (tensor.dtype() != DType::f32) {
      rounded.push_back(pending(name, tensor));
      continue;
    }
    rounded.push_back({name, DType::bf16, tensor.shape(), [tensor = tensor] {
                         return halves_of(tensor, DType::bf16, tensor.shape(), [](std::uint32_t bits) {
                           return static_cast<std::uint16_t>((bits + (1U << (half_bits - 1))) >> half_bits);
                         });
                       }});
    const Shape shape{tensor.count(), 2};
    lost.push_back({name, DType::u8, shape, [tensor = tensor, shape] {
                      return halves_of(tensor, DType::u8, shape,
                                       [](std::uint32_t bits) { return static_cast<std::uint16_t>(bits); });
                    }});
  }
  const std::string hash = hash_of(state);
  write_one_by_one(folder / "model.safetensors", rounded, {{"format", "pt"}, {exact_hash_key, hash}});
  write_one_by_one(folder / low_halves_file, lost, {{exact_hash_key, hash}});
}

Tensor join_halves(const Tensor& high, const Tensor& low) {
  const Tensor values = Tensor::empty(high.shape(), DType::f32, Device::cpu);
  float* const to = values.data<float>();
  const auto* const above = static_cast<const std::byte*>(high.raw());
  const auto* const below = static_cast<const std::byte*>(low.raw());
  for (std::int64_t i = 0; i < high.count(); ++i) {
    std::uint16_t top = 0, bottom = 0;
    std::memcpy(&top, above + 2 * i, sizeof top);
    std::memcpy(&bottom, below + 2 * i, sizeof bottom);
    const std::uint32_t exact = top - (static_cast<std::uint32_t>(bottom) >> (half_bits - 1));
    to[i] = std::bit_cast<float>((exact << half_bits) | bottom);
  }
  return values;
}

}  // namespace lacuna
