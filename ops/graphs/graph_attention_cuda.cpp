#include "ops/graphs/graph_attention_cuda.h"

#include "core/backend.h"
#include "core/planned_device.h"
#include "ops/cuda/block_sums.h"
#include "ops/graphs/graph_attention_kernels.h"
#include "ops/graphs/graph_on_cuda.h"

namespace lacuna {
namespace {

cuda::GraphAttentionCall call_of(const EdgeAttention& how, const Neighbours& of, const NodeScores& scores,
                                 const Tensor& h) {
  return {.of = on_device(of),
          .targets = scores.targets.data<const float>(),
          .sources = scores.sources.data<const float>(),
          .normalizers = scores.normalizers.data<float>(),
          .h = h.data<const std::byte>(),
          .dy = nullptr,
          .y = nullptr,
          .dscores = nullptr,
          .means = nullptr,
          .partial = nullptr,
          .extremes = nullptr,
          .terms = nullptr,
          .partial_dscores = nullptr,
          .heads = how.heads,
          .size = h.shape().back() / how.heads,
          .slope = static_cast<float>(how.slope),
          .kept_scale = static_cast<float>(how.kept_scale),
          .dropped_below = how.dropped_below,
          .stream = how.stream};
}

const RegisterKernel cuda_forward{graph_attention_forward,
                                  {DeviceKind::cuda, DeviceKind::meta},
                                  [](const EdgeAttention& how, const Neighbours& incoming, const NodeScores& scores,
                                     const Tensor& h, const Tensor& y) {
                                    const Tensor partial = for_pieces(incoming, y.shape().back()),
                                                 extremes = for_pieces(incoming, 2 * how.heads);
                                    if (y.device() == Device::meta) return;
                                    cuda::GraphAttentionCall call = call_of(how, incoming, scores, h);
                                    call.y = y.raw();
                                    call.partial = pointer<float>(partial);
                                    call.extremes = pointer<float>(extremes);
                                    cuda::attend_to_neighbours(stream_of(y.device()), y.dtype(), call);
                                  }};
const RegisterKernel cuda_by_target{graph_attention_by_target,
                                    {DeviceKind::cuda, DeviceKind::meta},
                                    [](const EdgeAttention& how, const Neighbours& incoming, const NodeScores& scores,
                                       const Tensor& h, const Tensor& dy, const Tensor& dtargets, const Tensor& means) {
                                      const Tensor terms = for_pieces(incoming, 4 * how.heads, DType::f64);
                                      if (dy.device() == Device::meta) return;
                                      cuda::GraphAttentionCall call = call_of(how, incoming, scores, h);
                                      call.dy = dy.data<const std::byte>();
                                      call.dscores = dtargets.data<float>();
                                      call.means = means.data<float>();
                                      call.terms = pointer<double>(terms);
                                      cuda::attention_by_target(stream_of(dy.device()), dy.dtype(), call);
                                    }};
const RegisterKernel cuda_by_source{
    graph_attention_by_source,
    {DeviceKind::cuda, DeviceKind::meta},
    [](const EdgeAttention& how, const Neighbours& outgoing, const NodeScores& scores, const Tensor& h,
       const Tensor& dy, const Tensor& means, const Tensor& dsources, const Tensor& dh) {
      const Tensor partial = dh.defined() ? for_pieces(outgoing, dh.shape().back()) : Tensor(),
                   partial_dscores = for_pieces(outgoing, how.heads);
      if (dy.device() == Device::meta) return;
      cuda::GraphAttentionCall call = call_of(how, outgoing, scores, h);
      call.dy = dy.data<const std::byte>();
      call.y = dh.defined() ? dh.raw() : nullptr;
      call.dscores = dsources.data<float>();
      call.means = means.data<float>();
      call.partial = pointer<float>(partial);
      call.partial_dscores = pointer<float>(partial_dscores);
      cuda::attention_by_source(stream_of(dy.device()), dy.dtype(), call);
    }};

cuda::NodeScoreCall scores_of(std::int64_t heads, const Tensor& of_nodes, const Tensor& scores) {
  return {.h = nullptr,
          .dh = nullptr,
          .vector = nullptr,
          .scores = scores.data<float>(),
          .partial = nullptr,
          .nodes = of_nodes.rows(),
          .heads = heads,
          .size = of_nodes.shape().back() / heads,
          .parts = 0};
}

const RegisterKernel cuda_scores{node_scores, DeviceKind::cuda,
                                 [](std::int64_t heads, const Tensor& h, const Tensor& vector, const Tensor& scores) {
                                   cuda::NodeScoreCall call = scores_of(heads, h, scores);
                                   call.h = h.data<const std::byte>();
                                   call.vector = vector.data<const float>();
                                   cuda::make_node_scores(stream_of(h.device()), h.dtype(), call);
                                 }};
const RegisterKernel cuda_input_gradient{
    node_scores_input_gradient, DeviceKind::cuda,
    [](std::int64_t heads, const Tensor& dscores, const Tensor& vector, const Tensor& dh) {
      cuda::NodeScoreCall call = scores_of(heads, dh, dscores);
      call.dh = dh.raw();
      call.vector = vector.data<const float>();
      cuda::add_scored_vector(stream_of(dh.device()), dh.dtype(), call);
    }};
const RegisterKernel cuda_vector_gradient{
    node_scores_vector_gradient,
    {DeviceKind::cuda, DeviceKind::meta},
    [](std::int64_t heads, const Tensor& dscores, const Tensor& h, const Tensor& dvector) {
      if (!computes_on_cuda(h.device())) return;
      const std::int64_t width = h.shape().back(),
                         parts = std::max<std::int64_t>(1, std::min<std::int64_t>(h.rows(), 528));
      const Tensor partial = Tensor::empty({parts, width}, DType::f32, h.device(), Purpose::workspace);
      if (h.device() == Device::meta) return;
      cuda::NodeScoreCall call = scores_of(heads, h, dscores);
      call.h = h.data<const std::byte>();
      call.parts = parts;
      call.partial = partial.data<float>();
      const Stream stream = stream_of(h.device());
      cuda::sum_scored_rows(stream, h.dtype(), call);
      cuda::add_block_sums(stream, {.partial = call.partial,
                                    .to = dvector.data<float>(),
                                    .blocks = call.parts,
                                    .stride = width,
                                    .count = width});
    }};

}  // namespace
}  // namespace lacuna
