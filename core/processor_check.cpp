// Ends the process where the processor lacks the instructions that the library is compiled for: before any of them
// runs, in a file that is compiled without them.
#include "core/processor.h"

#if defined(__x86_64__)
#include <unistd.h>

#include <string_view>

namespace {

[[noreturn]] void refuse(std::string_view message) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
  ::_exit(2);
}

// 101 is the first priority of a program: other initializers of the library come later.
[[gnu::constructor(101)]] void check() {
  __builtin_cpu_init();
  if (lacuna::detail::needs_avx2 && (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
                                     !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2")))
    refuse(
        "lacuna: this build needs a processor with AVX2, FMA and BMI, which this one does not have. Build Lacuna from "
        "source with -DLACUNA_ARCH=native\n");
  if (lacuna::detail::needs_avx512 && !__builtin_cpu_supports("avx512bw"))
    refuse(
        "lacuna: this build needs a processor with AVX-512, which this one does not have. Build Lacuna from source "
        "with -DLACUNA_ARCH=native, or x86-64-v3\n");
}

}  // namespace
#endif
