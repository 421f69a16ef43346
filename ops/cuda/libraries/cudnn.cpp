// Convolutions and attention by cuDNN, which is opened when it is first needed.
#include "ops/cuda/libraries/cudnn.h"

#include "core/error.h"
#include "ops/cuda_libraries.h"

#include <cudnn.h>

#include <map>
#include <mutex>
#include <utility>

namespace lacuna::cuda {
namespace {

void check(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) fail("cuDNN: {} failed: {}", call, cudnnGetErrorString(status));
}

/// The handle of a device and the plans made for it. They live as long as the process.
class Plans {
 public:
  template <class What>
  bool has(int device, const What& what) {
    if (!cudnn_problem().empty()) return false;
    const std::lock_guard lock(mutex_);
    return find(device, what) != nullptr;
  }
  template <class What>
  void run(Stream stream, int device, const What& what, const std::vector<void*>& pointers, void* workspace) {
    const std::lock_guard lock(mutex_);
    const CudnnPlan* const plan = find(device, what);
    expect(plan != nullptr, "cuDNN was asked for what it has no plan for");
    check(cudnnSetStream(handle(device), stream), "SetStream");
    plan->run(handle(device), pointers, workspace);
  }

 private:
  cudnnHandle_t handle(int device) {
    cudnnHandle_t& handle = handles_[device];
    if (handle == nullptr) check(cudnnCreate(&handle), "Create");
    return handle;
  }
  /// Null if there is none, which is kept too.
  template <class What>
  const CudnnPlan* find(int device, const What& what) {
    auto& plans = std::get<std::map<std::pair<int, What>, std::unique_ptr<const CudnnPlan>>>(plans_);
    const std::pair key(device, what);
    auto entry = plans.find(key);
    if (entry == plans.end()) entry = plans.emplace(key, plan_of({.handle = handle(device)}, what).plan).first;
    return entry->second.get();
  }

  std::mutex mutex_;
  std::map<int, cudnnHandle_t> handles_;
  std::tuple<std::map<std::pair<int, Convolution>, std::unique_ptr<const CudnnPlan>>,
             std::map<std::pair<int, DenseAttention>, std::unique_ptr<const CudnnPlan>>>
      plans_;
};

Plans& plans() {
  static Plans& all = *new Plans;  // never destroyed: the library may be closed by then
  return all;
}

/// cuDNN takes pointers to what it only reads as it takes those to what it writes.
void* any(const void* pointer) { return const_cast<void*>(pointer); }

}  // namespace

bool has_plan(int device, const Convolution& what) { return plans().has(device, what); }
bool has_plan(int device, const DenseAttention& what) { return plans().has(device, what); }

CudaLibrary cudnn_state() {
  const std::size_t version = cudnn_problem().empty() ? cudnnGetVersion() : 0;
  return {"cuDNN", version == 0 ? "" : fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100),
          cudnn_problem()};
}

void convolve(Stream stream, int device, const Convolution& what, const void* first, const void* second, void* result,
              void* workspace) {
  plans().run(stream, device, what, {any(first), any(second), result}, workspace);
}

void attend(Stream stream, int device, const DenseAttention& what, const DenseAttentionPointers& p, void* workspace) {
  std::vector<void*> pointers{any(p.q), any(p.k), any(p.v), p.y, p.log_sums};
  if (what.backward) pointers.insert(pointers.end(), {any(p.dy), p.dq, p.dk, p.dv});
  plans().run(stream, device, what, pointers, workspace);
}

}  // namespace lacuna::cuda
