// Instruction sets: those that the library is compiled for, and those that this processor has.
#pragma once

#include <string>
#include <vector>

namespace lacuna {

struct InstructionSet {
  std::string name;
  bool used;       // by the kernels of this library, where the processor has it
  bool processor;  // this processor has it
};
/// The instruction sets beyond the ones that all x86-64 processors have. Empty on other machines.
std::vector<InstructionSet> instruction_sets();

/// Bytes of a vector in the kernels of this library.
int kernel_vector_bytes();

/// The processor has instructions for products of bf16 (AVX512_BF16).
inline bool processor_multiplies_bf16() {
#if defined(__AVX512BF16__)
  return true;
#elif defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

namespace detail {
extern const bool needs_avx2, needs_avx512;  // the library is compiled for processors that have it
}

}  // namespace lacuna
