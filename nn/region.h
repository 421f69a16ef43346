// Parts of a model that a memory policy may recompute in backward.
#pragma once

#include "autograd/checkpoint.h"
#include "nn/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace lacuna {

inline bool trains(const Module& module) {
  const std::vector<Parameter*> parameters = module.parameters();
  return std::any_of(parameters.begin(), parameters.end(), [](const Parameter* one) { return one->trainable(); });
}

/// Runs `body(x)`, the forward pass of `module`. If the memory policy checkpoints this module, only x is saved and
/// backward recomputes the body, so the body must depend only on x, the module and the random state. The policy is not
/// asked about a frozen module without a gradient to pass on, which saves nothing.
template <class Body>
Variable run_region(const Module& module, Variable x, const Body& body) {
  if ((!trains(module) && !x.requires_grad()) || recomputes({.path = module.path()}) == 0) return body(std::move(x));
  return checkpoint(Label(module.path()), body, std::move(x));
}

/// Runs `body(inputs)` in the same way; all inputs are saved if the module is checkpointed.
template <class Body>
Variable run_region(const Module& module, std::vector<Variable> inputs, const Body& body) {
  const bool needs_grad =
      trains(module) || std::any_of(inputs.begin(), inputs.end(), [](const Variable& x) { return x.requires_grad(); });
  if (!needs_grad || recomputes({.path = module.path()}) == 0) return body(std::move(inputs));
  const CheckpointFunction function = [body](std::vector<Variable> in) { return std::vector{body(std::move(in))}; };
  return checkpoint(Label(module.path()), function, std::move(inputs)).front();
}

/// Runs modules `first` to `end` of a sequence in order, each by `forward(block, x)`; their paths are `blocks.0`,
/// `blocks.1` and so on. The memory policy may checkpoint consecutive ones as one region, `blocks.4-7`, or all of them,
/// `blocks`. The restrictions on the body of `run_region` apply to `forward`.
template <class Block, class Forward>
Variable run_sequence(const std::vector<std::unique_ptr<Block>>& blocks, std::size_t first, std::size_t end, Variable x,
                      const Forward& forward) {
  const std::string& path = blocks.front()->path();
  const std::string sequence = path.substr(0, path.rfind('.'));
  while (first < end) {
    const auto together = static_cast<std::size_t>(recomputes({.path = sequence,
                                                               .first = static_cast<std::int64_t>(first),
                                                               .end = static_cast<std::int64_t>(end),
                                                               .count = std::ssize(blocks)}));
    const std::size_t next = first + std::max<std::size_t>(together, 1);
    const bool needs_grad =
        x.requires_grad() || std::any_of(blocks.begin() + first, blocks.begin() + next,
                                         [](const std::unique_ptr<Block>& block) { return trains(*block); });
    if (together == 0 || !needs_grad) {
      for (; first < next; ++first) x = forward(*blocks[first], std::move(x));
      continue;
    }
    const Label region(together == blocks.size() ? sequence : fmt::format("{}.{}-{}", sequence, first, next - 1));
    x = checkpoint(
        region,
        [&blocks, first, next, forward](Variable in) {
          return run_sequence(blocks, first, next, std::move(in), forward);
        },
        std::move(x));
    first = next;
  }
  return x;
}

template <class Block, class Forward>
Variable run_sequence(const std::vector<std::unique_ptr<Block>>& blocks, Variable x, const Forward& forward) {
  return blocks.empty() ? x : run_sequence(blocks, 0, blocks.size(), std::move(x), forward);
}

}  // namespace lacuna
