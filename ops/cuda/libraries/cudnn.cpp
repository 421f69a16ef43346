// Convolutions and attention by cuDNN, which is opened when it is first needed.
#include "ops/cuda/libraries/cudnn.h"

#include "core/backend.h"
#include "core/dtype.h"
#include "core/error.h"
#include "ops/cuda/libraries/plan_file.h"
#include "ops/cuda_libraries.h"

#include <cudnn.h>

#include <map>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

namespace lacuna::cuda {
namespace {

void check(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) fail("cuDNN: {} failed: {}", call, cudnnGetErrorString(status));
}

std::string text_of(const Convolution& what) {
  const ConvShape& s = what.shape;
  constexpr const char* passes[] = {"", ", gradient of the input", ", gradient of the weights"};
  return fmt::format("a convolution {}×{} of {} to {} channels at {}×{}{}, in {}", s.kernel_height, s.kernel_width,
                     s.channels, s.outputs, s.height, s.width, passes[static_cast<int>(what.pass)],
                     name_of(what.dtype));
}
std::string text_of(const DenseAttention& what) {
  const std::string heads =
      fmt::format("{}attention{}{} of {} heads of {}", what.causal ? "causal " : "",
                  what.dropout ? " with dropout" : "", what.backward ? ", backward," : "", what.heads, what.head_dim);
  if (what.rows == SampleRows::equal)
    return fmt::format("{}, {} to {} tokens, in {}", heads, what.queries, what.keys, name_of(what.dtype));
  return fmt::format("{}, {} samples of unequal length, in {}", heads,  // without lengths, which change
                     what.rows == SampleRows::padded ? "padded" : "packed", name_of(what.dtype));
}
/// The key in the file of measured plans.
std::string key_text(const Convolution& what) {
  const ConvShape& s = what.shape;
  return fmt::format("{}: {} images, step {}, zeros {} {} {} {}, {} groups", text_of(what), s.images, s.stride,
                     s.padding.top, s.padding.left, s.padding.bottom, s.padding.right, s.groups);
}
template <class What>
std::string missing(const What& what, const std::string& problem) {
  return fmt::format("cuDNN has no plan for {}: {}. Kernels of our own compute it, more slowly", text_of(what),
                     problem);
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
    Entry* const plan = find(device, what);
    expect(plan != nullptr, "cuDNN was asked for what it has no plan for");
    check(cudnnSetStream(handle(device), stream), "SetStream");
    if constexpr (std::is_same_v<What, Convolution>)
      if (!plan->is_measured && file(device).is_due(plan->last_step))
        measure(stream, device, what, *plan, pointers, workspace);
    plan->plan->run(handle(device), pointers, workspace);
  }

  /// Why cuDNN cannot start on the device, as one of another CUDA than the driver's; empty: it can.
  std::string problem(int device) {
    if (!cudnn_problem().empty()) return cudnn_problem();
    const std::lock_guard lock(mutex_);
    return start(device).problem;
  }
  template <class What>
  std::string problem(int device, const What& what) {
    const std::lock_guard lock(mutex_);
    return find(device, what) == nullptr ? missing(what, plan_of({.handle = handle(device)}, what).problem) : "";
  }

 private:
  struct Started {
    cudnnHandle_t handle = nullptr;
    std::string problem{};
  };
  const Started& start(int device) {
    const auto [entry, is_new] = started_.try_emplace(device);
    if (is_new)
      if (const cudnnStatus_t status = cudnnCreate(&entry->second.handle); status != CUDNN_STATUS_SUCCESS) {
        entry->second = {nullptr, fmt::format("cuDNN {} was found and cannot start: {}. It has to be of the driver's "
                                              "CUDA or an older one: nvidia-cudnn-cu12 for CUDA 12, -cu13 for 13",
                                              cudnnGetVersion(), cudnnGetErrorString(status))};
        note_library(entry->second.problem);
      }
    return entry->second;
  }
  cudnnHandle_t handle(int device) { return start(device).handle; }
  struct Entry {
    std::unique_ptr<CudnnPlan> plan{};  // null: there is none
    bool is_measured = false;
    std::optional<std::uint32_t> last_step{};
  };
  PlanFile& file(int device) {
    return files_.try_emplace(device, device, fmt::format("cuDNN {}", cudnnGetVersion())).first->second;
  }
  /// Null if there is none, which is kept too.
  template <class What>
  Entry* find(int device, const What& what) {
    auto& plans = std::get<std::map<std::pair<int, What>, Entry>>(plans_);
    const std::pair key(device, what);
    auto entry = plans.find(key);
    if (entry == plans.end()) {
      Planned planned;
      if (handle(device) != nullptr) {
        planned = plan_of({.handle = handle(device)}, what);
        if (planned.plan == nullptr) note_library(missing(what, planned.problem));
      }
      entry = plans.emplace(key, Entry{.plan = std::move(planned.plan)}).first;
      if constexpr (std::is_same_v<What, Convolution>)
        if (const std::string known = entry->second.plan == nullptr ? "" : file(device).find(key_text(what));
            !known.empty())
          entry->second.is_measured = entry->second.plan->take(known);
    }
    return entry->second.plan == nullptr ? nullptr : &entry->second;
  }
  void measure(Stream stream, int device, const Convolution& what, Entry& entry, const std::vector<void*>& pointers,
               void* workspace) {
    constexpr int most = 8;
    entry.is_measured = true;
    const std::vector<std::string> names = entry.plan->names(most);
    if (names.empty()) return;
    const std::size_t best = fastest(stream, names.size(), [&](std::size_t i) {
      if (!entry.plan->take(names[i])) return false;
      try {
        entry.plan->run(handle(device), pointers, workspace);
      } catch (const Error&) {  // the heuristic lists plans that fail
        return false;
      }
      return true;
    });
    if (!entry.plan->take(file(device).add(key_text(what), names[best]))) entry.plan->take(names[best]);
  }

  std::mutex mutex_;
  std::map<int, Started> started_;
  std::map<int, PlanFile> files_;
  std::tuple<std::map<std::pair<int, Convolution>, Entry>, std::map<std::pair<int, DenseAttention>, Entry>> plans_;
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
  if (!cudnn_problem().empty()) return {"cuDNN", "", cudnn_problem()};
  const std::size_t version = cudnnGetVersion();
  CudaLibrary state{"cuDNN", fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100), ""};
  const Device device = Device::cuda;
  try {
    stream_of(device);      // makes it the current one
  } catch (const Error&) {  // no kernel runs on it, which is said elsewhere
    return state;
  }
  if (state.problem = plans().problem(device.index); !state.problem.empty()) return {"cuDNN", "", state.problem};
  for (const std::int64_t heads : {12, 16}) {  // of ViT-B, and of ViT-L at 512 pixels
    const std::int64_t tokens = heads == 12 ? 197 : 1025, head_dim = 64, width = 3 * heads * head_dim;
    DenseAttention what{true,  DType::bf16, 1,     heads, heads, tokens, tokens, head_dim, tokens,
                        width, width,       width, width, width, width,  0.125F, false};
    if (const std::string problem = plans().problem(device.index, what); !problem.empty())
      state.notes.push_back(problem);
  }
  return state;
}

void convolve(Stream stream, int device, const Convolution& what, const void* first, const void* second, void* result,
              void* workspace) {
  plans().run(stream, device, what, {any(first), any(second), result}, workspace);
}

void attend(Stream stream, int device, const DenseAttention& what, const DenseAttentionPointers& p, void* workspace) {
  std::vector<void*> pointers{any(p.q), any(p.k), any(p.v), p.y, p.log_sums};
  if (what.backward) pointers.insert(pointers.end(), {any(p.dy), p.dq, p.dk, p.dv});
  for (const void* const beside : {p.query_lengths, p.key_lengths, p.query_offsets, p.key_offsets, p.mask, p.kept_scale,
                                   what.backward ? p.kept_share : nullptr})
    if (beside != nullptr) pointers.push_back(any(beside));
  plans().run(stream, device, what, pointers, workspace);
}

}  // namespace lacuna::cuda
