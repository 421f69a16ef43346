// Node property prediction of the Open Graph Benchmark (Hu et al. 2020): a folder with raw/edge.csv.gz,
// raw/node-feat.csv.gz, raw/node-label.csv.gz and split/NAME/{train,valid,test}.csv.gz.
#include "core/error.h"
#include "data/files/arrays.h"
#include "data/graphs/graph_files.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

/// Calls `row` for each line of a compressed file; `columns` 0: any number.
void for_rows(const fs::path& file, std::size_t columns,
              const std::function<void(std::int64_t line, const std::vector<std::string_view>& cells)>& row) {
  for_csv_rows(read_gzip(file, most_graph_bytes), [&](std::int64_t line, const std::vector<std::string_view>& cells) {
    if (columns > 0 && cells.size() != columns)
      reject("{}:{}: expected {} numbers, got {}", file.string(), line, columns, cells.size());
    row(line, cells);
  });
}

fs::path only_folder(const fs::path& path) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (fs::directory_iterator entry(path, failed), end; !failed && entry != end; entry.increment(failed))
    if (entry->is_directory()) found.push_back(entry->path());
  if (found.size() != 1) reject("{}: expected one folder, such as `time`, got {}", path.string(), found.size());
  return found.front();
}

/// Compares a count with the one that OGB gives beside the file, if it does.
void check_count(std::int64_t count, const fs::path& file, const fs::path& counts) {
  std::error_code ignored;
  if (!fs::exists(counts, ignored)) return;
  for_rows(counts, 1, [&](std::int64_t line, const std::vector<std::string_view>& cells) {
    if (const std::int64_t given = whole_number_of(cells[0], counts.string(), line); given != count)
      reject("{}: expected {} lines, as {} says, got {}", file.string(), given, counts.string(), count);
  });
}

std::shared_ptr<const NodeGraph> read_ogb(const fs::path& folder, const GraphFileOptions& options) {
  auto graph = std::make_shared<NodeGraph>();
  const fs::path features = folder / "raw/node-feat.csv.gz", edges = folder / "raw/edge.csv.gz",
                 of_labels = folder / "raw/node-label.csv.gz";
  std::vector<float> values;
  std::size_t width = 0;
  for_rows(features, 0, [&](std::int64_t line, const std::vector<std::string_view>& cells) {
    if (width == 0) width = cells.size();
    if (cells.size() != width)
      reject("{}:{}: expected {} numbers, got {}", features.string(), line, width, cells.size());
    for (const std::string_view cell : cells)
      values.push_back(static_cast<float>(number_of(cell, features.string(), line)));
  });
  if (width == 0) reject("{}: expected a line for each node, got none", features.string());
  const auto nodes = std::ssize(values) / static_cast<std::int64_t>(width);
  graph->features = Tensor::empty({nodes, static_cast<std::int64_t>(width)}, DType::f32, Device::cpu, Purpose::data);
  std::ranges::copy(values, graph->features.data<float>());
  const auto node_of = [&](std::string_view cell, const fs::path& file, std::int64_t line) {
    const std::int64_t node = whole_number_of(cell, file.string(), line);
    if (node < 0 || node >= nodes)
      reject("{}:{}: expected a node 0 to {}, got {}", file.string(), line, nodes - 1, node);
    return static_cast<std::int32_t>(node);
  };
  Arcs arcs;
  for_rows(edges, 2, [&](std::int64_t line, const std::vector<std::string_view>& cells) {
    arcs.from.push_back(node_of(cells[0], edges, line));
    arcs.to.push_back(node_of(cells[1], edges, line));
  });
  check_count(nodes, features, folder / "raw/num-node-list.csv.gz");
  check_count(arcs.count(), edges, folder / "raw/num-edge-list.csv.gz");
  if (arcs.count() == 0) reject("{}: expected edges, got none", edges.string());
  graph->edges = edges_of(std::move(arcs), nodes, options.undirected, edges.string());
  std::vector<std::int64_t> labels;
  for_rows(of_labels, 1, [&](std::int64_t line, const std::vector<std::string_view>& cells) {
    const bool has_none = cells[0] == "nan";
    labels.push_back(has_none ? -1 : whole_number_of(cells[0], of_labels.string(), line));
  });
  if (std::ssize(labels) != nodes)
    reject("{}: expected a label for each of {} nodes, got {}", of_labels.string(), nodes, labels.size());
  set_labels(labels, of_labels.string(), *graph);
  graph->split.resize(static_cast<std::size_t>(nodes));
  const fs::path splits = only_folder(folder / "split");
  for (const auto& [name, split] :
       {std::pair{"train", NodeSplit::train}, std::pair{"valid", NodeSplit::val}, std::pair{"test", NodeSplit::test}}) {
    const fs::path file = splits / (std::string(name) + ".csv.gz");
    for_rows(file, 1, [&, split = split](std::int64_t line, const std::vector<std::string_view>& cells) {
      put_into(split, node_of(cells[0], file, line), file.string(), *graph);
    });
  }
  standardize(options.standardize, *graph);
  return graph;
}

constexpr std::string_view ogb_name = "ogb_nodes", ogb_file = "raw/edge.csv.gz";
const RegisterDataset ogb(ogb_name, graph_files<ogb_name, ogb_file, read_ogb>());

}  // namespace
}  // namespace lacuna
