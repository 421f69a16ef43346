// A stream: an in-order queue of work on a device. The type is opaque here: cudaStream_t, or the stand-in's stream.
#pragma once

struct CUstream_st;

namespace lacuna {

using Stream = CUstream_st*;

namespace cuda {
/// Throws Error for a failed kernel launch.
[[noreturn]] void throw_launch_failed(const char* reason);
/// Throw Error during a capture: the host waits for a device, or the device copies to or from memory of the host.
[[noreturn]] void throw_waits_while_captured();
[[noreturn]] void throw_host_memory_captured();
}  // namespace cuda

}  // namespace lacuna
