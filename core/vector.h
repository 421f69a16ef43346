// The vector width of the instruction set that the library is compiled for. The header is not installed, since a
// program that uses the library may be compiled for another instruction set.
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
