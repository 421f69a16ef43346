// Graphs as GraphSAINT publishes them (Zeng et al. 2020): Flickr, Reddit, Yelp. A folder with adj_full.npz (a CSR
// matrix of scipy), feats.npy, class_map.json and role.json.
#include "core/error.h"
#include "core/json.h"
#include "data/files/arrays.h"
#include "data/files/input_file.h"
#include "data/graphs/graph_files.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

Arcs read_matrix(const fs::path& file, std::int64_t nodes) {
  const std::map<std::string, NumpyArray> arrays = read_npz(file);
  if (!arrays.contains("indptr") || !arrays.contains("indices"))
    reject("{}: expected a matrix that scipy.sparse.save_npz has written as CSR", file.string());
  if (const auto format = arrays.find("format"); format != arrays.end() && !format->second.bytes.starts_with("csr"))
    reject("{}: expected a matrix of the format csr, got {}: scipy.sparse.save_npz(FILE, matrix.tocsr())",
           file.string(), format->second.bytes);
  const std::vector<std::int64_t> starts = arrays.at("indptr").whole_numbers();
  Arcs arcs;
  arcs.from = arrays.at("indices").node_numbers();
  if (std::ssize(starts) != nodes + 1)
    reject("{}: expected {} rows, one for each row of feats.npy, got {}", file.string(), nodes, std::ssize(starts) - 1);
  if (starts.front() != 0 || starts.back() != arcs.count() || !std::ranges::is_sorted(starts))
    reject("{}: indptr: expected ascending numbers from 0 to {}, the count of indices", file.string(), arcs.count());
  arcs.to.reserve(arcs.from.size());
  for (std::int64_t v = 0; v < nodes; ++v)
    arcs.to.insert(
        arcs.to.end(),
        static_cast<std::size_t>(starts[static_cast<std::size_t>(v) + 1] - starts[static_cast<std::size_t>(v)]),
        static_cast<std::int32_t>(v));
  return arcs;
}

/// Which nodes have several labels, [V]; empty where each has one class.
std::vector<bool> read_saint_labels(const fs::path& file, std::int64_t nodes, NodeGraph& graph) {
  const nlohmann::json map = parse_json(read_text(file, most_graph_bytes), file.string());
  std::vector<std::int64_t> single(static_cast<std::size_t>(nodes), -1);
  bool has_single = false;
  std::vector<bool> labelled;
  for (const auto& [key, value] : map.items()) {
    const std::int64_t node = whole_number_of(key, file.string(), 1);
    if (node < 0 || node >= nodes) reject("{}: expected nodes 0 to {}, got \"{}\"", file.string(), nodes - 1, key);
    if (value.is_number_integer() && !graph.labels.defined()) {
      single[static_cast<std::size_t>(node)] = value.get<std::int64_t>();
      has_single = true;
      continue;
    }
    if (!value.is_array() || value.empty() || has_single ||
        (graph.labels.defined() && graph.labels.shape()[1] != std::ssize(value)))
      reject("{}: node {}: expected a class, or as many zeros and ones as other nodes have, got {}", file.string(),
             node, value.dump());
    if (!graph.labels.defined()) {
      graph.labels = Tensor::zeros({nodes, std::ssize(value)}, DType::f32, Device::cpu, Purpose::data);
      labelled.resize(static_cast<std::size_t>(nodes));
    }
    labelled[static_cast<std::size_t>(node)] = true;
    for (std::size_t c = 0; c < value.size(); ++c) {
      if (value[c] != 0 && value[c] != 1)
        reject("{}: node {}: expected zeros and ones, got {}", file.string(), node, value[c].dump());
      graph.labels.data<float>()[node * std::ssize(value) + static_cast<std::int64_t>(c)] = value[c] == 1 ? 1.0F : 0.0F;
    }
  }
  if (graph.labels.defined())
    graph.classes = numbered_classes(graph.labels.shape()[1]);
  else
    set_labels(single, file.string(), graph);
  return labelled;
}

std::shared_ptr<const NodeGraph> read_saint(const fs::path& folder, const GraphFileOptions& options) {
  auto graph = std::make_shared<NodeGraph>();
  const NumpyArray features = read_npy(folder / "feats.npy");
  if (features.shape.size() != 2) reject("{}: expected [nodes, features]", features.origin);
  graph->features = features.floats();
  const std::int64_t nodes = features.shape[0];
  const auto edges = [&](const char* name) {
    const fs::path file = folder / name;
    return edges_of(read_matrix(file, nodes), nodes, options.undirected, file.string());
  };
  graph->edges = edges("adj_full.npz");
  if (options.inductive) graph->training_edges = edges("adj_train.npz");
  const fs::path classes = folder / "class_map.json";
  const std::vector<bool> labelled = read_saint_labels(classes, nodes, *graph);
  const fs::path roles = folder / "role.json";
  const nlohmann::json role = parse_json(read_text(roles, most_graph_bytes), roles.string());
  graph->split.resize(static_cast<std::size_t>(nodes));
  for (const auto& [key, split] :
       {std::pair{"tr", NodeSplit::train}, std::pair{"va", NodeSplit::val}, std::pair{"te", NodeSplit::test}}) {
    if (!role.is_object() || !role.contains(key) || !role[key].is_array())
      reject("{}: expected a list of nodes `{}`", roles.string(), key);
    for (const nlohmann::json& node : role[key]) {
      if (!node.is_number_integer() || node < 0 || node >= nodes)
        reject("{}: `{}`: expected nodes 0 to {}, got {}", roles.string(), key, nodes - 1, node.dump());
      const auto number = node.get<std::int64_t>();
      if (!labelled.empty() && !labelled[static_cast<std::size_t>(number)])
        reject("{}: expected labels of node {}, which `{}` of role.json lists, got none", classes.string(), number,
               key);
      put_into(split, number, roles.string(), *graph);
    }
  }
  standardize(options.standardize, *graph);
  return graph;
}

constexpr std::string_view saint_name = "graphsaint", saint_file = "adj_full.npz";
const RegisterDataset graphsaint(saint_name, graph_files<saint_name, saint_file, read_saint>());

}  // namespace
}  // namespace lacuna
