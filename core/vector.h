// Width of the vectors of the instruction set that the library is compiled for. Not installed, since another program
// may be compiled for another one.
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
