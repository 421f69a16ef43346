#include "autograd/plan/checkpoint_search.h"

#include "autograd/plan/planner.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace lacuna {
namespace {

/// Runs of `count` blocks of every sequence, as equal as can be, `length` blocks long at most.
std::vector<BlockRange> runs_of(const std::vector<BlockRange>& sequences, std::int64_t length) {
  std::vector<BlockRange> all;
  for (const BlockRange& sequence : sequences) {
    const std::int64_t count = sequence.last - sequence.first + 1, pieces = (count + length - 1) / length;
    for (std::int64_t i = 0; i < pieces; ++i)
      all.push_back(
          {sequence.sequence, sequence.first + count * i / pieces, sequence.first + count * (i + 1) / pieces - 1});
  }
  return all;
}

}  // namespace

std::vector<CheckpointSearch::Block> CheckpointSearch::blocks_of(const StepGraph& graph) {
  std::vector<Block> blocks;
  for (const GraphRegion& region : graph.regions) {
    if (!blocks.empty() && lies_in(region.path, blocks.back().region->path))
      blocks.back().parts.push_back(&region);
    else
      blocks.push_back({&region, {}, {}});
  }
  for (std::size_t b = 1; b < blocks.size(); ++b)
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      const GraphTensor& tensor = graph.tensors[i];
      const std::string &before = blocks[b - 1].region->path, &path = blocks[b].region->path;
      bool read = false, elsewhere = tensor.is_input || !lies_in(tensor.path, before);
      for (const std::string& reader : tensor.readers) {
        read = read || lies_in(reader, path);
        elsewhere = elsewhere || !(lies_in(reader, path) || lies_in(reader, before));
      }
      if (read && !elsewhere) blocks[b].link.push_back(i);
    }
  return blocks;
}

CheckpointSearch::CheckpointSearch(const StepGraph& graph, const PlannerOptions& options, double step_seconds)
    : graph_(graph),
      o_(options),
      step_seconds_(step_seconds),
      blocks_(blocks_of(graph)),
      options_(this->options()),
      in_blocks_(graph.tensors.size(), false),
      quantizes_(std::ranges::any_of(graph.tensors, &GraphTensor::can_quantize)) {
  for (const Block& block : blocks_) {
    for (const std::size_t i : block.region->inner) in_blocks_[i] = true;
    for (const std::size_t i : block.link) in_blocks_[i] = true;
  }
}

std::vector<CheckpointSearch::Option> CheckpointSearch::options() const {
  std::vector<Option> all;
  const auto add = [&](std::size_t first, std::size_t end, std::vector<std::string> regions, double seconds) {
    all.push_back({first, end, std::move(regions), seconds});
  };
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const auto& [region, parts, link] = blocks_[b];
    const bool nests = !o_.of_saved;  // regions within regions lower the peak alone
    std::vector<std::string> paths;
    double all_parts = 0;
    add(b, b + 1, {}, 0);
    add(b, b + 1, {region->path}, region->recompute_seconds);
    for (const GraphRegion* part : parts) {
      add(b, b + 1, {part->path}, part->recompute_seconds);
      if (nests) add(b, b + 1, {region->path, part->path}, region->recompute_seconds + part->recompute_seconds);
      paths.push_back(part->path);
      all_parts += part->recompute_seconds;
    }
    if (parts.size() > 1) {
      add(b, b + 1, paths, all_parts);
      paths.insert(paths.begin(), region->path);
      if (nests) add(b, b + 1, paths, region->recompute_seconds + all_parts);
    }
    double before = 0;  // forward passes of all but the last
    std::vector<std::string> inner{region->path};
    double inner_seconds = region->recompute_seconds;
    for (std::size_t end = b + 2; end <= blocks_.size(); ++end) {
      const GraphRegion& last = *blocks_[end - 1].region;
      if (last.sequence.empty() || last.sequence != region->sequence) break;
      before += blocks_[end - 2].region->seconds;
      const BlockRange range{region->sequence, region->index, last.index};
      add(b, end, {range.path()}, before + last.recompute_seconds);
      inner.push_back(last.path);
      inner_seconds += last.recompute_seconds;
      if (!nests) continue;
      std::vector<std::string> nested{range.path()};
      nested.insert(nested.end(), inner.begin(), inner.end());
      add(b, end, nested, before + last.recompute_seconds + inner_seconds);
    }
  }
  return all;
}

std::vector<CheckpointSearch::Holding> CheckpointSearch::holdings(double price) const {
  std::vector<Holding> all;
  for (const GraphTensor& tensor : graph_.tensors) {
    Holding best{tensor.held_bytes, 0};
    if (tensor.can_quantize && !tensor.is_input) {
      double least = std::numeric_limits<double>::infinity();
      for (const int bits : bit_widths) {
        const std::int64_t bytes = tensor.bytes({.bits = bits});
        const double variance = tensor.size.sensitivity * code_variance(bits),
                     total = variance + price * static_cast<double>(bytes);
        if (total > least) continue;
        least = total;
        best = {bytes, step_seconds_ * variance + o_.costs.quantize_seconds(tensor.size.exact_bytes, bits)};
      }
    }
    all.push_back(best);
  }
  return all;
}

std::vector<double> CheckpointSearch::prices() const {
  std::vector<double> gains;  // of variance, by the byte
  for (const GraphTensor& tensor : graph_.tensors) {
    if (!tensor.can_quantize || tensor.is_input) continue;
    for (std::size_t i = 1; i < bit_widths.size(); ++i) {
      const auto variance = [&](std::size_t way) {
        return tensor.size.sensitivity * code_variance(bit_widths.at(way));
      };
      const std::int64_t more = tensor.bytes({.bits = bit_widths.at(i)}) - tensor.bytes({.bits = bit_widths.at(i - 1)});
      gains.push_back((variance(i - 1) - variance(i)) / static_cast<double>(std::max<std::int64_t>(more, 1)));
    }
  }
  std::vector<double> prices{0};
  if (gains.empty()) return prices;
  std::ranges::sort(gains);
  constexpr std::size_t steps = 12;
  for (std::size_t i = 0; i < steps; ++i) prices.push_back(gains[i * (gains.size() - 1) / (steps - 1)]);
  prices.back() *= 2;  // the fewest bits everywhere
  return prices;
}

CheckpointSearch::Effect CheckpointSearch::effect(const Option& option, const std::vector<Holding>& holdings) const {
  Effect effect{.cost = option.seconds};
  IntervalSweep sweep(o_.of_saved ? 0 : graph_.events.size());
  std::size_t begin = graph_.events.size(), backward_begin = begin, end = 0, backward_end = 0;
  std::vector<std::pair<std::string_view, std::size_t>> regions;  // and where their backward begins
  for (const std::string& path : option.regions) regions.emplace_back(path, graph_.events.size());
  for (std::size_t b = option.first; b < option.end; ++b) {
    const GraphRegion& block = *blocks_[b].region;
    begin = std::min(begin, block.forward_begin);
    end = std::max(end, block.forward_end);
    backward_begin = std::min(backward_begin, block.backward_begin);
    backward_end = std::max(backward_end, block.backward_end);
    for (auto& [path, from] : regions) {
      if (lies_in(block.path, path)) from = std::min(from, block.backward_begin);
      for (const GraphRegion* part : blocks_[b].parts)
        if (part->path == path) from = part->backward_begin;
    }
  }
  const auto hold = [&](std::size_t i) {
    const GraphTensor& tensor = graph_.tensors[i];
    std::size_t held_from = 0;
    for (const auto& [path, from] : regions)
      if (is_inside(tensor, path)) held_from = std::max(held_from, from);
    if (held_from == 0) {
      effect.bytes += holdings[i].bytes - tensor.held_bytes;
      effect.cost += holdings[i].cost;
      sweep.add(tensor.birth, tensor.last_use + 1, holdings[i].bytes - tensor.held_bytes);
      return;
    }
    effect.bytes -= tensor.held_bytes;
    sweep.add(tensor.birth, held_from, -tensor.held_bytes);
    if (tensor.can_quantize)  // a recomputed region holds it exactly
      sweep.add(held_from, tensor.last_use + 1, tensor.size.exact_bytes - tensor.held_bytes);
  };
  for (std::size_t b = option.first; b < option.end; ++b) {
    for (const std::size_t i : blocks_[b].region->inner) hold(i);
    for (const std::size_t i : blocks_[b].link) hold(i);
  }
  if (option.end < blocks_.size() && !regions.empty() &&
      lies_in(blocks_[option.end - 1].region->path, regions.front().first))
    for (const std::size_t i : blocks_[option.end].link) {
      const GraphTensor& tensor = graph_.tensors[i];
      if (!is_output(tensor, regions.front().first)) continue;
      constexpr int usual_bits = 4;  // it has no sensitivity yet
      const std::int64_t bytes = quantizes_ ? held_bytes(tensor.size, usual_bits) : tensor.size.exact_bytes;
      effect.bytes += bytes;
      sweep.add(tensor.birth, tensor.first_use, bytes);
    }
  if (o_.of_saved) return effect;
  effect.highest = std::max(sweep.highest(graph_.events, begin, end),
                            sweep.highest(graph_.events, backward_begin, std::max(backward_begin, backward_end)));
  return effect;
}

std::vector<CheckpointSearch::Path> CheckpointSearch::best(double price, std::int64_t budget) const {
  struct State {
    std::int64_t bytes;  // more than in the recorded step, held while the blocks behind run
    double cost;
    std::size_t before, option;  // the state of the block before, and what led here
  };
  const std::vector<Holding> held = holdings(price);
  State start{0, 0, 0, 0};
  for (std::size_t i = 0; i < held.size(); ++i)
    if (!in_blocks_[i]) {
      start.bytes += held[i].bytes - graph_.tensors[i].held_bytes;
      start.cost += held[i].cost;
    }
  // What remains to be saved of the recorded step behind each block is not known to fit until the end.
  std::vector<std::vector<State>> fronts(blocks_.size() + 1);
  fronts.front().push_back(start);
  std::size_t at = 0;
  const auto prune = [](std::vector<State>& front) {
    std::ranges::sort(
        front, [](const State& a, const State& b) { return a.bytes != b.bytes ? a.bytes < b.bytes : a.cost < b.cost; });
    std::vector<State> kept;
    for (const State& state : front)
      if (kept.empty() || state.cost < kept.back().cost * (1 - 1e-12)) kept.push_back(state);
    constexpr std::size_t most = 400;
    if (kept.size() > most) {
      std::vector<State> thinned;
      for (std::size_t i = 0; i < most; ++i) thinned.push_back(kept[i * (kept.size() - 1) / (most - 1)]);
      kept = std::move(thinned);
    }
    front = std::move(kept);
  };
  for (std::size_t k = 0; k < options_.size(); ++k) {
    const Option& option = options_[k];
    for (; at < option.first; ++at) prune(fronts[at + 1]);  // options come in the order of their first block
    const Effect effect = this->effect(option, held);
    for (std::size_t s = 0; s < fronts[option.first].size(); ++s) {
      const State& before = fronts[option.first][s];
      if (!o_.of_saved && before.bytes + effect.highest + o_.beside_step > budget) continue;
      fronts[option.end].push_back({before.bytes + effect.bytes, before.cost + effect.cost, s, k});
    }
  }
  if (!blocks_.empty()) prune(fronts.back());
  // Between the blocks' forward and backward passes all that they save is held.
  std::size_t forward_end = 0, backward_begin = graph_.events.size();
  for (const Block& block : blocks_) {
    forward_end = std::max(forward_end, block.region->forward_end);
    backward_begin = std::min(backward_begin, block.region->backward_begin);
  }
  const std::int64_t between =
      o_.of_saved
          ? graph_.recorded_bytes.saved
          : IntervalSweep(graph_.events.size()).highest(graph_.events, forward_end, backward_begin) + o_.beside_step;
  std::vector<Path> paths;
  constexpr std::size_t most = 3;
  for (std::size_t s = fronts.back().size(); s-- > 0 && paths.size() < most;) {  // the cheapest have most bytes
    State state = fronts.back()[s];
    if (between + state.bytes > budget) continue;
    Path path{{}, between + state.bytes, state.cost};
    std::vector<std::size_t> chosen;
    for (std::size_t block = blocks_.size(); block > 0;) {
      chosen.push_back(state.option);
      block = options_[state.option].first;
      state = fronts[block][state.before];
    }
    for (auto option = chosen.rbegin(); option != chosen.rend(); ++option)
      path.regions.insert(path.regions.end(), options_[*option].regions.begin(), options_[*option].regions.end());
    paths.push_back(std::move(path));
  }
  return paths;
}

std::vector<std::vector<std::string>> CheckpointSearch::uniform() const {
  using Regions = std::vector<std::string>;
  std::vector<BlockRange> sequences;
  Regions alone, parts;  // blocks of no sequence
  std::map<std::string, Regions> by_name;
  std::int64_t longest = 1;
  for (const Block& block : blocks_) {
    const GraphRegion& region = *block.region;
    if (region.sequence.empty())
      alone.push_back(region.path);
    else if (!sequences.empty() && sequences.back().sequence == region.sequence)
      sequences.back().last = region.index;
    else
      sequences.push_back({region.sequence, region.index, region.index});
    if (!sequences.empty()) longest = std::max(longest, sequences.back().last - sequences.back().first + 1);
    for (const GraphRegion* part : block.parts) {
      parts.push_back(part->path);
      by_name[part->path.substr(part->path.rfind('.') + 1)].push_back(part->path);
    }
  }
  std::vector<Regions> all{{}};
  const auto add = [&](Regions regions, const Regions& more) {
    for (const std::string& path : more)
      if (std::ranges::find(regions, path) == regions.end()) regions.push_back(path);
    all.push_back(std::move(regions));
  };
  Regions blocks = alone;
  for (const BlockRange& range : runs_of(sequences, 1)) blocks.push_back(range.path());
  for (std::int64_t length = 1; length <= longest; ++length) {
    Regions runs = alone;
    for (const BlockRange& range : runs_of(sequences, length)) runs.push_back(range.path());
    add(runs, {});
    if (length > 1) add(runs, blocks);
    Regions nested = runs;
    for (const std::string& block : blocks)
      if (std::ranges::find(nested, block) == nested.end()) nested.push_back(block);
    for (const auto& [name, paths] : by_name) add(nested, paths);
    if (by_name.size() > 1) add(nested, parts);
  }
  for (const auto& [name, paths] : by_name) add(paths, {});
  if (by_name.size() > 1) add(parts, {});
  // Some of the blocks alone: where the others hold less than they do while they are recomputed.
  for (std::size_t count = 1; count < blocks.size(); ++count) add({blocks.begin(), blocks.begin() + count}, {});
  return all;
}

std::string CheckpointSearch::describe(const StepGraph& graph, const std::vector<std::string>& regions) {
  std::int64_t blocks = 0, whole = 0, parts = 0, joined = 0;
  for (const Block& block : blocks_of(graph)) {
    ++blocks;
    const auto covers = [&](const std::string& region) { return lies_in(block.region->path, region); };
    whole += std::ranges::any_of(regions, covers) ? 1 : 0;
    for (const GraphRegion* part : block.parts) parts += std::ranges::count(regions, part->path);
  }
  for (const std::string& region : regions)
    joined +=
        std::ranges::none_of(graph.regions, [&](const GraphRegion& known) { return known.path == region; }) ? 1 : 0;
  std::string text = "recomputed: ";
  if (whole > 0 || parts == 0) text += fmt::format("{} of {} blocks", whole, blocks);
  if (joined > 0)
    text += fmt::format(", {} as several in one", joined == 1 ? "1 region" : fmt::format("{} regions", joined));
  if (parts > 0)
    text +=
        fmt::format("{}{} of blocks", whole > 0 ? " and " : "", parts == 1 ? "1 part" : fmt::format("{} parts", parts));
  return text;
}

}  // namespace lacuna
