#include "models/graphs/graph_model.h"

#include "nn/functional.h"
#include "nn/init.h"
#include "ops/graphs/graph_product.h"
#include "ops/products/dropout_linear.h"

#include <cmath>

namespace lacuna {

std::array<std::pair<std::string_view, GraphLibrary>, 2> names_of(GraphLibrary) {
  return {{{"cogdl", GraphLibrary::cogdl}, {"pyg", GraphLibrary::pyg}}};
}
std::array<std::pair<std::string_view, GraphNorm>, 3> names_of(GraphNorm) {
  return {{{"none", GraphNorm::none}, {"batchnorm", GraphNorm::batchnorm}, {"layernorm", GraphNorm::layernorm}}};
}

Fields GraphOptions::fields() {
  using G = GraphOptions;
  return {field("library", &G::library, "whose layers: cogdl (as GACT trained them) or pyg"),
          field("features", &G::features, extent_range,
                "numbers of each node; where it is not given as many as the data set has"),
          field("hidden", &G::hidden, extent_range, "width of the hidden layers, of each head"),
          field("layers", &G::layers, between(1, 4096), "layers"),
          field("num_classes", &G::num_classes, between(1, 1 << 24), fits_weights, "outputs of the head"),
          field("norm", &G::norm, "norm behind each hidden layer"),
          field("dropout", &G::dropout, rate_range, fits_weights, "dropout between the layers"),
          field("input_dropout", &G::input_dropout, rate_range, fits_weights, "dropout of the features")};
}

namespace {

/// Far above any graph's: data sets say their own.
constexpr std::int64_t most_rows = std::int64_t{1} << 31;

SampleFields inputs_of(std::int64_t features) {
  const SampleField of_nodes{.name = "features", .shape = {most_rows, features}, .collation = Collation::packed};
  SampleField degrees = of_nodes, sources = of_nodes;
  degrees.name = "degrees";
  degrees.dtype = DType::i32;
  degrees.shape = {most_rows};
  sources.name = "sources";
  sources.kind = FieldKind::edges;
  sources.dtype = DType::i32;
  sources.shape = {most_rows};
  sources.lengths = "edge_offsets";
  return {of_nodes, degrees, sources};
}

/// A tensor of the batch, undefined where it has none.
Tensor optional(const Inputs& inputs, std::string_view name) {
  return inputs.contains(name) ? inputs.at(name).tensor() : Tensor();
}

}  // namespace

GraphModel::GraphModel(const ModelContext& context, const GraphOptions& options, std::vector<std::string> heads)
    : Model(context,
            {.inputs = inputs_of(options.features), .num_classes = options.num_classes, .heads = std::move(heads)}),
      features_(options.features) {}

Outputs GraphModel::forward(Inputs inputs) {
  const Device device = context().device;
  const EdgeLists incoming{inputs.at("degrees").tensor(), inputs.at("sources").tensor()},
      outgoing{optional(inputs, "out_degrees"), optional(inputs, "targets")};
  GraphPtr graph = Graph::make(incoming, outgoing, optional(inputs, "weights"), device);
  const Variable features = inputs.take("features", device);
  inputs = {};
  if (features.shape().rank() != 2 || features.shape()[0] != graph->nodes() || features.shape()[1] != features_)
    reject("features: expected [{}, {}] (nodes, model.features), got {}", graph->nodes(), features_, features.shape());
  // Nodes lie as tokens do, behind an axis of batches: policies take a row a sample for something small.
  Tensor x = features.tensor().to(context().dtype).reshape({1, graph->nodes(), features_});
  Outputs outputs;
  outputs.set("logits", classify(Variable(std::move(x)), graph).reshape({graph->nodes(), num_classes()}));
  return outputs;
}

NormedActivation::NormedActivation(Module& parent, std::string_view name, std::int64_t channels, GraphNorm norm,
                                   Variable (*activation)(Variable))
    : activation_(activation) {
  if (norm == GraphNorm::batchnorm) batch_ = std::make_unique<nn::BatchNorm2d>(parent, name, channels);
  if (norm == GraphNorm::layernorm) layer_ = std::make_unique<nn::LayerNorm>(parent, name, channels, 1e-5);
}

Variable NormedActivation::forward(Variable x) const {
  if (batch_ && activation_ == &relu) return batch_->forward_relu(std::move(x));
  if (batch_) x = batch_->forward(std::move(x));
  return activation_(layer_ ? layer_->forward(std::move(x)) : std::move(x));
}

nn::LinearOptions thinned_linear(bool bias, Init weight) {
  return {.bias = bias, .init = {std::move(weight), {}}, .takes_few_bits = false};
}

Variable forward_thinned(const nn::Linear& linear, const nn::Dropout& dropout, Variable x) {
  if (dropout.current_rate() == 0 || linear.adapter() != nullptr) return linear.forward(dropout.forward(std::move(x)));
  Variable y = apply(DropoutLinear{.p = dropout.current_rate(), .stream = dropout.mask_stream()}, std::move(x),
                     linear.weight().variable());
  return linear.bias().defined() ? std::move(y) + linear.bias() : y;
}

Variable propagate(Variable x, const GraphPtr& graph) {
  return apply(GraphProduct{.graph = graph, .normalized = true}, std::move(x), Variable());
}

Init glorot(std::int64_t in, std::int64_t out) { return init::uniform(std::sqrt(6.0 / static_cast<double>(in + out))); }

std::shared_ptr<const TensorNames> library_names(std::string_view family) {
  static const auto names = std::make_shared<const TensorNames>(
      TensorNames{.base = "",
                  .body = {{.theirs = "attentions.*.W", .ours = "attentions.*.W.weight", .transposed = true},
                           {.theirs = "convs.*.weight1", .ours = "convs.*.weight1.weight", .transposed = true},
                           {.theirs = "convs.*.weight2", .ours = "convs.*.weight2.weight", .transposed = true},
                           {.theirs = "attentions.*.", .ours = "attentions.*."},
                           {.theirs = "convs.*.", .ours = "convs.*."},
                           {.theirs = "layers.*.", .ours = "layers.*."},
                           {.theirs = "fc_layers.*.", .ours = "fc_layers.*."},
                           {.theirs = "lins.*.", .ours = "lins.*."}}});
  return family == "gcn" || family == "gat" || family == "gcnii" ? names : nullptr;
}

}  // namespace lacuna
