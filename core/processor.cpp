#include "core/processor.h"

#include "core/vector.h"

namespace lacuna {

constinit const bool detail::needs_avx2 = vector_bytes >= 32, detail::needs_avx512 = vector_bytes >= 64;

std::vector<InstructionSet> instruction_sets() {
#if defined(__x86_64__)
  using detail::needs_avx2, detail::needs_avx512;
  return {{"avx2", needs_avx2, __builtin_cpu_supports("avx2") != 0},
          {"avx512", needs_avx512, __builtin_cpu_supports("avx512bw") != 0},
          {"avx512_bf16", needs_avx512, processor_multiplies_bf16()}};
#else
  return {};
#endif
}

int kernel_vector_bytes() { return vector_bytes; }

}  // namespace lacuna
