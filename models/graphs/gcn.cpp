// Graph convolutional networks (Kipf and Welling 2017): layers of Â · x · W.
#include "models/graphs/graph_model.h"
#include "nn/functional.h"
#include "nn/init.h"

#include <fmt/format.h>

#include <deque>

namespace lacuna {
namespace {

/// Â(x · Wᵀ + b) as in CogDL, Â(x · Wᵀ) + b as in PyG: a bias before the product is summed with the weights of edges.
class GcnLayer final : public Module {
 public:
  GcnLayer(Module& parent, std::string_view name, std::int64_t in, std::int64_t out, double dropout,
           GraphLibrary library)
      : Module(parent, name),
        dropout_(*this, "dropout", dropout),
        linear_(
            *this, library == GraphLibrary::cogdl ? "linear" : "lin", in, out,
            thinned_linear(library == GraphLibrary::cogdl, library == GraphLibrary::pyg ? glorot(in, out) : Init())) {
    if (library == GraphLibrary::pyg) bias_.emplace(*this, "bias", Shape{out}, init::constant(0));
    set_role(Role::block);
  }

  Variable forward(Variable x, const GraphPtr& graph) const {
    const Scope scope(*this);
    x = propagate(forward_thinned(linear_, dropout_, std::move(x)), graph);
    return bias_ ? std::move(x) + bias_->variable() : x;
  }

 private:
  nn::Dropout dropout_;
  nn::Linear linear_;
  std::optional<Parameter> bias_;
};

class Gcn final : public GraphModel {
 public:
  Gcn(const ModelContext& context, const GraphOptions& options) : GraphModel(context, options, {head_of(options)}) {
    const bool is_pyg = options.library == GraphLibrary::pyg;
    for (std::int64_t i = 0; i < options.layers; ++i) {
      const std::int64_t in = i == 0 ? options.features : options.hidden;
      const bool last = i + 1 == options.layers;
      const std::string name = fmt::format("{}.{}", is_pyg ? "convs" : "layers", i);
      layers_.emplace_back(*this, name, in, last ? options.num_classes : options.hidden,
                           i == 0 ? options.input_dropout : options.dropout, options.library);
      if (!last) norms_.emplace_back(layers_.back(), "norm", options.hidden, options.norm, relu);
    }
  }

 private:
  static std::string head_of(const GraphOptions& options) {
    return options.library == GraphLibrary::pyg ? fmt::format("convs.{}", options.layers - 1)
                                                : fmt::format("layers.{}.linear", options.layers - 1);
  }

  Variable classify(Variable x, const GraphPtr& graph) override {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      x = layers_[i].forward(std::move(x), graph);
      if (i + 1 < layers_.size()) x = norms_[i].forward(std::move(x));
    }
    return x;
  }

  std::deque<GcnLayer> layers_;
  std::deque<NormedActivation> norms_;
};

const RegisterFamily<Gcn, GraphOptions> gcn("gcn", "random_graph", "", "node_classification");

}  // namespace
}  // namespace lacuna
