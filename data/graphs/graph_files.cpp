#include "data/graphs/graph_files.h"

#include "core/error.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace lacuna {

std::array<std::pair<std::string_view, Standardize>, 3> names_of(Standardize) {
  return {{{"none", Standardize::none}, {"train", Standardize::train}, {"all", Standardize::all}}};
}

Fields GraphFileOptions::fields() {
  using G = GraphFileOptions;
  return rows_of_base<G, NodeGraphOptions>() +
         Fields{
             field("undirected", &G::undirected, "adds the reverse of each edge"),
             field("inductive", &G::inductive,
                   "graphsaint: training sees the edges of adj_train.npz alone; evaluations see all"),
             field(
                 "standardize", &G::standardize,
                 "features get mean 0 and variance 1 over these nodes: GraphSAINT does it over train, CogDL over all")};
}

void for_csv_rows(std::string_view text,
                  const std::function<void(std::int64_t line, const std::vector<std::string_view>& cells)>& row) {
  constexpr std::string_view mark = "\xef\xbb\xbf";  // of UTF-8, as Excel writes it
  if (text.starts_with(mark)) text.remove_prefix(mark.size());
  std::vector<std::string_view> cells;
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    std::string_view record = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (record.ends_with('\r')) record.remove_suffix(1);
    if (record.empty()) continue;
    cells.clear();
    for (std::size_t comma = 0; comma != record.npos;) {
      comma = record.find(',');
      cells.push_back(record.substr(0, comma));
      if (comma != record.npos) record.remove_prefix(comma + 1);
    }
    row(line, cells);
  }
}

namespace {

template <class T>
T parsed(std::string_view cell, std::string_view expected, const std::string& file, std::int64_t line) {
  T value{};
  const auto [end, failed] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (failed != std::errc() || end != cell.data() + cell.size())
    reject("{}:{}: expected {}, got \"{}\"", file, line, expected, cell);
  return value;
}

}  // namespace

double number_of(std::string_view cell, const std::string& file, std::int64_t line) {
  const auto value = parsed<double>(cell, "a number", file, line);
  if (!(std::abs(value) <= std::numeric_limits<float>::max()))
    reject("{}:{}: expected a finite number of 32 bits, got \"{}\"", file, line, cell);
  return value;
}
std::int64_t whole_number_of(std::string_view cell, const std::string& file, std::int64_t line) {
  return parsed<std::int64_t>(cell, "a whole number", file, line);
}

void set_labels(const std::vector<std::int64_t>& labels, const std::string& file, NodeGraph& graph) {
  constexpr std::int64_t most = 1 << 20;
  std::int64_t classes = 0;
  for (std::size_t v = 0; v < labels.size(); ++v) {
    if (labels[v] >= most) reject("{}: node {}: expected a class below {}, got {}", file, v, most, labels[v]);
    classes = std::max(classes, labels[v] + 1);
  }
  graph.labels = Tensor::empty({std::ssize(labels)}, DType::i64, Device::cpu, Purpose::data);
  std::ranges::copy(labels, graph.labels.data<std::int64_t>());
  graph.classes = numbered_classes(classes);
}

namespace {

std::string_view name_of_split(NodeSplit split) { return names_of(split)[static_cast<std::size_t>(split)].first; }

}  // namespace

void put_into(NodeSplit split, std::int64_t node, const std::string& file, NodeGraph& graph) {
  NodeSplit& own = graph.split[static_cast<std::size_t>(node)];
  if (own != NodeSplit::none && own != split)
    reject("{}: node {} is in the split {} and in {}", file, node, name_of_split(own), name_of_split(split));
  own = split;
}

void standardize(Standardize over, NodeGraph& graph) {
  if (over == Standardize::none) return;
  const std::int64_t nodes = graph.features.shape()[0], width = graph.features.shape()[1];
  auto* const values = graph.features.data<float>();
  std::vector<double> sums(static_cast<std::size_t>(width)), squares(sums);
  std::int64_t count = 0;
  const auto for_nodes = [&](const auto& f) {
    for (std::int64_t v = 0; v < nodes; ++v)
      if (over == Standardize::all || graph.split[static_cast<std::size_t>(v)] == NodeSplit::train)
        f(values + v * width);
  };
  for_nodes([&](const float* row) {
    ++count;
    for (std::int64_t c = 0; c < width; ++c) sums[static_cast<std::size_t>(c)] += row[c];
  });
  if (count == 0) reject("data.standardize: expected nodes of the split train, got none");
  for (double& sum : sums) sum /= static_cast<double>(count);
  for_nodes([&](const float* row) {
    for (std::size_t c = 0; c < sums.size(); ++c) squares[c] += (row[c] - sums[c]) * (row[c] - sums[c]);
  });
  for (double& square : squares) square = square > 0 ? std::sqrt(square / static_cast<double>(count)) : 1;
  for (std::int64_t v = 0; v < nodes; ++v)
    for (std::size_t c = 0; c < sums.size(); ++c) {
      float& value = values[v * width + static_cast<std::int64_t>(c)];
      value = static_cast<float>((value - sums[c]) / squares[c]);
    }
}

namespace {

struct Opened {
  GraphFileOptions own;
  std::shared_ptr<const NodeGraph> graph;
};

Opened opened(std::string_view name, ReadGraph read, const DatasetOptions& options) {
  const auto own = read_options<GraphFileOptions>(fmt::format("data set {}", name), options.settings);
  const std::string key = fmt::format("{} {} {} {} {}", name, options.path.string(), own.undirected, own.inductive,
                                      static_cast<int>(own.standardize));
  return {own, options.files->get<NodeGraph>(key, [&] {
            const AllocationScope scope({Purpose::data, Label("graph"), {}});
            auto graph = read(options.path, own);
            if (own.inductive && !graph->training_edges.degrees.defined())
              reject("data.inductive: the data set {} has no edges of training alone; graphsaint has", name);
            return graph;
          })};
}

}  // namespace

DatasetInfo describe_graph(std::string_view name, ReadGraph read, const DatasetOptions& options) {
  const auto [own, graph] = opened(name, read, options);
  const NodeGraphShape shape = shape_of(*graph, options.split, own.evaluated);
  check_splits(options, own.evaluated, shape.counted, options.path.string());
  return {.name = std::string(name),
          .size = 1,
          .fields = fields_of(shape),
          .classes = graph->classes,
          .description = fmt::format(
              "{} nodes of {} features and {} classes, {} edges with a loop for each node{}{}; nodes whose labels "
              "count: {}",
              shape.nodes, shape.features, shape.classes, shape.edges, own.undirected ? ", in both directions" : "",
              graph->edges.dropped > 0 ? fmt::format(", {} given twice left out", graph->edges.dropped) : "",
              shape.counted)};
}

std::unique_ptr<const Dataset> open_graph(std::string_view name, ReadGraph read, const DatasetOptions& options) {
  const auto [own, graph] = opened(name, read, options);
  return std::make_unique<NodeGraphDataset>(describe_graph(name, read, options), graph, options.split, own.evaluated);
}

}  // namespace lacuna
