// Matrix products by cuBLASLt, which is opened when it is first needed. The first plan of its heuristic is taken, or
// the one that was measured (plan_file.h), so that the same shapes have the same bits; split sums are reduced in f32 in
// order, never by atomics.
#include "ops/cuda/libraries/cublaslt.h"

#include "core/cuda/library.h"
#include "core/dtype.h"
#include "core/error.h"
#include "ops/cuda/libraries/cudnn.h"
#include "ops/cuda/libraries/nccl.h"
#include "ops/cuda/libraries/plan_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace lacuna::cuda {
namespace {

// That of the CUDA that this build is of comes first: both may be installed, and the driver too old for one.
constexpr const char *own_file = CUDART_VERSION >= 13000 ? "libcublasLt.so.13" : "libcublasLt.so.12",
                     *other_file = CUDART_VERSION >= 13000 ? "libcublasLt.so.12" : "libcublasLt.so.13";
/// The functions of the library that are used.
struct Library {
  SharedLibrary library{"cuBLASLt", {own_file, other_file}, "libcublas-13-0"};
#define LACUNA_FUNCTION(name) decltype(&::name) name = library.function<decltype(&::name)>(#name)
  LACUNA_FUNCTION(cublasLtCreate);
  LACUNA_FUNCTION(cublasLtGetStatusString);
  LACUNA_FUNCTION(cublasLtGetVersion);
  LACUNA_FUNCTION(cublasLtMatmul);
  LACUNA_FUNCTION(cublasLtMatmulAlgoGetHeuristic);
  LACUNA_FUNCTION(cublasLtMatmulDescCreate);
  LACUNA_FUNCTION(cublasLtMatmulDescDestroy);
  LACUNA_FUNCTION(cublasLtMatmulDescSetAttribute);
  LACUNA_FUNCTION(cublasLtMatmulPreferenceCreate);
  LACUNA_FUNCTION(cublasLtMatmulPreferenceDestroy);
  LACUNA_FUNCTION(cublasLtMatmulPreferenceSetAttribute);
  LACUNA_FUNCTION(cublasLtMatrixLayoutCreate);
  LACUNA_FUNCTION(cublasLtMatrixLayoutDestroy);
  LACUNA_FUNCTION(cublasLtMatrixLayoutSetAttribute);
#undef LACUNA_FUNCTION
};

Library& library() {
  static Library library;
  return library;
}

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) fail("cuBLASLt: {} failed: {}", call, library().cublasLtGetStatusString(status));
}

cudaDataType_t type_of(DType dtype) {
  if (dtype == DType::f32) return CUDA_R_32F;
  return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_16F;
}

/// The largest power of two that divides an address, at most 256.
std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer) | 256U;
  return 1U << std::countr_zero(address);
}

/// All that a plan depends on.
using Key = std::tuple<std::array<std::int64_t, 9>, std::array<std::int64_t, 3>, std::array<DType, 3>,
                       std::array<bool, 6>, std::array<std::uint32_t, 4>>;

/// The matrix that is added, or c.
const void* addend_of(const Product& p) { return p.addend != nullptr ? p.addend : p.c.data; }

Key key_of(const Product& p) {
  return {{p.a.rows, p.a.columns, p.a.stride, p.b.rows, p.b.columns, p.b.stride, p.c.rows, p.c.columns, p.c.stride},
          {p.batch, p.a.item, p.b.item},
          {p.a.dtype, p.b.dtype, p.c.dtype},
          {p.a.transposed, p.b.transposed, p.addend != nullptr, p.bias != nullptr, p.row_sums != nullptr, p.tf32},
          {alignment_of(p.a.data), alignment_of(p.b.data), alignment_of(p.c.data), alignment_of(addend_of(p))}};
}

/// The key in the file of measured plans.
std::string text_of(const Product& p) {
  std::string text = fmt::format("{} by {} to {}:", name_of(p.a.dtype), name_of(p.b.dtype), name_of(p.c.dtype));
  for (const Factor& f : {p.a, p.b, p.c})
    text += fmt::format(" {}x{}{} every {} at {}", f.rows, f.columns, f.transposed ? " transposed" : "", f.stride,
                        alignment_of(f.data));
  if (p.batch > 1) text += fmt::format(", {} of them every {} and {}", p.batch, p.a.item, p.b.item);
  if (p.addend != nullptr) text += fmt::format(", plus one at {}", alignment_of(p.addend));
  for (const auto& [is_set, name] : {std::pair(p.bias != nullptr, ", bias"), std::pair(p.row_sums != nullptr, ", sums"),
                                     std::pair(p.tf32, ", tf32")})
    if (is_set) text += name;
  return text;
}

using PreferenceOwner = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, DestroyOfCublaslt>;
using Algorithm = cublasLtMatmulAlgo_t;

// An algorithm is plain data, which its library understands in any process.
std::string text_of(const Algorithm& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm.data) text += fmt::format("{:016x}", word);
  return text;
}

struct Plan {
  ProductDescription description{};
  std::vector<Algorithm> algorithms{};  // as the heuristic likes them; empty: the library has none
  std::size_t chosen = 0;
  bool is_measured = false;
  std::optional<std::uint32_t> last_step{};
};

template <class T>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(library().cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value), "MatmulDescSetAttribute");
}

/// cuBLASLt counts by columns: a row-major matrix is the transpose of what it sees.
LayoutOwner layout_of(const Factor& matrix, std::int64_t batch) {
  cublasLtMatrixLayout_t made = nullptr;
  check(library().cublasLtMatrixLayoutCreate(&made, type_of(matrix.dtype), static_cast<std::uint64_t>(matrix.columns),
                                             static_cast<std::uint64_t>(matrix.rows), matrix.stride),
        "MatrixLayoutCreate");
  LayoutOwner layout(made);
  const auto count = static_cast<std::int32_t>(batch);
  check(library().cublasLtMatrixLayoutSetAttribute(layout.get(), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                   sizeof count),
        "MatrixLayoutSetAttribute");
  check(library().cublasLtMatrixLayoutSetAttribute(layout.get(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                   &matrix.item, sizeof matrix.item),
        "MatrixLayoutSetAttribute");
  return layout;
}

Plan make_plan(cublasLtHandle_t handle, const Product& p) {
  Plan plan{.description = description_of(p)};
  const ProductDescription& d = plan.description;
  cublasLtMatmulPreference_t preference = nullptr;
  check(library().cublasLtMatmulPreferenceCreate(&preference), "MatmulPreferenceCreate");
  const PreferenceOwner owner(preference);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(library().cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
          "MatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{library_workspace});
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b.data));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a.data));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(addend_of(p)));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.c.data));
  constexpr int most = 8;
  std::array<cublasLtMatmulHeuristicResult_t, most> found{};
  int count = 0;
  const cublasStatus_t status = library().cublasLtMatmulAlgoGetHeuristic(
      handle, d.product.get(), d.b.get(), d.a.get(), d.c.get(), d.c.get(), preference, most, found.data(), &count);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "MatmulAlgoGetHeuristic");
  for (int i = 0; i < count; ++i)
    if (found[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
      plan.algorithms.push_back(found[static_cast<std::size_t>(i)].algo);
  return plan;
}

/// The handle of a device and the plans made for it. They live as long as the process.
class Products {
 public:
  explicit Products(int device) : file_(device, fmt::format("cuBLASLt {}", library().cublasLtGetVersion())) {
    check(library().cublasLtCreate(&handle_), "Create");
  }
  std::size_t choose(Stream stream, const std::string& what, std::size_t count,
                     const std::function<bool(std::size_t)>& run) {
    const std::lock_guard lock(mutex_);
    const auto [entry, is_new] = choices_.try_emplace(what);
    Choice& choice = entry->second;
    if (is_new)
      for (std::size_t i = 0; i < count; ++i)
        if (file_.find(what) == std::to_string(i)) choice = {.chosen = i, .is_measured = true};
    if (run && !choice.is_measured && file_.is_due(choice.last_step)) {
      choice.is_measured = true;
      {
        const MeasureAll scope(measures_all_);
        choice.chosen = fastest(stream, count, run);
      }
      const std::string taken = file_.add(what, std::to_string(choice.chosen));
      for (std::size_t i = 0; i < count; ++i)
        if (taken == std::to_string(i)) choice.chosen = i;
    }
    return choice.chosen;
  }
  bool has(const Product& p) {
    const std::lock_guard lock(mutex_);
    return !find(p).algorithms.empty();
  }
  void run(Stream stream, const Product& p, void* workspace) {
    const std::lock_guard lock(mutex_);
    Plan& plan = find(p);
    expect(!plan.algorithms.empty(), "cuBLASLt has no product [{}, {}] by [{}, {}]", p.a.rows, p.a.columns, p.b.rows,
           p.b.columns);
    if (p.bias != nullptr) set(plan.description.product.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    if (p.row_sums != nullptr) set(plan.description.product.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.row_sums);
    // An addend is needed again. The first micro-batch, which adds nothing, has the same plan.
    if (!p.add && !plan.is_measured && (file_.is_due(plan.last_step) || measures_all_))
      measure(stream, p, plan, workspace);
    check(run(stream, p, plan, plan.chosen, workspace), "Matmul");
  }

 private:
  Plan& find(const Product& p) {
    const Key key = key_of(p);
    auto entry = plans_.find(key);
    if (entry != plans_.end()) return entry->second;
    Plan plan = make_plan(handle_, p);
    plan.is_measured = take(plan, file_.find(text_of(p)));
    return plans_.emplace(key, std::move(plan)).first->second;
  }
  static bool take(Plan& plan, const std::string& known) {
    const auto same = std::ranges::find(plan.algorithms, known, [](const Algorithm& one) { return text_of(one); });
    if (same == plan.algorithms.end()) return false;
    plan.chosen = static_cast<std::size_t>(same - plan.algorithms.begin());
    return true;
  }
  cublasStatus_t run(Stream stream, const Product& p, const Plan& plan, std::size_t algorithm, void* workspace) const {
    const ProductDescription& d = plan.description;
    const float alpha = p.alpha, beta = p.add || p.addend != nullptr ? 1 : 0;
    return library().cublasLtMatmul(handle_, d.product.get(), &alpha, p.b.data, d.b.get(), p.a.data, d.a.get(), &beta,
                                    addend_of(p), d.c.get(), p.c.data, d.c.get(), &plan.algorithms[algorithm],
                                    workspace, static_cast<std::size_t>(library_workspace), stream);
  }
  void measure(Stream stream, const Product& p, Plan& plan, void* workspace) {
    plan.is_measured = true;
    plan.chosen = fastest(stream, plan.algorithms.size(), [&](std::size_t algorithm) {
      return run(stream, p, plan, algorithm, workspace) == CUBLAS_STATUS_SUCCESS;
    });
    take(plan, file_.add(text_of(p), text_of(plan.algorithms[plan.chosen])));
  }

  /// While it lives, products of what `choose` measures are measured too.
  class MeasureAll {
   public:
    explicit MeasureAll(bool& measures) : measures_(measures) { measures_ = true; }
    ~MeasureAll() { measures_ = false; }
    MeasureAll(const MeasureAll&) = delete;
    MeasureAll& operator=(const MeasureAll&) = delete;

   private:
    bool& measures_;
  };
  struct Choice {
    std::size_t chosen = 0;
    bool is_measured = false;
    std::optional<std::uint32_t> last_step{};
  };

  std::recursive_mutex mutex_;  // what `choose` runs multiplies
  cublasLtHandle_t handle_ = nullptr;
  PlanFile file_;
  std::map<Key, Plan> plans_;
  std::map<std::string, Choice> choices_;
  bool measures_all_ = false;
};

Products& products(int device) {
  static std::mutex mutex;
  static auto& all = *new std::map<int, std::unique_ptr<Products>>;  // never destroyed: the library may be closed then
  const std::lock_guard lock(mutex);
  std::unique_ptr<Products>& own = all[device];
  if (!own) own = std::make_unique<Products>(device);
  return *own;
}

const RegisterKernel state{add_cuda_libraries, DeviceKind::cuda, [](std::vector<CudaLibrary>& libraries) {
                             CudaLibrary own{.name = "cuBLASLt"};
                             try {
                               const std::size_t version = library().cublasLtGetVersion();
                               own.version =
                                   fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
                             } catch (const Error& error) {
                               own.problem = error.what();
                             }
                             libraries.push_back(std::move(own));
                             libraries.push_back(cudnn_state());
                             libraries.push_back(nccl_state());
                           }};

}  // namespace

void DestroyOfCublaslt::operator()(cublasLtMatmulDesc_t product) const { library().cublasLtMatmulDescDestroy(product); }
void DestroyOfCublaslt::operator()(cublasLtMatrixLayout_t layout) const {
  library().cublasLtMatrixLayoutDestroy(layout);
}
void DestroyOfCublaslt::operator()(cublasLtMatmulPreference_t preference) const {
  library().cublasLtMatmulPreferenceDestroy(preference);
}

ProductDescription description_of(const Product& p) {
  cublasLtMatmulDesc_t made = nullptr;
  const cublasComputeType_t compute = p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check(library().cublasLtMatmulDescCreate(&made, compute, CUDA_R_32F), "MatmulDescCreate");
  ProductDescription d{.product = ProductOwner(made)};
  set(made, CUBLASLT_MATMUL_DESC_TRANSA, p.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(made, CUBLASLT_MATMUL_DESC_TRANSB, p.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (p.bias != nullptr) {
    set(made, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(made, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  }
  if (p.row_sums != nullptr) {  // a is the right factor there
    set(made, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADB);
    set(made, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.row_sums);
    set(made, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F);
  }
  d.a = layout_of(p.a, p.batch);
  d.b = layout_of(p.b, p.batch);
  d.c = layout_of(p.c, p.batch);
  return d;
}

std::size_t choose(Stream stream, int device, const std::string& what, std::size_t count,
                   const std::function<bool(std::size_t)>& run) {
  return products(device).choose(stream, what, count, run);
}

bool has_plan(int device, const Product& product) { return products(device).has(product); }

void multiply(Stream stream, int device, const Product& product, void* workspace) {
  products(device).run(stream, product, workspace);
}

}  // namespace lacuna::cuda
