// A matrix product as cuBLASLt describes it. Descriptions need no device.
#pragma once

#include "ops/products/product_cuda.h"

#include <cublasLt.h>

#include <memory>

namespace lacuna::cuda {

struct DestroyOfCublaslt {
  void operator()(cublasLtMatmulDesc_t product) const;
  void operator()(cublasLtMatrixLayout_t layout) const;
  void operator()(cublasLtMatmulPreference_t preference) const;
};
using ProductOwner = std::unique_ptr<cublasLtMatmulDescOpaque_t, DestroyOfCublaslt>;
using LayoutOwner = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, DestroyOfCublaslt>;

/// c = a·b by rows is cᵀ = bᵀ·aᵀ by columns: for cuBLASLt b is the left factor.
struct ProductDescription {
  ProductOwner product{};
  LayoutOwner a{}, b{}, c{};
};
/// Opens cuBLASLt; throws Error if it is missing.
ProductDescription description_of(const Product& product);

}  // namespace lacuna::cuda
