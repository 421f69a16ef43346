#include "ops/cuda/map_kernels.h"
#include "ops/formulas.h"

namespace lacuna::cuda {

template <class Formula>
using Apply = void(Stream, DType, std::int64_t, const Formula&, const void*, void*);
template <class Formula>
using Gradient = void(Stream, DType, std::int64_t, const Formula&, const void*, const SavedValues&, void*);

template Apply<formula::GeluErf> map<formula::GeluErf>;
template Apply<formula::GeluTanh> map<formula::GeluTanh>;
template Apply<formula::Relu> map<formula::Relu>;
template Apply<formula::Silu> map<formula::Silu>;
template Apply<formula::QuickGelu> map<formula::QuickGelu>;
template Apply<formula::Sigmoid> map<formula::Sigmoid>;
template Apply<formula::Tanh> map<formula::Tanh>;

template Gradient<formula::GeluErfBackward> map_saved<formula::GeluErfBackward>;
template Gradient<formula::GeluTanhBackward> map_saved<formula::GeluTanhBackward>;
template Gradient<formula::SiluBackward> map_saved<formula::SiluBackward>;
template Gradient<formula::QuickGeluBackward> map_saved<formula::QuickGeluBackward>;
template Gradient<formula::SigmoidBackward> map_saved<formula::SigmoidBackward>;
template Gradient<formula::TanhBackward> map_saved<formula::TanhBackward>;

template void map<formula::ReluBackward>(Stream, DType, std::int64_t, const formula::ReluBackward&, const void*,
                                         const void*, void*);

}  // namespace lacuna::cuda
