#include "core/tensor.h"

#include <doctest/doctest.h>

#include <cstring>

namespace lacuna {

TEST_CASE("cuda: bytes go to the device and back as they are, few of them and many") {
  for (const std::int64_t count : {1, 4 << 20, (13 << 20) + 5}) {  // many are staged in several buffers
    CAPTURE(count);
    const Tensor from = Tensor::empty({count}, DType::u8, Device::cpu);
    for (std::int64_t i = 0; i < count; ++i) from.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 31 + i / 251);
    for (int run = 0; run < 2; ++run) {  // the buffers are used again
      const Tensor back = from.to(Device::cuda).to(Device::cpu);
      CHECK(std::memcmp(back.raw(), from.raw(), static_cast<std::size_t>(count)) == 0);
    }
  }
}

}  // namespace lacuna
