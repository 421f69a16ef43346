#include "ops/cuda/libraries/cublaslt.h"

#include "core/cuda/library.h"
#include "core/error.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <optional>

namespace lacuna {
namespace {

/// Reads descriptions back. Looking a function up fails if the library lacks it.
struct Reader {
  cuda::SharedLibrary library{"cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"}, "libcublas-13-0"};
  decltype(&::cublasLtMatmulDescGetAttribute) of_product =
      library.function<decltype(&::cublasLtMatmulDescGetAttribute)>("cublasLtMatmulDescGetAttribute");
  decltype(&::cublasLtMatrixLayoutGetAttribute) of_layout =
      library.function<decltype(&::cublasLtMatrixLayoutGetAttribute)>("cublasLtMatrixLayoutGetAttribute");

  template <class T>
  T read(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute) const {
    T value{};
    std::size_t written = 0;
    CHECK(of_product(product, attribute, &value, sizeof value, &written) == CUBLAS_STATUS_SUCCESS);
    CHECK(written == sizeof value);
    return value;
  }
  template <class T>
  T read(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute) const {
    T value{};
    std::size_t written = 0;
    CHECK(of_layout(layout, attribute, &value, sizeof value, &written) == CUBLAS_STATUS_SUCCESS);
    CHECK(written == sizeof value);
    return value;
  }
};

std::optional<Reader> reader() {
  try {
    return Reader();
  } catch (const Error& error) {
    MESSAGE(error.what());
    return {};
  }
}

void check_layout(const Reader& reader, cublasLtMatrixLayout_t layout, const cuda::Factor& matrix, std::int32_t batch,
                  std::uint32_t type) {
  // A row-major matrix is the transpose of what cuBLASLt sees.
  CHECK(reader.read<std::uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_ROWS) == static_cast<std::uint64_t>(matrix.columns));
  CHECK(reader.read<std::uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_COLS) == static_cast<std::uint64_t>(matrix.rows));
  CHECK(reader.read<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_LD) == matrix.stride);
  CHECK(reader.read<std::int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) == batch);
  CHECK(reader.read<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) == matrix.item);
  CHECK(reader.read<std::uint32_t>(layout, CUBLASLT_MATRIX_LAYOUT_TYPE) == type);
}

}  // namespace

TEST_CASE("cuBLASLt's descriptions of a product are read back") {
  const std::optional<Reader> read = reader();
  if (!read) return;
  std::array<float, 16> memory{};
  const cuda::Product product{.a = {memory.data(), DType::bf16, 7, 5, 9, true, 70},
                              .b = {memory.data(), DType::bf16, 7, 3, 3, false, 21},
                              .c = {memory.data(), DType::f32, 5, 3, 4, false, 20},
                              .batch = 2,
                              .bias = memory.data()};
  const cuda::ProductDescription d = cuda::description_of(product);
  CHECK(read->read<std::int32_t>(d.product.get(), CUBLASLT_MATMUL_DESC_COMPUTE_TYPE) == CUBLAS_COMPUTE_32F);
  CHECK(read->read<std::int32_t>(d.product.get(), CUBLASLT_MATMUL_DESC_TRANSA) == CUBLAS_OP_N);  // b
  CHECK(read->read<std::int32_t>(d.product.get(), CUBLASLT_MATMUL_DESC_TRANSB) == CUBLAS_OP_T);
  CHECK(read->read<std::uint32_t>(d.product.get(), CUBLASLT_MATMUL_DESC_EPILOGUE) == CUBLASLT_EPILOGUE_BIAS);
  CHECK(read->read<const void*>(d.product.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER) == memory.data());
  cuda::Product with_sums = product;
  with_sums.bias = nullptr;
  with_sums.row_sums = memory.data();
  const cuda::ProductDescription of_sums = cuda::description_of(with_sums);
  CHECK(read->read<std::uint32_t>(of_sums.product.get(), CUBLASLT_MATMUL_DESC_EPILOGUE) == CUBLASLT_EPILOGUE_BGRADB);
  CHECK(read->read<std::int32_t>(of_sums.product.get(), CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE) == CUDA_R_32F);
  check_layout(*read, d.a.get(), product.a, 2, CUDA_R_16BF);
  check_layout(*read, d.b.get(), product.b, 2, CUDA_R_16BF);
  check_layout(*read, d.c.get(), product.c, 2, CUDA_R_32F);
}

}  // namespace lacuna
