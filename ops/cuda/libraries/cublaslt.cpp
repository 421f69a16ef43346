// Matrix products by cuBLASLt, which is opened when it is first needed. The first plan of its heuristic is taken, so
// that the same shapes have the same bits; split sums are reduced in f32 in order, never by atomics.
#include "ops/cuda/libraries/cublaslt.h"

#include "core/cuda/library.h"
#include "core/error.h"
#include "ops/cuda/libraries/cudnn.h"
#include "ops/cuda/libraries/nccl.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

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
using Key = std::tuple<int, std::array<std::int64_t, 9>, std::array<std::int64_t, 3>, std::array<DType, 3>,
                       std::array<bool, 5>, std::array<std::uint32_t, 3>>;

Key key_of(int device, const Product& p) {
  return {device,
          {p.a.rows, p.a.columns, p.a.stride, p.b.rows, p.b.columns, p.b.stride, p.c.rows, p.c.columns, p.c.stride},
          {p.batch, p.a.item, p.b.item},
          {p.a.dtype, p.b.dtype, p.c.dtype},
          {p.a.transposed, p.b.transposed, p.add, p.bias != nullptr, p.tf32},
          {alignment_of(p.a.data), alignment_of(p.b.data), alignment_of(p.c.data)}};
}

using PreferenceOwner = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, DestroyOfCublaslt>;

struct Plan {
  ProductDescription description{};
  cublasLtMatmulAlgo_t algorithm{};
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
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.c.data));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.c.data));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  check(library().cublasLtMatmulAlgoGetHeuristic(handle, d.product.get(), d.b.get(), d.a.get(), d.c.get(), d.c.get(),
                                                 preference, 1, &found, &count),
        "MatmulAlgoGetHeuristic");
  expect(count > 0, "cuBLASLt has no product [{}, {}] by [{}, {}]", p.a.rows, p.a.columns, p.b.rows, p.b.columns);
  plan.algorithm = found.algo;
  return plan;
}

/// The handle of a device and the plans made for it. They live as long as the process.
class Products {
 public:
  void run(Stream stream, int device, const Product& p, void* workspace) {
    const std::lock_guard lock(mutex_);
    cublasLtHandle_t& handle = handles_[device];
    if (handle == nullptr) check(library().cublasLtCreate(&handle), "Create");
    const Key key = key_of(device, p);
    auto entry = plans_.find(key);
    if (entry == plans_.end()) entry = plans_.emplace(key, make_plan(handle, p)).first;
    const ProductDescription& d = entry->second.description;
    if (p.bias != nullptr) set(d.product.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    const float alpha = p.alpha, beta = p.add ? 1 : 0;
    check(library().cublasLtMatmul(handle, d.product.get(), &alpha, p.b.data, d.b.get(), p.a.data, d.a.get(), &beta,
                                   p.c.data, d.c.get(), p.c.data, d.c.get(), &entry->second.algorithm, workspace,
                                   static_cast<std::size_t>(library_workspace), stream),
          "Matmul");
  }

 private:
  std::mutex mutex_;
  std::map<int, cublasLtHandle_t> handles_;
  std::map<Key, Plan> plans_;
};

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
  d.a = layout_of(p.a, p.batch);
  d.b = layout_of(p.b, p.batch);
  d.c = layout_of(p.c, p.batch);
  return d;
}

void multiply(Stream stream, int device, const Product& product, void* workspace) {
  static Products& products = *new Products;  // never destroyed: the library may be closed by then
  products.run(stream, device, product, workspace);
}

}  // namespace lacuna::cuda
