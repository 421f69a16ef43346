// Deep graph convolutional networks with initial residual and identity mapping, GCNII (Chen et al. 2020).
#include "models/graphs/graph_model.h"
#include "nn/functional.h"

#include <fmt/format.h>

#include <cmath>
#include <deque>

namespace lacuna {
namespace {

struct GcniiOptions : GraphOptions {
  double alpha = 0.1, lambda = 0.5;
  bool residual = false, shared = true;

  GcniiOptions() {
    layers = 4;
    norm = GraphNorm::none;
  }
  static Fields fields() {
    using G = GcniiOptions;
    return rows_of_base<G, GraphOptions>() +
           Fields{field("alpha", &G::alpha, up_to(1), "share of the first layer's output in each layer's input"),
                  field("lambda", &G::lambda, "strength of the weights: layer i has log(lambda / i + 1) of them"),
                  field("residual", &G::residual, "cogdl: adds the input of each layer"),
                  field("shared", &G::shared, "pyg: one weight for neighbours and the first layer's output")};
  }
  void check(HyperProblems& problems) const {
    if (norm != GraphNorm::none) problems.add("norm", "`norm`: gcnii has none, expected none");
    if (library == GraphLibrary::cogdl && !shared) problems.add("shared", "`shared`: of false expects `library` pyg");
    if (library == GraphLibrary::pyg && residual)
      problems.add("residual", "`residual`: of true expects `library` cogdl");
  }
};

/// (1 - β) s + β · s · W with s = (1 - α) · Â · x + α · first.
class GcniiLayer final : public Module {
 public:
  GcniiLayer(Module& parent, std::string_view name, const GcniiOptions& options, std::int64_t number)
      : Module(parent, name),
        alpha_(options.alpha),
        beta_(std::log(options.lambda / static_cast<double>(number) + 1)),
        residual_(options.residual && options.library == GraphLibrary::cogdl),
        linear_(
            *this, options.library == GraphLibrary::pyg ? "weight1" : "linear", options.hidden, options.hidden,
            {.bias = options.library == GraphLibrary::cogdl,
             .init = {options.library == GraphLibrary::pyg ? glorot(options.hidden, options.hidden) : Init(), {}}}) {
    if (options.library == GraphLibrary::pyg && !options.shared)
      of_first_.emplace(*this, "weight2", options.hidden, options.hidden,
                        nn::LinearOptions{.bias = false, .init = {glorot(options.hidden, options.hidden), {}}});
    set_role(Role::block);
  }

  Variable forward(Variable x, Variable first, const GraphPtr& graph) const {
    const Scope scope(*this);
    Variable y = (1 - alpha_) * propagate(x, graph);
    if (!residual_) x = {};
    if (of_first_) {
      y = mapped(std::move(y), linear_) + alpha_ * mapped(std::move(first), *of_first_);
    } else {
      y = mapped(std::move(y) + alpha_ * std::move(first), linear_);
    }
    return relu(residual_ ? std::move(y) + std::move(x) : std::move(y));
  }

 private:
  Variable mapped(Variable s, const nn::Linear& weight) const {
    Variable mixed = beta_ * weight.forward(s);
    return std::move(mixed) + (1 - beta_) * std::move(s);
  }

  double alpha_, beta_;
  bool residual_;
  nn::Linear linear_;
  std::optional<nn::Linear> of_first_;
};

class Gcnii final : public GraphModel {
 public:
  Gcnii(const ModelContext& context, const GcniiOptions& options)
      : GraphModel(context, options, {ends(options) + ".1"}),
        input_dropout_(*this, "input_dropout", options.input_dropout),
        first_(*this, ends(options) + ".0", options.features, options.hidden, thinned_linear(true)),
        last_(*this, ends(options) + ".1", options.hidden, options.num_classes, thinned_linear(true)),
        last_dropout_(*this, "last_dropout", options.dropout) {
    for (std::int64_t i = 0; i < options.layers; ++i) {
      layers_.emplace_back(*this, fmt::format("{}.{}", options.library == GraphLibrary::pyg ? "convs" : "layers", i),
                           options, i + 1);
      dropouts_.emplace_back(layers_.back(), "dropout", options.dropout);
    }
  }

 private:
  static std::string ends(const GcniiOptions& options) {
    return options.library == GraphLibrary::pyg ? "lins" : "fc_layers";
  }

  Variable classify(Variable x, const GraphPtr& graph) override {
    const Variable first = relu(forward_thinned(first_, input_dropout_, std::move(x)));
    Variable h = first;
    for (std::size_t i = 0; i < layers_.size(); ++i)
      h = layers_[i].forward(dropouts_[i].forward(std::move(h)), first, graph);
    return forward_thinned(last_, last_dropout_, std::move(h));
  }

  nn::Dropout input_dropout_;
  nn::Linear first_, last_;
  nn::Dropout last_dropout_;
  std::deque<GcniiLayer> layers_;
  std::deque<nn::Dropout> dropouts_;
};

const RegisterFamily<Gcnii, GcniiOptions> gcnii("gcnii", "random_graph", "", "node_classification");

}  // namespace
}  // namespace lacuna
