// A stream: an in-order queue of work on a device. The type is opaque here: cudaStream_t, or the stand-in's stream.
#pragma once

struct CUstream_st;

namespace lacuna {

using Stream = CUstream_st*;

namespace cuda {
/// Throws Error for a failed kernel launch.
[[noreturn]] void throw_launch_failed(const char* reason);
/// Throws Error for a host that waits for a device during a capture.
[[noreturn]] void throw_waits_while_captured();
}  // namespace cuda

}  // namespace lacuna
