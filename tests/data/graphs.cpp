// Edges and drawn graphs.
#include "core/error.h"
#include "data/collate.h"
#include "data/graphs/node_graph.h"

#include <doctest/doctest.h>

#include <set>

namespace lacuna {
namespace {

std::vector<std::int32_t> values(const Tensor& tensor) {
  const auto* const from = tensor.data<const std::int32_t>();
  return {from, from + tensor.count()};
}
using Numbers = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("graphs: edges by target, with one loop a node and none twice") {
  const NodeEdges edges = edges_of({.from = {2, 0, 0, 1}, .to = {0, 1, 1, 1}}, 3, false, "edges");
  CHECK(values(edges.degrees) == Numbers{2, 2, 1});
  CHECK(values(edges.sources) == Numbers{0, 2, 0, 1, 2});
  CHECK(values(edges.out_degrees) == Numbers{2, 1, 2});
  CHECK(values(edges.targets) == Numbers{0, 1, 1, 0, 2});
  CHECK(edges.dropped == 1);
}

TEST_CASE("graphs: an undirected graph needs no second order") {
  const NodeEdges edges = edges_of({.from = {2, 0}, .to = {0, 1}, .weights = {.5F, 2}}, 3, true, "edges");
  CHECK_FALSE(edges.targets.defined());
  CHECK(values(edges.sources) == Numbers{0, 1, 2, 0, 1, 0, 2});
  CHECK(edges.weights.to_vector() == std::vector<double>{1, 2, .5, 2, 1, .5, 1});
}

TEST_CASE("graphs: an edge to a node that is not there is refused") {
  CHECK_THROWS_AS(edges_of({.from = {0}, .to = {3}}, 3, false, "edges"), Error);
  CHECK_THROWS_AS(edges_of({.from = {-1}, .to = {0}}, 3, false, "edges"), Error);
}

TEST_CASE("graphs: a batch of one graph reads the tensors of the data set and changes none") {
  const DatasetOptions options{.settings = {{"like", std::string("small")}, {"nodes", std::int64_t{100}}}};
  const auto samples = open_dataset("random_graph", options);
  Sample sample;
  sample.begin(0);
  samples->read(0, sample);
  const std::uint64_t nodes = sample["nodes"].storage()->version(), sources = sample["sources"].storage()->version();
  const Batch batch = collate(std::span(&sample, 1), samples->info().fields);
  CHECK(batch["nodes"].data<const std::byte>() == sample["nodes"].data<const std::byte>());
  CHECK(sample["nodes"].storage()->version() == nodes);
  CHECK(sample["sources"].storage()->version() == sources);
}

TEST_CASE("graphs: a drawn graph has the edges, nodes and fields that its description names") {
  DatasetOptions options{.settings = {{"like", std::string("arxiv")}, {"nodes", std::int64_t{1000}}}};
  std::int64_t counted = 0;
  for (const char* const part : {"train", "val", "test"}) {
    options.split = part == std::string("train") ? Split::train : Split::validation;
    if (options.split == Split::validation) options.settings["evaluated"] = std::string(part);
    const DatasetInfo info = describe_dataset("random_graph", options);
    const auto samples = open_dataset("random_graph", options);
    Sample sample;
    sample.begin(0);
    samples->read(0, sample);
    for (const SampleField& field : info.fields) CHECK(sample[field.name].shape() == field.shape);
    counted += sample["nodes"].count();
  }
  CHECK(counted == 1000);
}

TEST_CASE("graphs: more edges within classes than there are pairs of nodes are refused") {
  const DatasetOptions options{.settings = {{"like", std::string("arxiv")},
                                            {"nodes", std::int64_t{160}},
                                            {"edges", std::int64_t{3180}},
                                            {"homophily", 1.0}}};
  CHECK_THROWS_AS(open_dataset("random_graph", options), Error);
}

}  // namespace lacuna
