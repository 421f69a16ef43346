#include "models/io/halves.h"

#include "models/io/weights.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace lacuna {
namespace {

constexpr int half_bits = 16;

std::uint32_t bits_of(const float* values, std::int64_t i) { return std::bit_cast<std::uint32_t>(values[i]); }

}  // namespace

void save_halves(const Module& model, const std::filesystem::path& weights, const std::filesystem::path& low) {
  std::vector<NamedTensor> rounded, lost;
  for (const auto& [name, tensor] : state_of(model)) {
    if (tensor.dtype() != DType::f32) {
      rounded.emplace_back(name, tensor);
      continue;
    }
    const Tensor values = tensor.to(Device::cpu), high = Tensor::empty(tensor.shape(), DType::bf16, Device::cpu),
                 rest = Tensor::empty({tensor.count(), 2}, DType::u8, Device::cpu);
    const float* const from = values.data<const float>();
    auto* const to = static_cast<std::byte*>(high.raw());
    auto* const beside = static_cast<std::byte*>(rest.raw());
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      const std::uint32_t bits = bits_of(from, i);
      const auto top = static_cast<std::uint16_t>((bits + (1U << (half_bits - 1))) >> half_bits),
                 bottom = static_cast<std::uint16_t>(bits);
      std::memcpy(to + 2 * i, &top, sizeof top);
      std::memcpy(beside + 2 * i, &bottom, sizeof bottom);
    }
    rounded.emplace_back(name, high);
    lost.emplace_back(name, rest);
  }
  write_safetensors(weights, std::move(rounded), {{"format", "pt"}});
  write_safetensors(low, std::move(lost));
}

void add_low_halves(const Module& model, const std::filesystem::path& low) {
  const SafetensorsFile file(low);
  for (const auto& [name, tensor] : state_of(model)) {
    if (tensor.dtype() != DType::f32) continue;
    const SafetensorsEntry* const entry = file.find(name);
    if (entry == nullptr || entry->dtype != DType::u8 || !(entry->shape == Shape{tensor.count(), 2}))
      reject("{}: expected the low halves of {} {} as U8 [{}, 2]", low.string(), name, tensor.shape(), tensor.count());
    const Tensor rest = file.load(name), values = tensor.clone().to(Device::cpu);
    float* const to = values.data<float>();
    const auto* const beside = static_cast<const std::byte*>(rest.raw());
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      std::uint16_t bottom = 0;
      std::memcpy(&bottom, beside + 2 * i, sizeof bottom);
      const std::uint32_t top = (bits_of(to, i) >> half_bits) - (bottom >> (half_bits - 1));
      to[i] = std::bit_cast<float>((top << half_bits) | bottom);
    }
    tensor.copy_from(values);
  }
}

}  // namespace lacuna
