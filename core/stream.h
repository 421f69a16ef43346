// A queue of work on a device, in order. Opaque here: CUDA's own type (cudaStream_t), or the stand-in's.
#pragma once

struct CUstream_st;

namespace lacuna {

using Stream = CUstream_st*;

namespace cuda {
/// Throws Error for a kernel that could not be started.
[[noreturn]] void throw_launch_failed(const char* reason);
/// Throws Error for a host that waits for a device whose work is captured.
[[noreturn]] void throw_waits_while_captured();
}  // namespace cuda

}  // namespace lacuna
