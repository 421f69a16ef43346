// The width of the machine's vectors, by the instruction set that the library is compiled for. Not installed: another
// program's may be another.
#pragma once

namespace lacuna {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX2__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

}  // namespace lacuna
