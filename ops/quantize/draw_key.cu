#include "core/block.h"
#include "ops/quantize/draw_key_cuda.h"
#include "ops/quantize/draws.h"

namespace lacuna::cuda {
namespace {

struct DrawKey {
  static constexpr int threads = 32;
  RandomStream random;
  std::uint64_t number;  // of the block of draws
  std::uint64_t* key;
  LACUNA_DEVICE void operator()(const Block<DrawKey>& block) const {
    if (block.thread() == 0) *key = quant::mixed_key(quant::key_of(random.now().draw(number)));
  }
};

}  // namespace

void draw_key(Stream stream, const RandomStream& random, std::uint64_t number, std::uint64_t* key) {
  run(stream, 1, DrawKey{random, number, key});
}

}  // namespace lacuna::cuda
