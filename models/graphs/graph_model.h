// The parts that graph networks share: options, inputs, and how a batch becomes a graph.
#pragma once

#include "models/hyper_parameters.h"
#include "models/io/tensor_names.h"
#include "models/model.h"
#include "models/registry.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "ops/graphs/graph.h"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lacuna {

/// Whose layers a model has: CogDL's, which GACT's authors trained, or PyTorch Geometric's.
enum class GraphLibrary : std::uint8_t { cogdl, pyg };
std::array<std::pair<std::string_view, GraphLibrary>, 2> names_of(GraphLibrary);

enum class GraphNorm : std::uint8_t { none, batchnorm, layernorm };
std::array<std::pair<std::string_view, GraphNorm>, 3> names_of(GraphNorm);

struct GraphOptions {
  GraphLibrary library = GraphLibrary::cogdl;
  std::int64_t features = 128, hidden = 256, layers = 3, num_classes = 40;
  GraphNorm norm = GraphNorm::batchnorm;
  double dropout = 0.5, input_dropout = 0;

  static Fields fields();
  void check(HyperProblems& /*problems*/) const {}
};

/// Tensors of each node to classes of each node.
///
/// Inputs: `features` f32 [V, F]; the edges by the node that they end in, `degrees` i32 [V] and `sources` i32 [E]; for
/// directed graphs also by the node that they come from, `out_degrees` i32 [V] and `targets` i32 [E]; `weights` f32
/// [E], of the former, if edges have any. Every node has a loop (data/graphs). Output `logits` [V, C].
class GraphModel : public Model {
 public:
  GraphModel(const ModelContext& context, const GraphOptions& options, std::vector<std::string> heads);
  Outputs forward(Inputs inputs) final;

 private:
  /// x [1, V, F] to [1, V, C].
  virtual Variable classify(Variable x, const GraphPtr& graph) = 0;

  std::int64_t features_;
};

/// A norm of nodes [1, V, C], or none, and an activation.
class NormedActivation {
 public:
  NormedActivation(Module& parent, std::string_view name, std::int64_t channels, GraphNorm norm,
                   Variable (*activation)(Variable));
  Variable forward(Variable x) const;

 private:
  Variable (*activation_)(Variable);
  std::unique_ptr<nn::BatchNorm2d> batch_;
  std::unique_ptr<nn::LayerNorm> layer_;
};

/// A linear layer of graph networks: its input may be thinned.
nn::LinearOptions thinned_linear(bool bias, Init weight = {});
/// linear(dropout(x)), of which backward reads x: what a norm and an activation made, and make again. With an adapter
/// the thinned input is saved.
Variable forward_thinned(const nn::Linear& linear, const nn::Dropout& dropout, Variable x);

/// D^-1/2 · A · D^-1/2 · x.
Variable propagate(Variable x, const GraphPtr& graph);

/// Uniform with variance 2 / (in + out) (Glorot and Bengio 2010).
Init glorot(std::int64_t in, std::int64_t out);

/// The names that a graph network's tensors have in its library; null for other families.
std::shared_ptr<const TensorNames> library_names(std::string_view family);

}  // namespace lacuna
