// Drawn graphs of the sizes of well-known ones, for planning, benchmarks and tests: a stochastic block model whose
// degrees follow a power law (Holland et al. 1983; Karrer and Newman 2011).
#include "core/error.h"
#include "core/parallel.h"
#include "core/random.h"
#include "data/graphs/node_graph.h"
#include "data/permutation.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace lacuna {
namespace {

enum class Like : std::uint8_t { small, flickr, reddit, yelp, arxiv };
std::array<std::pair<std::string_view, Like>, 5> names_of(Like) {
  return {{{"small", Like::small},
           {"flickr", Like::flickr},
           {"reddit", Like::reddit},
           {"yelp", Like::yelp},
           {"arxiv", Like::arxiv}}};
}

/// As published: entries of the adjacency matrix, both directions of an edge.
struct GraphSize {
  std::int64_t nodes, entries, features, classes, train, val;
  double homophily;
  bool several = false;
  double separation = 2;
};
GraphSize size_of_like(Like like) {
  switch (like) {
    case Like::small:
      return {2000, 16000, 32, 5, 1000, 500, .7};
    case Like::flickr:
      return {89250, 899756, 500, 7, 44625, 22312, .32};
    case Like::reddit:  // GraphSAINT's
      return {232965, 23213838, 602, 41, 153431, 23831, .78};
    case Like::yelp:
      return {716847, 13954819, 300, 100, 537635, 107527, .7, true};
    default:
      return {169343, 2315598, 128, 40, 90941, 29799, .65};
  }
}

struct RandomGraphOptions : NodeGraphOptions {
  Like like = Like::arxiv;
  std::int64_t nodes = 0, edges = 0;
  double homophily = 0, separation = 2;

  static Fields fields() {
    using R = RandomGraphOptions;
    return rows_of_base<R, NodeGraphOptions>() +
           Fields{field("like", &R::like, "the graph whose size, features and classes it has; reddit is GraphSAINT's"),
                  field("nodes", &R::nodes, up_to(0x7fffffff), "number of nodes; 0: as the graph that it is like"),
                  field("edges", &R::edges, up_to(0x7fffffff),
                        "entries of its adjacency matrix, two for an edge; 0: as many a node as that graph"),
                  field("homophily", &R::homophily, up_to(1),
                        "share of edges drawn between nodes of one class; 0: as that graph"),
                  field("separation", &R::separation, up_to(1000),
                        "distance of the mean features of a class from 0; each feature has noise of variance 1")};
  }
};

GraphSize size_of(const RandomGraphOptions& options) {
  GraphSize size = size_of_like(options.like);
  const auto scaled = [&](std::int64_t count) {
    return static_cast<std::int64_t>(static_cast<double>(count) * static_cast<double>(options.nodes) /
                                     static_cast<double>(size_of_like(options.like).nodes));
  };
  if (options.nodes > 0) {
    size.train = scaled(size.train);
    size.val = scaled(size.val);
    size.entries = scaled(size.entries);
    size.nodes = options.nodes;
  }
  if (options.edges > 0) size.entries = options.edges;
  if (options.homophily > 0) size.homophily = options.homophily;
  size.separation = options.separation;
  size.entries -= size.entries % 2;
  if (size.nodes < 4 * size.classes)
    reject("data.nodes: expected {} or more, four of each class, got {}", 4 * size.classes, size.nodes);
  // Nodes of high weight meet again and again in denser graphs.
  if (size.entries > size.nodes * (size.nodes - 1) / 8)
    reject("data.edges: expected at most {} between {} nodes, got {}", size.nodes * (size.nodes - 1) / 8, size.nodes,
           size.entries);
  return size;
}

RandomGraphOptions read(const DatasetOptions& options) {
  const auto own = read_options<RandomGraphOptions>("data set random_graph", options.settings);
  if (own.evaluated == NodeSplit::none) reject("data.evaluated: random_graph has train, val and test, got none");
  return own;
}

/// Random nodes of a list, by weight.
class WeightedNodes {
 public:
  void add(std::int32_t node, double weight) {
    nodes_.push_back(node);
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + weight);
  }
  std::int32_t draw(float uniform) const {
    const double at = static_cast<double>(uniform) * ends_.back();
    const auto found = std::ranges::upper_bound(ends_, at) - ends_.begin();
    return nodes_[static_cast<std::size_t>(std::min(found, std::ssize(nodes_) - 1))];
  }

 private:
  std::vector<std::int32_t> nodes_;
  std::vector<double> ends_;  // sums of weights
};

class Drawing {
 public:
  Drawing(const GraphSize& size, std::uint64_t seed) : size_(size), seed_(seed) {
    const RandomStream classes = stream("classes");
    for (std::int64_t v = 0; v < size.nodes; ++v)
      classes_.push_back(static_cast<std::int32_t>(
          classes.below(static_cast<std::uint64_t>(v), static_cast<std::uint32_t>(size.classes))));
  }

  std::shared_ptr<const NodeGraph> draw() const {
    auto graph = std::make_shared<NodeGraph>();
    graph->edges = edges_of(draw_arcs(), size_.nodes, true, "random_graph");
    const AllocationScope scope({Purpose::data, Label("graph"), {}});
    graph->features = draw_features();
    graph->labels = draw_labels();
    graph->split = draw_split();
    graph->classes = numbered_classes(size_.classes);
    return graph;
  }

 private:
  RandomStream stream(std::string_view what, std::uint32_t step = 0) const { return {seed_, step, random_site(what)}; }
  int class_of(std::int64_t node) const { return classes_[static_cast<std::size_t>(node)]; }

  /// Each edge once.
  Arcs draw_arcs() const {
    constexpr double exponent = -0.6, flattened = 10;  // of the weights' power law
    WeightedNodes all;
    std::vector<WeightedNodes> of_class(static_cast<std::size_t>(size_.classes));
    const Permutation rank(size_.nodes, {seed_, 0, random_site("ranks")});
    for (std::int64_t v = 0; v < size_.nodes; ++v) {
      const double weight = std::pow(static_cast<double>(rank(v)) + flattened, exponent);
      all.add(static_cast<std::int32_t>(v), weight);
      of_class[static_cast<std::size_t>(class_of(v))].add(static_cast<std::int32_t>(v), weight);
    }
    const auto wanted = static_cast<std::size_t>(size_.entries / 2);
    std::vector<std::uint64_t> pairs;  // lower · nodes + higher, ascending
    constexpr std::uint32_t most_rounds = 1000;
    for (std::uint32_t round = 0; pairs.size() < wanted; ++round) {
      if (round == most_rounds)
        reject(
            "data.edges: only {} of {} were drawn between {} nodes; expected fewer edges, or a smaller data.homophily",
            2 * pairs.size(), size_.entries, size_.nodes);
      const RandomStream draws = stream("edges", round);
      const std::size_t known = pairs.size();
      pairs.resize(wanted);
      parallel_for(
          std::ssize(pairs) - static_cast<std::int64_t>(known), 4096, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
              const auto first = static_cast<std::uint64_t>(4 * i);
              const std::int32_t a = all.draw(draws.uniform(first));
              const bool alike = draws.uniform(first + 1) < static_cast<float>(size_.homophily);
              const std::int32_t b =
                  (alike ? of_class[static_cast<std::size_t>(class_of(a))] : all).draw(draws.uniform(first + 2));
              pairs[known + static_cast<std::size_t>(i)] =
                  static_cast<std::uint64_t>(std::min(a, b)) * static_cast<std::uint64_t>(size_.nodes) +
                  static_cast<std::uint64_t>(std::max(a, b));
            }
          });
      std::erase_if(pairs, [&](std::uint64_t pair) {
        const auto nodes = static_cast<std::uint64_t>(size_.nodes);
        return pair / nodes == pair % nodes;  // a loop
      });
      std::ranges::sort(pairs);
      const auto repeated = std::ranges::unique(pairs);
      pairs.erase(repeated.begin(), repeated.end());
    }
    Arcs arcs;
    for (const std::uint64_t pair : pairs) {
      arcs.from.push_back(static_cast<std::int32_t>(pair / static_cast<std::uint64_t>(size_.nodes)));
      arcs.to.push_back(static_cast<std::int32_t>(pair % static_cast<std::uint64_t>(size_.nodes)));
    }
    return arcs;
  }

  /// N(0, 1), and for each class a centre at a distance that leaves classes to the neighbours to tell apart.
  Tensor draw_features() const {
    const std::int64_t width = size_.features;
    const double apart = size_.separation / std::sqrt(static_cast<double>(width));
    Tensor features = Tensor::empty({size_.nodes, width}, DType::f32, Device::cpu, Purpose::data);
    auto* const out = features.data<float>();
    const RandomStream centres = stream("centres"), noise = stream("features");
    const auto normal = [](const RandomStream& draws, std::uint64_t i) {
      const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(draws.uniform(2 * i))));
      return radius * std::cos(2 * std::numbers::pi * static_cast<double>(draws.uniform(2 * i + 1)));
    };
    parallel_for(size_.nodes, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t v = begin; v < end; ++v)
        for (std::int64_t c = 0; c < width; ++c)
          out[v * width + c] =
              static_cast<float>(normal(noise, static_cast<std::uint64_t>(v * width + c)) +
                                 apart * normal(centres, static_cast<std::uint64_t>(class_of(v) * width + c)));
    });
    return features;
  }

  Tensor draw_labels() const {
    if (!size_.several) {
      Tensor labels = Tensor::empty({size_.nodes}, DType::i64, Device::cpu, Purpose::data);
      std::ranges::copy(classes_, labels.data<std::int64_t>());
      return labels;
    }
    constexpr float others = 0.05F;
    const RandomStream draws = stream("labels");
    Tensor labels = Tensor::empty({size_.nodes, size_.classes}, DType::f32, Device::cpu, Purpose::data);
    auto* const out = labels.data<float>();
    for (std::int64_t i = 0; i < labels.count(); ++i)
      out[i] = i % size_.classes == class_of(i / size_.classes) || draws.uniform(static_cast<std::uint64_t>(i)) < others
                   ? 1.0F
                   : 0.0F;
    return labels;
  }

  std::vector<NodeSplit> draw_split() const {
    std::vector<NodeSplit> split;
    const Permutation order(size_.nodes, {seed_, 0, random_site("split")});
    for (std::int64_t v = 0; v < size_.nodes; ++v) {
      const std::int64_t at = order(v);
      split.push_back(at < size_.train               ? NodeSplit::train
                      : at < size_.train + size_.val ? NodeSplit::val
                                                     : NodeSplit::test);
    }
    return split;
  }

  GraphSize size_;
  std::uint64_t seed_;
  std::vector<std::int32_t> classes_;  // [nodes]
};

DatasetInfo describe_random_graph(const DatasetOptions& options) {
  const RandomGraphOptions own = read(options);
  const GraphSize size = size_of(own);
  const std::int64_t test = size.nodes - size.train - size.val;
  const NodeSplit evaluated = options.split == Split::train ? NodeSplit::train : own.evaluated;
  const std::int64_t counted = evaluated == NodeSplit::train ? size.train
                               : evaluated == NodeSplit::val ? size.val
                                                             : test;
  check_splits(options, evaluated, counted, "random_graph");
  return {.name = "random_graph",
          .size = 1,
          .fields = fields_of({.nodes = size.nodes,
                               .edges = size.entries + size.nodes,
                               .features = size.features,
                               .classes = size.classes,
                               .counted = counted,
                               .several = size.several}),
          .classes = numbered_classes(size.classes)};
}

const RegisterDataset random_graph(
    "random_graph",
    {.describe = describe_random_graph,
     .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
       const RandomGraphOptions own = read(options);
       const GraphSize size = size_of(own);
       const std::string key = fmt::format("random_graph {} {} {} {} {} {}", static_cast<int>(own.like), size.nodes,
                                           size.entries, size.homophily, size.separation, options.seed);
       const auto graph = options.files->get<NodeGraph>(key, [&] { return Drawing(size, options.seed).draw(); });
       return std::make_unique<NodeGraphDataset>(describe_random_graph(options), graph, options.split, own.evaluated);
     },
     .reads_files = false,
     .options = RandomGraphOptions{}});

}  // namespace
}  // namespace lacuna
