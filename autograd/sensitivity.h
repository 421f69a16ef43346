// What codes do to the gradient, measured while backward runs.
#pragma once

#include "core/ledger.h"

#include <map>
#include <string>
#include <vector>

namespace lacuna {

/// Gathers, node by node in the order of backward, how much coarser codes of one slot change the gradients.
///
/// The error of a parameter's gradient counts as it is. That of a gradient which flows on reaches every parameter
/// behind it: it is taken to be, relative to their gradients, what it is relative to the gradient that carries it.
class SensitivityRecord {
 public:
  /// Slot `key` was held in `bits` more coarsely than it is, for one node: the squared change of the gradients of
  /// parameters, and of those that flow on relative to their squares.
  void add(const std::string& key, int bits, double parameter_change, double relative_flow_change);
  /// A node's own squared gradients of parameters.
  void add_gradients(double square) { nodes_.push_back({.gradients = square}); }

  /// Of each slot: the variance of the whole gradient that one bit would cause.
  std::map<std::string, double> sensitivities() const;

 private:
  struct Change {
    std::string key;
    int bits;
    double parameters, flow;
  };
  struct Node {
    double gradients = 0;
    std::vector<Change> changes = {};
  };
  std::vector<Node> nodes_;
};

}  // namespace lacuna
