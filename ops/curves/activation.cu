#include "ops/cuda/map_kernels.h"
#include "ops/curves/curve_list.h"
#include "ops/formulas.h"

namespace lacuna::cuda {

#define LACUNA_INSTANTIATE(C)                                                                                        \
  template void map(Stream, DType, std::int64_t, const formula::C&, const void*, void*);                             \
  template void map_saved(Stream, DType, std::int64_t, const formula::C##Backward&, const void*, const SavedValues&, \
                          void*);                                                                                    \
  template void map_coded(Stream, DType, const CodedRange&, const formula::C&, void*);
LACUNA_CURVES(LACUNA_INSTANTIATE)

template void map(Stream, DType, std::int64_t, const formula::Relu&, const void*, void*);
template void map_coded(Stream, DType, const CodedRange&, const formula::Relu&, void*);
template void map(Stream, DType, std::int64_t, const formula::ReluBackward&, const void*, const void*, void*);

}  // namespace lacuna::cuda
