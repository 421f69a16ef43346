// Graph attention networks (Veličković et al. 2018).
#include "core/error.h"
#include "models/graphs/graph_model.h"
#include "nn/functional.h"
#include "nn/init.h"
#include "ops/graphs/graph_attention.h"

#include <fmt/format.h>

#include <cmath>
#include <deque>

namespace lacuna {
namespace {

struct GatOptions : GraphOptions {
  std::int64_t heads = 3;
  bool residual = true;
  double attention_dropout = 0.1;

  static Fields fields() {
    using G = GatOptions;
    return rows_of_base<G, GraphOptions>() +
           Fields{field("heads", &G::heads, between(1, 1024), "attention heads of the hidden layers; the last has one"),
                  field("residual", &G::residual, "cogdl: a linear layer beside the attention of hidden layers"),
                  field("attention_dropout", &G::attention_dropout, rate_range, fits_weights,
                        "dropout of the attention's weights")};
  }
  void check(HyperProblems& problems) const {
    if (hidden * heads > largest_extent)
      problems.add("heads", fmt::format("`hidden` of {} for each of {} `heads`: expected at most {} together", hidden,
                                        heads, largest_extent));
  }
};

struct GatLayerOptions {
  std::int64_t in, out, heads;  // out: of each head
  bool residual;
  double dropout, attention_dropout;
  GraphLibrary library;
};

class GatLayer final : public Module {
 public:
  GatLayer(Module& parent, std::string_view name, const GatLayerOptions& options)
      : Module(parent, name),
        heads_(options.heads),
        is_pyg_(options.library == GraphLibrary::pyg),
        dropout_(*this, "dropout", options.dropout),
        linear_(*this, is_pyg_ ? "lin" : "W", options.in, options.heads * options.out,
                thinned_linear(false, glorot(options.in, options.heads * options.out))),
        to_(*this, is_pyg_ ? "att_dst" : "a_l", {1, options.heads, options.out}, glorot(options.heads, options.out)),
        from_(*this, is_pyg_ ? "att_src" : "a_r", {1, options.heads, options.out}, glorot(options.heads, options.out)),
        attention_dropout_(*this, "attention_dropout", options.attention_dropout) {
    const std::int64_t width = options.heads * options.out;
    if (options.residual) residual_.emplace(*this, "residual", options.in, width, thinned_linear(true));
    if (is_pyg_) bias_.emplace(*this, "bias", Shape{width}, init::constant(0));
    set_role(Role::block);
  }

  Variable forward(Variable x, const GraphPtr& graph) const {
    const Scope scope(*this);
    // An adapter saves its thinned input: both layers then share one.
    const bool shares = residual_ && (linear_.adapter() != nullptr || residual_->adapter() != nullptr);
    if (shares) x = dropout_.forward(std::move(x));
    const auto map = [&](const nn::Linear& linear, Variable in) {
      return shares ? linear.forward(std::move(in)) : forward_thinned(linear, dropout_, std::move(in));
    };
    Variable h = map(linear_, x);
    Variable beside;
    if (residual_) beside = map(*residual_, std::move(x));
    x = {};
    h = apply(GraphAttention{.graph = graph,
                             .heads = heads_,
                             .dropout = attention_dropout_.current_rate(),
                             .stream = attention_dropout_.mask_stream()},
              std::move(h), to_.variable(), from_.variable());
    if (bias_) return std::move(h) + bias_->variable();
    return residual_ ? std::move(h) + std::move(beside) : h;
  }

 private:
  std::int64_t heads_;
  bool is_pyg_;
  nn::Dropout dropout_;
  nn::Linear linear_;
  Parameter to_, from_;
  nn::Dropout attention_dropout_;
  std::optional<nn::Linear> residual_;
  std::optional<Parameter> bias_;
};

class Gat final : public GraphModel {
 public:
  Gat(const ModelContext& context, const GatOptions& options)
      : GraphModel(context, options, {fmt::format("{}.{}", layers_of(options), options.layers - 1)}) {
    const bool is_pyg = options.library == GraphLibrary::pyg;
    const std::int64_t wide = options.hidden * options.heads;
    for (std::int64_t i = 0; i < options.layers; ++i) {
      const bool last = i + 1 == options.layers;
      layers_.emplace_back(*this, fmt::format("{}.{}", layers_of(options), i),
                           GatLayerOptions{.in = i == 0 ? options.features : wide,
                                           .out = last ? options.num_classes : options.hidden,
                                           .heads = last ? 1 : options.heads,
                                           .residual = options.residual && !is_pyg && !last,
                                           .dropout = i == 0 ? options.input_dropout : options.dropout,
                                           .attention_dropout = options.attention_dropout,
                                           .library = options.library});
      if (!last) activations_.emplace_back(layers_.back(), "norm", wide, options.norm, is_pyg ? elu : relu);
    }
  }

 private:
  static std::string_view layers_of(const GatOptions& options) {
    return options.library == GraphLibrary::pyg ? "convs" : "attentions";
  }

  Variable classify(Variable x, const GraphPtr& graph) override {
    if (graph->weights().defined())
      reject("gat: expected edges without weights, which its attention does not read; gcn and gcnii do");
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      x = layers_[i].forward(std::move(x), graph);
      if (i + 1 < layers_.size()) x = activations_[i].forward(std::move(x));
    }
    return x;
  }

  std::deque<GatLayer> layers_;
  std::deque<NormedActivation> activations_;
};

const RegisterFamily<Gat, GatOptions> gat("gat", "random_graph", "", "node_classification");

}  // namespace
}  // namespace lacuna
