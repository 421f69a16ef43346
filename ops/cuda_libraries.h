// The libraries of NVIDIA's that cuda devices compute with.
#pragma once

#include "core/kernel.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna {

/// Bytes of workspace that a call of a library may use. Always as many, so that a plan on `meta` knows them.
inline constexpr std::int64_t library_workspace = std::int64_t{32} << 20;

/// Whether convolutions and attention on cuda ask cuDNN first; kernels of our own compute them otherwise. Tests of
/// those kernels set it to false.
bool& uses_cudnn();

struct CudaLibrary {
  std::string name{};
  std::string version{};             // empty: it cannot be used
  std::string problem{};             // which package brings it; empty: none
  std::vector<std::string> notes{};  // common operations that it does not compute here
};
/// Adds the libraries of the loaded backend.
inline constinit Kernel<void(std::vector<CudaLibrary>& libraries)> add_cuda_libraries{"libraries"};

/// The libraries of the loaded backend.
std::vector<CudaLibrary> cuda_libraries();

/// Notes that a library does not compute something, which kernels of our own then do more slowly; each text once.
void note_library(const std::string& text);
/// The notes since the last call.
std::vector<std::string> new_library_notes();

}  // namespace lacuna
