// The functions of cuDNN and NVRTC that cuDNN's frontend calls by name. They are passed on to the libraries, which are
// opened when they are first needed, so that liblacuna_cuda links neither.
#include "ops/cuda/libraries/cudnn.h"

#include "core/cuda/library.h"
#include "core/error.h"

#include <cudnn.h>
#include <nvrtc.h>

#include <optional>
#include <string>

namespace lacuna::cuda {
namespace {

#define LACUNA_FUNCTION(name) decltype(&::name) name = library.function<decltype(&::name)>(#name)

struct Cudnn {
  SharedLibrary library{"cuDNN", {"libcudnn.so.9"}, "libcudnn9-cuda-13, or nvidia-cudnn-cu13 from PyPI"};
  LACUNA_FUNCTION(cudnnBackendCreateDescriptor);
  LACUNA_FUNCTION(cudnnBackendDestroyDescriptor);
  LACUNA_FUNCTION(cudnnBackendExecute);
  LACUNA_FUNCTION(cudnnBackendFinalize);
  LACUNA_FUNCTION(cudnnBackendGetAttribute);
  LACUNA_FUNCTION(cudnnBackendSetAttribute);
  LACUNA_FUNCTION(cudnnCreate);
  LACUNA_FUNCTION(cudnnGetErrorString);
  LACUNA_FUNCTION(cudnnGetLastErrorString);
  LACUNA_FUNCTION(cudnnGetStream);
  LACUNA_FUNCTION(cudnnGetVersion);
  LACUNA_FUNCTION(cudnnSetStream);
};

// That of the CUDA that this build is of comes first: both may be installed, and the driver too old for one.
constexpr const char *own_file = CUDART_VERSION >= 13000 ? "libnvrtc.so.13" : "libnvrtc.so.12",
                     *other_file = CUDART_VERSION >= 13000 ? "libnvrtc.so.12" : "libnvrtc.so.13";
struct Nvrtc {
  SharedLibrary library{"NVRTC", {own_file, other_file}, "cuda-nvrtc-13-0, or nvidia-cuda-nvrtc from PyPI"};
  LACUNA_FUNCTION(nvrtcCompileProgram);
  LACUNA_FUNCTION(nvrtcCreateProgram);
  LACUNA_FUNCTION(nvrtcDestroyProgram);
  LACUNA_FUNCTION(nvrtcGetCUBIN);
  LACUNA_FUNCTION(nvrtcGetCUBINSize);
  LACUNA_FUNCTION(nvrtcGetProgramLog);
  LACUNA_FUNCTION(nvrtcGetProgramLogSize);
};

#undef LACUNA_FUNCTION

/// Both libraries, or why they cannot be used. Never closed.
struct Opened {
  std::optional<Cudnn> cudnn{};
  std::optional<Nvrtc> nvrtc{};
  std::string problem{};
  Opened() {
    try {
      cudnn.emplace();
      nvrtc.emplace();
    } catch (const Error& error) {
      problem = error.what();
    }
  }
};

const Opened& opened() {
  static const Opened& libraries = *new Opened;
  return libraries;
}
/// The frontend calls nothing where there is a problem.
const Cudnn& cudnn() { return opened().cudnn.value(); }
const Nvrtc& nvrtc() { return opened().nvrtc.value(); }

}  // namespace

const std::string& cudnn_problem() { return opened().problem; }

}  // namespace lacuna::cuda

using lacuna::cuda::cudnn;
using lacuna::cuda::nvrtc;

std::size_t cudnnGetVersion() { return cudnn().cudnnGetVersion(); }
const char* cudnnGetErrorString(cudnnStatus_t status) { return cudnn().cudnnGetErrorString(status); }
void cudnnGetLastErrorString(char* message, std::size_t size) { cudnn().cudnnGetLastErrorString(message, size); }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) { return cudnn().cudnnCreate(handle); }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return cudnn().cudnnSetStream(handle, stream);
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  return cudnn().cudnnGetStream(handle, stream);
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* made) {
  return cudnn().cudnnBackendCreateDescriptor(type, made);
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return cudnn().cudnnBackendDestroyDescriptor(descriptor);
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return cudnn().cudnnBackendFinalize(descriptor);
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count, const void* elements) {
  return cudnn().cudnnBackendSetAttribute(descriptor, name, type, count, elements);
}
cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t wanted, std::int64_t* count,
                                       void* elements) {
  return cudnn().cudnnBackendGetAttribute(descriptor, name, type, wanted, count, elements);
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variants) {
  return cudnn().cudnnBackendExecute(handle, plan, variants);
}
#if CUDNN_VERSION >= 92300
/// Needed only by plans with dynamic shapes, which are not made here; older libraries lack the function.
cudnnStatus_t cudnnGetExecutionPlanWorkspaceSize(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t,
                                                 std::size_t*) {
  return CUDNN_STATUS_NOT_SUPPORTED;
}
#endif

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char* name, int headers,
                               const char* const* texts, const char* const* names) {
  return nvrtc().nvrtcCreateProgram(program, source, name, headers, texts, names);
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) { return nvrtc().nvrtcDestroyProgram(program); }
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
  return nvrtc().nvrtcCompileProgram(program, count, options);
}
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, std::size_t* size) {
  return nvrtc().nvrtcGetCUBINSize(program, size);
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* code) { return nvrtc().nvrtcGetCUBIN(program, code); }
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, std::size_t* size) {
  return nvrtc().nvrtcGetProgramLogSize(program, size);
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) { return nvrtc().nvrtcGetProgramLog(program, log); }
