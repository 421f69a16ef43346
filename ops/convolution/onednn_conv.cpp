#include "core/parallel.h"
#include "ops/convolution/conv_algorithms.h"
#include "ops/products/onednn.h"

#include <limits>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>

namespace lacuna::onednn {
namespace {

using Description = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
using Arguments = std::unordered_map<int, dnnl::memory>;

constexpr auto f32 = dnnl::memory::data_type::f32;

enum class Product : std::uint8_t { forward, gradient_of_input, gradient_of_weight };

/// A compiled convolution, and the layout of weights that it expects.
struct Prepared {
  dnnl::primitive primitive;
  dnnl::primitive reorder;  // of the weights, to or from the primitive's layout
  Description x, weight, y, scratchpad;
  bool same_layout;  // weights need no reorder
};

Description images_of(const ConvShape& s, bool output, DType dtype) {
  if (output) return {{s.images, s.outputs, s.out_height(), s.out_width()}, type_of(dtype), Tag::nhwc};
  return {{s.images, s.channels, s.height, s.width}, type_of(dtype), Tag::nhwc};
}

dnnl::memory::dims weight_extents(const ConvShape& s) {
  if (s.groups == 1) return {s.outputs, s.channels, s.kernel_height, s.kernel_width};
  return {s.groups, s.outputs / s.groups, s.channels / s.groups, s.kernel_height, s.kernel_width};
}

/// Weights [O, C / groups, KH, KW] as parameters hold them.
Description file_weights(const ConvShape& s) {
  return {weight_extents(s), f32, s.groups == 1 ? Tag::oihw : Tag::goihw};
}

dnnl::convolution_forward::primitive_desc describe_forward(const ConvShape& s, DType dtype, bool bias,
                                                           const dnnl::primitive_attr& attributes) {
  const Description x = images_of(s, false, dtype), y = images_of(s, true, dtype);
  const Description weight(weight_extents(s), type_of(dtype), Tag::any);
  const Description b = bias ? Description({s.outputs}, f32, Tag::a) : Description();
  const dnnl::memory::dims strides{s.stride, s.stride}, before{s.padding.top, s.padding.left},
      behind{s.padding.bottom, s.padding.right};
  return {{dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, x, weight, b, y, strides, before,
           behind},
          attributes,
          engine()};
}

/// oneDNN counts the elements of an image in 32 bits, and ends the process where they do not fit.
void check_image(std::int64_t height, std::int64_t width, std::int64_t channels) {
  if (height * width > std::numeric_limits<std::int32_t>::max() / channels)
    reject(
        "a convolution of an image of {}x{} with {} channels is larger than 2^31 elements: a smaller image, or a "
        "larger patch or stride, is needed",
        height, width, channels);
}

/// Images are of `dtype`, f32 or bf16; weights are reordered from f32, and their gradients summed and given in f32.
/// `add`: the reorder of a weight gradient accumulates into the result.
Prepared prepare(const ConvShape& s, DType dtype, Product product, bool bias, bool add) {
  check_image(s.height, s.width, s.channels);
  check_image(s.out_height(), s.out_width(), s.outputs);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto forward = describe_forward(s, dtype, bias, attributes);
  const Description any(weight_extents(s), product == Product::gradient_of_weight ? f32 : type_of(dtype), Tag::any);
  const Description files = file_weights(s), x = images_of(s, false, dtype), y = images_of(s, true, dtype);
  const dnnl::memory::dims strides{s.stride, s.stride}, before{s.padding.top, s.padding.left},
      behind{s.padding.bottom, s.padding.right};
  const auto finish = [&](const auto& description, const dnnl::primitive& primitive, const Description& weight) {
    Prepared prepared{.primitive = primitive,
                      .reorder = {},
                      .x = x,
                      .weight = weight,
                      .y = y,
                      .scratchpad = description.scratchpad_desc(),
                      .same_layout = weight == files && !add};
    if (!prepared.same_layout) {
      dnnl::primitive_attr adding;
      if (add) {
        dnnl::post_ops sum;
        sum.append_sum(1);
        adding.set_post_ops(sum);
      }
      const bool outwards = product == Product::gradient_of_weight;
      prepared.reorder =
          dnnl::reorder({engine(), outwards ? weight : files, engine(), outwards ? files : weight, adding});
    }
    return prepared;
  };
  switch (product) {
    case Product::forward:
      return finish(forward, dnnl::convolution_forward(forward), forward.weights_desc());
    case Product::gradient_of_input: {
      const dnnl::convolution_backward_data::primitive_desc backward(
          {dnnl::algorithm::convolution_direct, x, any, y, strides, before, behind}, attributes, engine(), forward);
      return finish(backward, dnnl::convolution_backward_data(backward), backward.weights_desc());
    }
    case Product::gradient_of_weight:
      break;
  }
  const dnnl::convolution_backward_weights::primitive_desc backward(
      {dnnl::algorithm::convolution_direct, x, any, y, strides, before, behind}, attributes, engine(), forward);
  return finish(backward, dnnl::convolution_backward_weights(backward), backward.diff_weights_desc());
}

/// Cache of prepared convolutions. A network has far fewer than `bound`; a program with more starts over.
const Prepared& prepared(const ConvShape& shape, DType dtype, Product product, bool bias, bool add) {
  constexpr std::size_t bound = 512;
  thread_local std::map<std::tuple<ConvShape, DType, Product, bool, bool, int>, Prepared> cache;
  const std::tuple key(shape, dtype, product, bias, add, threads());
  const auto found = cache.find(key);
  if (found != cache.end()) return found->second;
  if (cache.size() == bound) cache.clear();
  return cache.emplace(key, prepare(shape, dtype, product, bias, add)).first->second;
}

Tensor workspace(const Description& description, Device device) {
  return Tensor::empty({static_cast<std::int64_t>(description.get_size())}, DType::u8, device, Purpose::workspace);
}

dnnl::memory as_memory(const Description& description, const Tensor& tensor) {
  return {description, engine(), tensor.raw()};
}

void run(const dnnl::primitive& primitive, const Arguments& arguments) {
  primitive.execute(stream(), arguments);
  stream().wait();
}

/// Runs forward or the input gradient, after reordering the weights.
void run_with_weights(const ConvShape& shape, DType dtype, Product product, const Tensor& weight, const Tensor& bias,
                      Arguments&& images, Device device) {
  const Prepared& p = prepared(shape, dtype, product, bias.defined(), false);
  const Tensor reordered = p.same_layout ? weight : workspace(p.weight, device);
  const Tensor scratchpad = workspace(p.scratchpad, device);
  if (device == Device::meta) return;
  if (!p.same_layout)
    run(p.reorder,
        {{DNNL_ARG_FROM, as_memory(file_weights(shape), weight)}, {DNNL_ARG_TO, as_memory(p.weight, reordered)}});
  images.emplace(DNNL_ARG_WEIGHTS, as_memory(p.weight, reordered));
  images.emplace(DNNL_ARG_SCRATCHPAD, as_memory(p.scratchpad, scratchpad));
  if (bias.defined()) images.emplace(DNNL_ARG_BIAS, as_memory({{shape.outputs}, f32, Tag::a}, bias));
  run(p.primitive, images);
}

}  // namespace

void forward(const ConvShape& shape, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) {
  const DType dtype = x.dtype();
  run_with_weights(shape, dtype, Product::forward, weight, bias,
                   {{DNNL_ARG_SRC, as_memory(images_of(shape, false, dtype), x)},
                    {DNNL_ARG_DST, as_memory(images_of(shape, true, dtype), y)}},
                   y.device());
}

void gradient_of_input(const ConvShape& shape, const Tensor& dy, const Tensor& weight, const Tensor& dx, bool add) {
  const DType dtype = dy.dtype();
  const Tensor own = add ? Tensor::empty(dx.shape(), dtype, dx.device(), Purpose::workspace) : dx;
  run_with_weights(shape, dtype, Product::gradient_of_input, weight, {},
                   {{DNNL_ARG_DIFF_SRC, as_memory(images_of(shape, false, dtype), own)},
                    {DNNL_ARG_DIFF_DST, as_memory(images_of(shape, true, dtype), dy)}},
                   dx.device());
  if (!add || dx.device() == Device::meta) return;
  with_float_type(dtype, [&]<class T>(Type<T>) {
    map(
        dx.count(), [](auto a, auto b) { return a + b; }, dx.data<T>(), dx.data<T>(), own.data<T>());
  });
}

void gradient_of_weight(const ConvShape& shape, const Tensor& x, const Tensor& dy, const Tensor& dweight, bool add) {
  const Prepared& p = prepared(shape, dy.dtype(), Product::gradient_of_weight, false, add);
  const Tensor own = p.same_layout ? dweight : workspace(p.weight, dweight.device());
  const Tensor scratchpad = workspace(p.scratchpad, dweight.device());
  if (dweight.device() == Device::meta) return;
  run(p.primitive, {{DNNL_ARG_SRC, as_memory(p.x, x)},
                    {DNNL_ARG_DIFF_DST, as_memory(p.y, dy)},
                    {DNNL_ARG_DIFF_WEIGHTS, as_memory(p.weight, own)},
                    {DNNL_ARG_SCRATCHPAD, as_memory(p.scratchpad, scratchpad)}});
  if (!p.same_layout)
    run(p.reorder, {{DNNL_ARG_FROM, as_memory(p.weight, own)}, {DNNL_ARG_TO, as_memory(file_weights(shape), dweight)}});
}

}  // namespace lacuna::onednn
