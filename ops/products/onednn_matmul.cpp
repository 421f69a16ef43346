#include "ops/products/onednn_matmul.h"

#include "core/allocator.h"
#include "core/parallel.h"
#include "ops/products/onednn.h"

#include <map>
#include <tuple>
#include <unordered_map>

namespace lacuna::onednn {
namespace {

using Description = dnnl::memory::desc;

/// Extents as the product reads them.
Description matrix(std::int64_t rows, std::int64_t columns, const TypedOperand& of) {
  const dnnl::memory::dims strides =
      of.transposed ? dnnl::memory::dims{1, of.stride} : dnnl::memory::dims{of.stride, 1};
  return {{rows, columns}, type_of(of.dtype), strides};
}

struct Prepared {
  dnnl::matmul primitive;
  Description a, b, bias, c, scratchpad;
};

Prepared prepare(const MatmulShape& s, const TypedOperand& a, const TypedOperand& b, bool add, bool with_bias,
                 const TypedOperand& c) {
  Prepared prepared{.primitive = {},
                    .a = matrix(s.m, s.k, a),
                    .b = matrix(s.k, s.n, b),
                    .bias = with_bias ? Description({1, s.n}, dnnl::memory::data_type::f32, dnnl::memory::dims{s.n, 1})
                                      : Description(),
                    .c = matrix(s.m, s.n, c),
                    .scratchpad = {}};
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (add) {
    dnnl::post_ops sum;
    sum.append_sum(1);
    attributes.set_post_ops(sum);
  }
  const dnnl::matmul::desc description = with_bias
                                             ? dnnl::matmul::desc(prepared.a, prepared.b, prepared.bias, prepared.c)
                                             : dnnl::matmul::desc(prepared.a, prepared.b, prepared.c);
  const dnnl::matmul::primitive_desc chosen(description, attributes, engine());
  prepared.scratchpad = chosen.scratchpad_desc();
  prepared.primitive = dnnl::matmul(chosen);
  return prepared;
}

/// A network has far fewer products than `bound`; a program with more starts over.
const Prepared& prepared(const MatmulShape& s, const TypedOperand& a, const TypedOperand& b, bool add, bool with_bias,
                         const TypedOperand& c) {
  constexpr std::size_t bound = 512;
  using Form = std::tuple<DType, std::int64_t, bool>;
  const auto form = [](const TypedOperand& of) { return Form{of.dtype, of.stride, of.transposed}; };
  thread_local std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, Form, Form, Form, bool, bool, int>,
                        Prepared>
      cache;
  const std::tuple key(s.m, s.n, s.k, form(a), form(b), form(c), add, with_bias, threads());
  const auto found = cache.find(key);
  if (found != cache.end()) return found->second;
  if (cache.size() == bound) cache.clear();
  return cache.emplace(key, prepare(s, a, b, add, with_bias, c)).first->second;
}

bool has(dnnl::cpu_isa wanted) {
  const auto bits = static_cast<unsigned>(wanted);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

}  // namespace

bool has_avx512() {
  static const bool found = has(dnnl::cpu_isa::avx512_core);
  return found;
}

Bf16Products bf16_products() {
  static const Bf16Products found = [] {
    if (has(dnnl::cpu_isa::avx512_core_amx)) return Bf16Products::tiles;
    return has(dnnl::cpu_isa::avx512_core_bf16) ? Bf16Products::vectors : Bf16Products::none;
  }();
  return found;
}

void matmul(const MatmulShape& shape, const TypedOperand& a, const TypedOperand& b, bool add, const Tensor& bias,
            const TypedOperand& c, Device device) {
  const Prepared& p = prepared(shape, a, b, add, bias.defined(), c);
  const Tensor scratchpad =
      Tensor::empty({static_cast<std::int64_t>(p.scratchpad.get_size())}, DType::u8, device, Purpose::workspace);
  if (device == Device::meta) return;
  std::unordered_map<int, dnnl::memory> arguments{{DNNL_ARG_SRC, {p.a, engine(), a.data}},
                                                  {DNNL_ARG_WEIGHTS, {p.b, engine(), b.data}},
                                                  {DNNL_ARG_DST, {p.c, engine(), c.data}},
                                                  {DNNL_ARG_SCRATCHPAD, {p.scratchpad, engine(), scratchpad.raw()}}};
  if (bias.defined()) arguments.emplace(DNNL_ARG_BIAS, dnnl::memory(p.bias, engine(), bias.raw()));
  p.primitive.execute(stream(), arguments);
  stream().wait();
}

}  // namespace lacuna::onednn
