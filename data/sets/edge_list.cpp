// Graphs of one's own: a folder with edges.csv (source,target and perhaps weight), nodes.csv (id, label, split and
// features) and perhaps features.npy.
#include "core/error.h"
#include "data/files/arrays.h"
#include "data/graphs/graph_files.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

namespace lacuna {
namespace {

namespace fs = std::filesystem;

/// Columns of a table by name.
class Columns {
 public:
  Columns(const std::vector<std::string_view>& names, std::string file) : file_(std::move(file)) {
    for (const std::string_view name : names) names_.emplace_back(name);
  }
  /// -1: there is none.
  std::int64_t find(std::string_view name) const {
    const auto found = std::ranges::find(names_, name);
    return found == names_.end() ? -1 : found - names_.begin();
  }
  std::size_t at(std::string_view name) const {
    const std::int64_t found = find(name);
    if (found < 0) reject("{}: expected a column `{}`, got {}", file_, name, fmt::join(names_, ", "));
    return static_cast<std::size_t>(found);
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::string file_;
  std::vector<std::string> names_;
};

/// Calls `row` for each line behind the first, which names the columns, `needed` among them.
void for_table(const fs::path& file, std::initializer_list<std::string_view> needed,
               const std::function<void(const Columns&, std::int64_t, const std::vector<std::string_view>&)>& row) {
  std::optional<Columns> columns;
  for_csv_rows(read_gzip(file, most_graph_bytes), [&](std::int64_t line, const std::vector<std::string_view>& cells) {
    if (!columns) {
      columns.emplace(cells, file.string());
      for (const std::string_view name : needed) columns->at(name);
      if (columns->find("") >= 0)
        reject("{}: column {} has no name: pandas writes its index so, but for to_csv(index=False)", file.string(),
               columns->find("") + 1);
      return;
    }
    if (cells.size() != columns->names().size())
      reject("{}:{}: expected {} columns, got {}", file.string(), line, columns->names().size(), cells.size());
    row(*columns, line, cells);
  });
  if (!columns) reject("{}: expected a line of names ({}), got an empty file", file.string(), fmt::join(needed, ","));
}

NodeSplit split_of(std::string_view cell, const std::string& file, std::int64_t line) {
  if (cell.empty()) return NodeSplit::none;
  if (cell == "valid" || cell == "validation") return NodeSplit::val;  // as others name it
  for (const auto& [name, split] : names_of(NodeSplit()))
    if (name == cell) return split;
  reject("{}:{}: expected a split train, val, test or none, got \"{}\"", file, line, cell);
}

/// A label or the id of a node. pandas writes whole numbers as 3.0 where a cell of the column is empty.
std::string name_in(std::string_view cell) {
  const std::string_view whole = cell.ends_with(".0") ? cell.substr(0, cell.size() - 2) : cell;
  const bool number = !whole.empty() && std::ranges::all_of(whole, [](char c) { return '0' <= c && c <= '9'; });
  return std::string(number || whole == "-1" ? whole : cell);
}

/// Labels by name, in order: numbers by value, other texts by letter.
void name_labels(const std::vector<std::string>& given, const std::string& file, NodeGraph& graph) {
  std::set<std::string> found(given.begin(), given.end());
  found.erase("");
  const bool says_none = found.erase("-1") > 0;
  std::vector<std::string> names(found.begin(), found.end());
  const bool numbers = std::ranges::all_of(names, [](const std::string& name) {
    return name.size() < 10 && std::ranges::all_of(name, [](char c) { return '0' <= c && c <= '9'; });
  });
  if (says_none && !numbers)
    reject("{}: the label -1 beside labels by name: expected an empty one for a node without a class", file);
  if (numbers) std::ranges::sort(names, {}, [](const std::string& name) { return std::stoll(name); });
  std::map<std::string, std::int64_t> number;
  for (const std::string& name : names) number.emplace(name, std::ssize(number));
  std::vector<std::int64_t> labels;
  for (const std::string& name : given) labels.push_back(name.empty() || name == "-1" ? -1 : number.at(name));
  set_labels(labels, file, graph);
  graph.classes = names;
}

std::shared_ptr<const NodeGraph> read_edge_list(const fs::path& folder, const GraphFileOptions& options) {
  auto graph = std::make_shared<NodeGraph>();
  const fs::path nodes_file = folder / "nodes.csv", edges_file = folder / "edges.csv", array = folder / "features.npy";
  std::unordered_map<std::string, std::int32_t> numbers;
  std::vector<std::string> labels;
  std::vector<float> values;
  std::size_t width = 0;
  for_table(nodes_file, {"label", "split"},
            [&](const Columns& columns, std::int64_t line, const std::vector<std::string_view>& cells) {
              const auto node = static_cast<std::int32_t>(labels.size());
              const std::int64_t id = columns.find("id");
              const std::string name = id < 0 ? std::to_string(node) : name_in(cells[static_cast<std::size_t>(id)]);
              if (!numbers.emplace(name, node).second)
                reject("{}:{}: node \"{}\" is there twice", nodes_file.string(), line, name);
              if (id >= 0) graph->ids.push_back(name);
              labels.push_back(name_in(cells[columns.at("label")]));
              graph->split.push_back(split_of(cells[columns.at("split")], nodes_file.string(), line));
              width = 0;
              for (std::size_t c = 0; c < cells.size(); ++c)
                if (const std::string& column = columns.names()[c];
                    column != "id" && column != "label" && column != "split") {
                  values.push_back(static_cast<float>(number_of(cells[c], nodes_file.string(), line)));
                  ++width;
                }
            });
  const auto nodes = std::ssize(labels);
  std::error_code ignored;
  if (fs::exists(array, ignored) == (width > 0))
    reject("{}: expected features as columns of nodes.csv or in features.npy, got {}", folder.string(),
           width > 0 ? "both" : "none");
  if (width > 0) {
    graph->features = Tensor::empty({nodes, static_cast<std::int64_t>(width)}, DType::f32, Device::cpu, Purpose::data);
    std::ranges::copy(values, graph->features.data<float>());
  } else {
    const NumpyArray features = read_npy(array);
    if (features.shape.size() != 2 || features.shape[0] != nodes)
      reject("{}: expected [{}, features], a row for each line of nodes.csv, got [{}]", features.origin, nodes,
             fmt::join(features.shape, ", "));
    graph->features = features.floats();
  }
  name_labels(labels, nodes_file.string(), *graph);
  Arcs arcs;
  for_table(edges_file, {"source", "target"},
            [&](const Columns& columns, std::int64_t line, const std::vector<std::string_view>& cells) {
              const auto node = [&](std::string_view column) {
                const auto found = numbers.find(name_in(cells[columns.at(column)]));
                if (found == numbers.end())
                  reject("{}:{}: node \"{}\" is not in nodes.csv", edges_file.string(), line,
                         cells[columns.at(column)]);
                return found->second;
              };
              if (columns.names().size() != (columns.find("weight") < 0 ? 2U : 3U))
                reject("{}: expected the columns source, target and perhaps weight, got {}", edges_file.string(),
                       fmt::join(columns.names(), ", "));
              arcs.from.push_back(node("source"));
              arcs.to.push_back(node("target"));
              if (const std::int64_t weight = columns.find("weight"); weight >= 0) {
                const double value = number_of(cells[static_cast<std::size_t>(weight)], edges_file.string(), line);
                if (value < 0)
                  reject("{}:{}: expected a weight of 0 or more, got {}", edges_file.string(), line, value);
                arcs.weights.push_back(static_cast<float>(value));
              }
            });
  if (arcs.from.empty()) reject("{}: expected edges, got none", edges_file.string());
  graph->edges = edges_of(std::move(arcs), nodes, options.undirected, edges_file.string(), graph->ids);
  standardize(options.standardize, *graph);
  return graph;
}

constexpr std::string_view list_name = "edge_list", list_file = "nodes.csv";
const RegisterDataset edge_list(list_name, graph_files<list_name, list_file, read_edge_list>());

/// Planetoid's pickles of Cora, CiteSeer and PubMed, and files of PyTorch, are read by the libraries that wrote them.
[[noreturn]] void refuse_pickles(const DatasetOptions& options) {
  reject(
      "{}: Lacuna reads no pickles and no .pt files of graphs. This writes the folder `graph` that it reads, where "
      "torch_geometric is installed:\n"
      "  python3 -c 'import numpy as n, os, torch_geometric.datasets as d; g = d.Planetoid(\"planetoid\", "
      "\"Cora\")[0]; "
      "os.makedirs(\"graph\", exist_ok=True); n.save(\"graph/features.npy\", g.x.numpy()); "
      "n.savetxt(\"graph/edges.csv\", g.edge_index.T, \"%d\", \",\", header=\"source,target\", comments=\"\"); "
      "s = n.where(g.train_mask, \"train\", n.where(g.val_mask, \"val\", n.where(g.test_mask, \"test\", \"none\"))); "
      "n.savetxt(\"graph/nodes.csv\", n.stack([g.y.numpy().astype(str), s], 1), \"%s\", \",\", header=\"label,split\", "
      "comments=\"\")'\n"
      "`g` of a file of your own: torch.load(FILE, weights_only=False)",
      options.path.string());
}

bool is_pickle(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".pt") || (name.starts_with("ind.") && name.ends_with(".graph"));
}

const RegisterDataset pickles(
    "planetoid",
    {.describe = [](const DatasetOptions& options) -> DatasetInfo { refuse_pickles(options); },
     .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> { refuse_pickles(options); },
     .recognize =
         [](const fs::path& path, OpenedFiles&) {
           std::error_code failed;
           bool found = is_pickle(path);
           for (const fs::path& folder : {path, path / "raw", path / "processed"})
             for (fs::directory_iterator entry(folder, failed), end; !failed && !found && entry != end;
                  entry.increment(failed))
               found = is_pickle(entry->path());
           return Recognition{.certainty = found ? 2 : 0};
         }});

}  // namespace
}  // namespace lacuna
