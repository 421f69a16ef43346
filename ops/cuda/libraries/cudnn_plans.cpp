#include "ops/cuda/libraries/cudnn.h"

#include "core/error.h"

#include <cudnn_frontend.h>

#include <optional>
#include <unordered_map>

namespace lacuna::cuda {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using fe::graph::Tensor_attributes;
using TensorPtr = std::shared_ptr<Tensor_attributes>;

fe::DataType_t type_of(DType dtype) { return dtype == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF; }

/// A graph and its tensors, those of the plan's pointers in order.
struct Built {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::vector<TensorPtr> tensors{};

  explicit Built(DType dtype) {
    graph->set_io_data_type(type_of(dtype))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }
  TensorPtr input(const char* name, const std::vector<std::int64_t>& extents,
                  const std::vector<std::int64_t>& strides) {
    tensors.push_back(graph->tensor(Tensor_attributes().set_name(name).set_dim(extents).set_stride(strides)));
    return tensors.back();
  }
  void output(const TensorPtr& tensor, const std::vector<std::int64_t>& extents,
              const std::vector<std::int64_t>& strides) {
    tensor->set_output(true).set_dim(extents).set_stride(strides);
    tensors.push_back(tensor);
  }
};

using Extents = std::vector<std::int64_t>;
/// cuDNN names extents [N, C, H, W]; images lie as [N, H, W, C].
Extents extents(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) { return {n, c, h, w}; }
Extents strides(std::int64_t h, std::int64_t w, std::int64_t c) { return {h * w * c, 1, w * c, c}; }

template <class Attributes>
Attributes windows(const ConvShape& s) {
  return Attributes()
      .set_padding({s.padding.top, s.padding.left})
      .set_stride({s.stride, s.stride})
      .set_dilation({1, 1});
}

Built built(const Convolution& what) {
  Built b(what.dtype);
  const ConvShape& s = what.shape;
  const std::int64_t of_group = s.channels / s.groups;
  const Extents x = extents(s.images, s.height, s.width, s.channels),
                x_strides = strides(s.height, s.width, s.channels),
                y = extents(s.images, s.out_height(), s.out_width(), s.outputs),
                y_strides = strides(s.out_height(), s.out_width(), s.outputs),
                w = extents(s.outputs, s.kernel_height, s.kernel_width, of_group),
                w_strides = strides(s.kernel_height, s.kernel_width, of_group);
  switch (what.pass) {
    case ConvolutionPass::forward: {
      const TensorPtr in = b.input("x", x, x_strides), weights = b.input("weights", w, w_strides);
      b.output(b.graph->conv_fprop(in, weights, windows<fe::graph::Conv_fprop_attributes>(s)), y, y_strides);
      break;
    }
    case ConvolutionPass::input_gradient: {
      const TensorPtr dy = b.input("dy", y, y_strides), weights = b.input("weights", w, w_strides);
      b.output(b.graph->conv_dgrad(dy, weights, windows<fe::graph::Conv_dgrad_attributes>(s)), x, x_strides);
      break;
    }
    case ConvolutionPass::weight_gradient: {
      const TensorPtr dy = b.input("dy", y, y_strides), in = b.input("x", x, x_strides);
      b.output(b.graph->conv_wgrad(dy, in, windows<fe::graph::Conv_wgrad_attributes>(s)), w, w_strides);
    }
  }
  return b;
}

/// Attention's inputs beside its tokens, in the order of the plan's pointers behind all others.
struct BesideTokens {
  TensorPtr query_lengths{}, key_lengths{}, query_offsets{}, key_offsets{}, mask{}, kept_scale{}, kept_share{};

  BesideTokens(Graph& graph, const DenseAttention& a) {
    const auto input = [&](const char* name, const Extents& extents, fe::DataType_t type) {
      Extents strides(4, 1);
      for (std::size_t i = 3; i > 0; --i) strides[i - 1] = strides[i] * extents[i];
      all.push_back(
          graph.tensor(Tensor_attributes().set_name(name).set_dim(extents).set_stride(strides).set_data_type(type)));
      return all.back();
    };
    if (a.rows != SampleRows::equal) {
      query_lengths = input("query lengths", {a.samples, 1, 1, 1}, fe::DataType_t::INT32);
      key_lengths = input("key lengths", {a.samples, 1, 1, 1}, fe::DataType_t::INT32);
    }
    if (a.rows == SampleRows::packed) {
      query_offsets = input("query offsets", {a.samples + 1, 1, 1, 1}, fe::DataType_t::INT32);
      key_offsets = input("key offsets", {a.samples + 1, 1, 1, 1}, fe::DataType_t::INT32);
    }
    if (!a.dropout) return;
    mask = input("mask", {a.samples, a.heads, a.queries, a.keys}, type_of(a.dtype));
    kept_scale = input("kept scale", {1, 1, 1, 1}, fe::DataType_t::FLOAT);
    if (a.backward) kept_share = input("kept share", {1, 1, 1, 1}, fe::DataType_t::FLOAT);
  }
  template <class Attributes>
  void describe(Attributes& attributes) const {
    if (query_lengths) attributes.set_padding_mask(true).set_seq_len_q(query_lengths).set_seq_len_kv(key_lengths);
  }

  std::vector<TensorPtr> all{};
};

Built built(const DenseAttention& a) {
  Built b(a.dtype);
  const BesideTokens beside(*b.graph, a);
  const std::int64_t d = a.head_dim;
  const Extents of_queries{a.samples, a.heads, a.queries, d}, of_keys{a.samples, a.kv_heads, a.keys, d},
      sums{a.samples, a.heads, a.queries, 1}, sums_strides{a.heads * a.queries, a.queries, 1, 1};
  // [samples, heads, rows, head_dim] as it lies
  const auto rows = [&](std::int64_t count, std::int64_t stride) { return Extents{count * stride, d, stride, 1}; };
  const auto packed = [](const TensorPtr& tokens, const TensorPtr& offsets) {
    if (offsets) tokens->set_ragged_offset(offsets);
    return tokens;
  };
  const auto queries = [&](const char* name, const Extents& strides) {
    return packed(b.input(name, of_queries, strides), beside.query_offsets);
  };
  const auto keys = [&](const char* name, std::int64_t stride) {
    return packed(b.input(name, of_keys, rows(a.keys, stride)), beside.key_offsets);
  };
  const Extents y_strides = rows(a.queries, a.heads * d);
  const TensorPtr q = queries("q", rows(a.query_rows, a.q_stride)), k = keys("k", a.k_stride),
                  v = keys("v", a.v_stride);
  if (!a.backward) {
    auto attributes = fe::graph::SDPA_attributes()
                          .set_name("attention")
                          .set_generate_stats(true)
                          .set_attn_scale(a.scale)
                          .set_causal_mask(a.causal);
    beside.describe(attributes);
    if (a.dropout) attributes.set_dropout(beside.mask, beside.kept_scale);
    const auto [y, log_sums] = b.graph->sdpa(q, k, v, attributes);
    b.output(packed(y, beside.query_offsets), of_queries, y_strides);
    b.output(log_sums, sums, sums_strides);
    log_sums->set_data_type(fe::DataType_t::FLOAT);
  } else {
    const TensorPtr y = queries("y", y_strides), log_sums = b.input("log_sums", sums, sums_strides),
                    dy = queries("dy", y_strides);
    log_sums->set_data_type(fe::DataType_t::FLOAT);
    auto attributes = fe::graph::SDPA_backward_attributes()
                          .set_name("attention backward")
                          .set_attn_scale(a.scale)
                          .set_causal_mask(a.causal)
                          .set_deterministic_algorithm(true);
    beside.describe(attributes);
    if (a.dropout) attributes.set_dropout(beside.mask, beside.kept_scale, beside.kept_share);
    const auto [dq, dk, dv] = b.graph->sdpa_backward(q, k, v, y, dy, log_sums, attributes);
    b.output(packed(dq, beside.query_offsets), of_queries, rows(a.query_rows, a.dq_stride));
    b.output(packed(dk, beside.key_offsets), of_keys, rows(a.keys, a.dk_stride));
    b.output(packed(dv, beside.key_offsets), of_keys, rows(a.keys, a.dv_stride));
  }
  b.tensors.insert(b.tensors.end(), beside.all.begin(), beside.all.end());
  return b;
}

class Plan final : public CudnnPlan {
 public:
  Plan(Built built, std::int64_t workspace, std::int64_t most_workspace)
      : built_(std::move(built)), workspace_(workspace), most_workspace_(most_workspace) {}
  std::int64_t workspace() const override { return workspace_; }
  std::string name() const override { return index_ ? name_of(*index_) : first_name(); }
  std::vector<std::string> names(int most) override {
    const std::string current = name();
    std::vector<std::string> all;
    for (std::int64_t i = 0; i < built_.graph->get_execution_plan_count() && std::ssize(all) < most; ++i) {
      if (!workspace_at(i)) continue;
      all.push_back(name_of(i));
      if (!index_ && all.back() == current) index_ = i;  // the graph's own choice is the plan that it built last
    }
    return all;
  }
  bool take(const std::string& name) override {
    if (name == taken_) return true;
    if (!index_) names(1);
    for (std::int64_t i = 0; i < built_.graph->get_execution_plan_count(); ++i) {
      if (name_of(i) != name) continue;
      const auto workspace = workspace_at(i);
      if (!workspace) continue;
      index_ = i;
      workspace_ = *workspace;
      taken_ = name;
      return true;
    }
    return false;
  }
  void run(cudnnContext* handle, const std::vector<void*>& pointers, void* workspace) const override {
    std::unordered_map<std::int64_t, void*> of_tensors;
    for (std::size_t i = 0; i < built_.tensors.size(); ++i) of_tensors[built_.tensors[i]->get_uid()] = pointers.at(i);
    fe::error_t error = index_ ? built_.graph->execute_plan_at_index(handle, of_tensors, workspace, *index_)
                               : built_.graph->execute(handle, of_tensors, workspace);
    if (error.is_bad()) fail("cuDNN: {}", error.get_message());
  }

 private:
  std::string first_name() const {
    std::string name;
    return built_.graph->get_plan_name(name).is_good() ? name : "";
  }
  std::string name_of(std::int64_t index) const {
    std::string name;
    return built_.graph->get_plan_name_at_index(index, name).is_good() ? name : "";
  }
  /// Builds the plan, unless it is built. Nothing: it cannot be used.
  std::optional<std::int64_t> workspace_at(std::int64_t index) {
    std::int64_t workspace = 0;
    if (built_.graph->build_plan_at_index(index).is_bad() ||
        built_.graph->get_workspace_size_plan_at_index(index, workspace).is_bad() || workspace > most_workspace_)
      return {};
    return workspace;
  }

  Built built_;
  std::int64_t workspace_, most_workspace_;
  std::optional<std::int64_t> index_{};  // of the plan to run; nothing: the graph's own choice
  std::string taken_{};
};

/// The first plan of the heuristic, so that the same shapes have the same bits.
Planned planned(const PlanTarget& target, Built built, std::int64_t most_workspace) {
  Graph& graph = *built.graph;
  std::int64_t uid = 1;
  for (const TensorPtr& tensor : built.tensors) tensor->set_uid(uid++);
  if (target.handle == nullptr) {
    const std::vector<std::uint8_t> text(target.description.begin(), target.description.end());
    const auto device = std::make_shared<fe::DeviceProperties>();
    if (fe::error_t error = device->deserialize(text); error.is_bad()) return {.problem = error.get_message()};
    graph.set_device_properties(device);
  }
  fe::error_t error = graph.validate();
  if (error.is_good())
    error = target.handle != nullptr ? graph.build_operation_graph(target.handle) : graph.build_operation_graph();
  if (error.is_good()) error = graph.create_execution_plans({fe::HeurMode_t::A});
  // Filters the plans that exist by now.
  graph.deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC});
  graph.deselect_workspace_greater_than(most_workspace);  // of the engine alone
  if (error.is_good()) error = graph.check_support();
  if (error.is_good()) error = graph.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE);
  std::int64_t workspace = 0;
  if (error.is_good()) error = graph.get_workspace_size(workspace);
  if (error.is_bad()) return {.problem = error.get_message()};
  if (workspace > most_workspace)
    return {.problem = fmt::format("its plan takes {} bytes of workspace, more than {}", workspace, most_workspace)};
  return {.plan = std::make_unique<Plan>(std::move(built), workspace, most_workspace)};
}

}  // namespace

Planned plan_of(const PlanTarget& target, const Convolution& what) {
  return planned(target, built(what), library_workspace);
}
Planned plan_of(const PlanTarget& target, const DenseAttention& what) {
  return planned(target, built(what), workspace_for(what));
}

}  // namespace lacuna::cuda
