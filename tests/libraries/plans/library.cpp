#include "tests/libraries/plans/library.h"

#include <cublasLt.h>

#include <cstdint>

namespace {
lacuna::test::CublasltState state;
bool asks_for_sums = false;  // of the last description

/// Descriptions and preferences, which nothing reads.
template <class T>
cublasStatus_t make(T** made) {
  *made = reinterpret_cast<T*>(&state);
  return CUBLAS_STATUS_SUCCESS;
}
}  // namespace

extern "C" {

lacuna::test::CublasltState* cublaslt_state_of_test() { return &state; }

std::size_t cublasLtGetVersion() { return 130000; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "an error"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(&state);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t, cudaDataType_t) {
  asks_for_sums = false;
  return make(made);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t) {
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE)
    asks_for_sums = *static_cast<const cublasLtEpilogue_t*>(value) == CUBLASLT_EPILOGUE_BGRADB;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) { return make(made); }
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType, std::uint64_t, std::uint64_t,
                                          std::int64_t) {
  return make(made);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, const void*,
                                                std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int most,
                                              cublasLtMatmulHeuristicResult_t* found, int* count) {
  *count = 0;
  if (asks_for_sums && !state.sums_rows) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (; *count < most && *count < static_cast<int>(state.takes.size()); ++*count) {
    found[*count] = {};
    found[*count].algo.data[0] = static_cast<std::uint64_t>(*count);
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*, cublasLtMatrixLayout_t,
                              const void*, cublasLtMatrixLayout_t, const void* beta, const void* added,
                              cublasLtMatrixLayout_t, void* result, cublasLtMatrixLayout_t,
                              const cublasLtMatmulAlgo_t* algorithm, void*, std::size_t, cudaStream_t) {
  state.added = added;
  state.beta = *static_cast<const float*>(beta);
  state.result = result;
  const auto index = static_cast<std::size_t>(algorithm->data[0]);
  state.runs.push_back(index);
  state.clock += state.takes[index];
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
