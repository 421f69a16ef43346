#include "apps/sweep/random_search.h"

#include "apps/output/rounded.h"
#include "core/random.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

namespace lacuna::apps {
namespace {

const std::vector<std::string> distributions{"uniform", "log_uniform", "integer", "choice"};

void read_bounds(const Tree& values, const std::string& key, Distribution& distribution, Problems& problems) {
  const auto bound = [&](std::size_t i) { return number_in(values.items[i]); };
  if (values.items.size() != 2 || !bound(0) || !bound(1) || *bound(0) > *bound(1))
    return problems.add_expected(values, key, "two numbers, the smaller first");
  const double min = distribution.min = *bound(0), max = distribution.max = *bound(1);
  if (distribution.name == "log_uniform" && min <= 0)
    problems.add(values.where, fmt::format("{}: log_uniform is of positive numbers", key));
  else if (distribution.name == "integer" && (min != std::floor(min) || max != std::floor(max)))
    problems.add(values.where, fmt::format("{}: expected whole numbers", key));
}

/// Reads `{uniform: [MIN, MAX]}` and its like.
std::optional<Distribution> read_distribution(const Tree& node, const std::string& key, Problems& problems) {
  if (node.kind != Tree::Kind::map || node.entries.size() != 1) {
    problems.add_expected(node, key, "a distribution, as {log_uniform: [1e-5, 1e-2]} or {choice: [a, b]}");
    return {};
  }
  const auto& [name, where, values] = node.entries.front();
  if (std::ranges::find(distributions, name) == distributions.end()) {
    problems.add_unknown(where, "distribution", name, distributions);
    return {};
  }
  const std::size_t before = problems.count();
  Distribution distribution{.name = name, .where = where};
  const std::vector<Tree>& items = items_of(values, key, "a list", problems);
  if (name == "choice")
    distribution.choices = items;
  else
    read_bounds(values, key, distribution, problems);
  return problems.count() == before ? std::optional(std::move(distribution)) : std::nullopt;
}

/// Four digits, and more where the range is narrow beside its numbers.
int digits_of(double min, double max) {
  constexpr double usual = 4, most = 17;  // which tell all numbers apart
  if (min == max) return static_cast<int>(most);
  const double narrowness = std::max(std::abs(min), std::abs(max)) / (max - min);
  return static_cast<int>(std::clamp(usual + std::floor(std::log10(narrowness)), usual, most));
}

}  // namespace

Tree Distribution::draw(double u) const {
  if (name == "choice") return choices[static_cast<std::size_t>(u * static_cast<double>(choices.size()))];
  const double number = name == "integer"       ? min + std::floor(u * (max - min + 1))
                        : name == "log_uniform" ? min * std::pow(max / min, u)
                                                : min + u * (max - min);
  const double shown = name == "integer" ? number : rounded(number, digits_of(min, max));
  const double inside = std::clamp(shown, min, max);  // rounding may leave the range
  Tree drawn(inside);
  drawn.where = where;
  return drawn;
}

Tree RandomSearch::draw(const Value& value, std::int64_t trial) const {
  const RandomStream draws{static_cast<std::uint64_t>(seed), static_cast<std::uint32_t>(trial),
                           random_site(value.entry.key)};
  return value.distribution.draw(draws.uniform(0));
}

Fields RandomSearch::fields() {
  return {field("trials", &RandomSearch::trials, between(1, most_trials), required, "number of draws"),
          field("seed", &RandomSearch::seed, "seed of the draws"),
          field("values", &RandomSearch::keys, required, "keys with distributions")};
}

RandomSearch read_random_search(const Tree& section, Problems& problems) {
  const std::size_t before = problems.count();
  RandomSearch search;
  read_map(section, RandomSearch::fields(), &search, "random", problems);
  for (const TreeEntry& entry : search.keys)
    if (auto distribution = read_distribution(entry.value, "random.values." + entry.key, problems))
      search.values.push_back({entry, std::move(*distribution)});
  return problems.count() == before ? std::move(search) : RandomSearch{};
}

}  // namespace lacuna::apps
