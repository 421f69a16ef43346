#include "core/backend.h"

#include "core/error.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>

namespace lacuna {
namespace {

constinit Backend* registered = nullptr;

/// The path of the backend library: LACUNA_CUDA_LIBRARY if set, otherwise next to liblacuna.
std::string library_path() {
  if (const char* const chosen = std::getenv("LACUNA_CUDA_LIBRARY"); chosen != nullptr) return chosen;
  Dl_info own{};
  const bool found = dladdr(reinterpret_cast<const void*>(&library_path), &own) != 0 && own.dli_fname != nullptr;
  const std::filesystem::path folder = found ? std::filesystem::path(own.dli_fname).parent_path() : "";
  return (folder / "liblacuna_cuda.so").string();
}

void open_library() {
  const std::string path = library_path();
  if (path.find('/') != std::string::npos && !std::filesystem::exists(path))
    reject(
        "there are no cuda devices: this build of Lacuna has no CUDA, {} does not exist. Build it where nvcc 12.4 or "
        "newer is installed (docs/cuda.md)",
        path);
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) reject("there are no cuda devices: {}", dlerror());
  if (registered == nullptr) reject("there are no cuda devices: {} registers none", path);
}

}  // namespace

Backend& backend(Device device) {
  static std::mutex mutex;
  static int count = -1;
  const std::lock_guard lock(mutex);
  if (count < 0) {
    if (registered == nullptr) open_library();
    count = registered->device_count();
  }
  if (count == 0) reject("there are no cuda devices: {}", registered->problem());
  if (device.kind != DeviceKind::cuda || device.index >= count)
    reject("there is no device {}: {} cuda devices were found", name_of(device), count);
  return *registered;
}

CudaDevices find_cuda_devices() {
  try {
    const Backend& found = backend(Device::cuda);
    CudaDevices devices;
    for (int i = 0; i < found.device_count(); ++i) devices.names.push_back(found.name(i));
    return devices;
  } catch (const Error& error) {
    return {.problem = error.what()};
  }
}

void synchronize(Device device) {
  if (device.kind != DeviceKind::cuda) return;
  Backend& own = backend(device);
  own.synchronize(own.stream(device.index));
}

namespace {
constinit thread_local Stream side_stream = nullptr;  // set in a SideStreamScope
}

Stream stream_of(Device device) {
  Backend& own = backend(device);
  const Stream stream = own.stream(device.index);  // makes the device the thread's current one
  return side_stream == nullptr ? stream : side_stream;
}

SideStreamScope::SideStreamScope(Device device) : device_(device), outer_(side_stream) {
  Backend& own = backend(device);
  const std::unique_ptr<StreamMark> before = own.mark(own.stream(device.index));
  side_stream = own.side_stream(device.index);
  own.wait_for(side_stream, *before);
}
SideStreamScope::~SideStreamScope() { side_stream = outer_; }

std::unique_ptr<StreamMark> SideStreamScope::mark() const {
  Backend& own = backend(device_);
  return own.mark(own.side_stream(device_.index));
}

void wait_for(Device device, const StreamMark& mark) {
  Backend& own = backend(device);
  own.wait_for(own.stream(device.index), mark);
}

void cuda::throw_launch_failed(const char* reason) { fail("a kernel could not be started: {}", reason); }

void cuda::throw_waits_while_captured() {
  fail("the host waits for the device within a step, which cannot be captured then");
}

RegisterBackend::RegisterBackend(Backend& backend) { registered = &backend; }

}  // namespace lacuna
