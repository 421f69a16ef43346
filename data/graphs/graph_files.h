// Data sets of graphs in files: options, and what their readers share.
#pragma once

#include "data/graphs/node_graph.h"

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// The longest text that is read, once decompressed.
inline constexpr std::int64_t most_graph_bytes = std::int64_t{1} << 36;

/// The nodes over which features get mean 0 and variance 1.
enum class Standardize : std::uint8_t { none, train, all };
std::array<std::pair<std::string_view, Standardize>, 3> names_of(Standardize);

struct GraphFileOptions : NodeGraphOptions {
  bool undirected = true, inductive = false;
  Standardize standardize = Standardize::none;

  static Fields fields();
};

/// Calls `row(line, cells)` for each line of a text of numbers or words between commas, without quotes.
void for_csv_rows(std::string_view text,
                  const std::function<void(std::int64_t line, const std::vector<std::string_view>& cells)>& row);
/// A cell as a number; refuses another, naming the file and the line.
double number_of(std::string_view cell, const std::string& file, std::int64_t line);
std::int64_t whole_number_of(std::string_view cell, const std::string& file, std::int64_t line);

/// Sets labels i64 [V] from numbers, below 0: none, and the names of their classes. Refuses labels without an end.
void set_labels(const std::vector<std::int64_t>& labels, const std::string& file, NodeGraph& graph);
/// Sets the split of a node. Refuses a node that is in another one.
void put_into(NodeSplit split, std::int64_t node, const std::string& file, NodeGraph& graph);
void standardize(Standardize over, NodeGraph& graph);

using ReadGraph = std::shared_ptr<const NodeGraph> (*)(const std::filesystem::path& folder,
                                                       const GraphFileOptions& options);
DatasetInfo describe_graph(std::string_view name, ReadGraph read, const DatasetOptions& options);
std::unique_ptr<const Dataset> open_graph(std::string_view name, ReadGraph read, const DatasetOptions& options);

/// A kind of data set whose folder has `file`.
template <const std::string_view& name, const std::string_view& file, ReadGraph read>
DatasetKind graph_files() {
  return {.describe = [](const DatasetOptions& options) { return describe_graph(name, read, options); },
          .open = [](const DatasetOptions& options) { return open_graph(name, read, options); },
          .options = GraphFileOptions{},
          .recognize =
              [](const std::filesystem::path& path, OpenedFiles&) {
                std::error_code ignored;
                return Recognition{.certainty = std::filesystem::is_regular_file(path / file, ignored) ? 2 : 0};
              }};
}

}  // namespace lacuna
