#include "core/backend.h"

#include "core/allocator.h"
#include "core/error.h"
#include "core/library_folder.h"

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string_view>
#include <thread>

namespace lacuna {
namespace {

constinit Backend* registered = nullptr;

/// The path of the backend library: LACUNA_CUDA_LIBRARY if set, otherwise next to liblacuna.
std::string library_path() {
  if (const char* const chosen = std::getenv("LACUNA_CUDA_LIBRARY"); chosen != nullptr) return chosen;
  return (library_folder() / "liblacuna_cuda.so").string();
}

void open_library() {
  const std::string path = library_path();
  if (path.find('/') != std::string::npos && !std::filesystem::exists(path))
    reject(
        "there are no cuda devices: {} does not exist. Install lacuna-cuda, or build Lacuna where nvcc 12.4 or "
        "newer is installed (docs/install.md)",
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
    for (int i = 0; i < found.device_count(); ++i) {
      devices.names.push_back(found.name(i));
      devices.identities.push_back(found.identity(i));
    }
    devices.left_out = found.left_out();
    return devices;
  } catch (const Error& error) {
    return {.left_out = registered == nullptr ? std::vector<std::string>() : registered->left_out(),
            .problem = error.what()};
  }
}

std::string problem_of(Device device) {
  try {
    backend(device).stream(device.index);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

std::vector<std::string> CudaDevices::problems() const {
  std::vector<std::string> all = left_out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Device device = Device::cuda;
    device.index = static_cast<std::uint8_t>(i);
    if (std::string problem = problem_of(device); !problem.empty()) all.push_back(std::move(problem));
  }
  return all;
}

namespace {
struct WaitChecks {
  std::mutex mutex;
  std::vector<WaitCheck> all;
  std::atomic<bool> any = false;
};
WaitChecks& wait_checks() {
  static WaitChecks& checks = *new WaitChecks;  // never destroyed: streams are waited for as long as the process lives
  return checks;
}
}  // namespace

void watch_waits(WaitCheck check) {
  WaitChecks& checks = wait_checks();
  const std::lock_guard lock(checks.mutex);
  checks.all.push_back(std::move(check));
  checks.any = true;
}
bool waits_are_watched() { return wait_checks().any; }

void wait_until(const std::function<bool()>& done) {
  using Clock = std::chrono::steady_clock;
  using namespace std::chrono_literals;
  constexpr int eager = 100;
  const Clock::time_point start = Clock::now();
  Clock::time_point asked = start;
  for (int tries = 0; !done(); ++tries) {
    if (tries < eager)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(50us);
    const Clock::time_point now = Clock::now();
    if (now - asked < 10ms) continue;
    asked = now;
    WaitChecks& checks = wait_checks();
    const std::lock_guard lock(checks.mutex);
    for (const WaitCheck& check : checks.all) check(std::chrono::duration<double>(now - start).count());
  }
}

void synchronize(Device device) {
  if (device.kind != DeviceKind::cuda) return;
  Backend& own = backend(device);
  own.synchronize(own.stream(device.index));
}

namespace {
/// The stream of one device, in a SideStreamScope.
struct SideStream {
  Device device = Device::cpu;
  Stream stream = nullptr;
};
constinit thread_local SideStream side_stream;
}  // namespace

Stream stream_of(Device device) {
  Backend& own = backend(device);
  const Stream stream = own.stream(device.index);  // makes the device the thread's current one
  return side_stream.stream != nullptr && side_stream.device == device ? side_stream.stream : stream;
}

SideStreamScope::SideStreamScope(Device device) : device_(device) {
  expect(side_stream.stream == nullptr, "work is put on one side stream at a time");
  Backend& own = backend(device);
  const std::unique_ptr<StreamMark> before = own.mark(own.stream(device.index));
  const Stream side = own.side_stream(device.index);
  own.wait_for(side, *before);
  side_stream = {device, side};
}
SideStreamScope::~SideStreamScope() { side_stream = {}; }

std::unique_ptr<StreamMark> SideStreamScope::mark() const {
  Backend& own = backend(device_);
  return own.mark(own.side_stream(device_.index));
}

void wait_for(Device device, const StreamMark& mark) {
  Backend& own = backend(device);
  own.wait_for(own.stream(device.index), mark);
}

void cuda::throw_launch_failed(const char* reason) {
  // CUDA loads the code of a kernel when it is first started, perhaps after tensors have taken all memory.
  if (std::string_view(reason) == "out of memory") throw_out_of_memory(0, "by CUDA, for a kernel's code", Device::cuda);
  fail("a kernel could not be started: {}", reason);
}

void cuda::throw_waits_while_captured() {
  fail("the host waits for the device within a step, which cannot be captured then");
}

void cuda::throw_host_memory_captured() {
  fail("tensors wait in the host's memory within a step, which cannot be captured then");
}

RegisterBackend::RegisterBackend(Backend& backend) { registered = &backend; }

}  // namespace lacuna
