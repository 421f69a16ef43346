// Linear probes: classifiers of the features of a frozen model. The features are computed once; many heads are trained
// on them at once, each with a learning rate of its own, as in DINOv2 (Oquab et al. 2023; dinov2/eval/linear.py).
#pragma once

#include "data/pipeline.h"
#include "models/checkpoint.h"
#include "models/model.h"
#include "nn/linear.h"
#include "optim/optimizer.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lacuna {

/// Path of the head of `classifier`. Refuses a model that has several, or none.
const std::string& probed_head(const Model& classifier);

/// Linear heads that are trained beside one another, each as if it were alone.
///
/// Input `features` [N, width]: what the head of a classifier reads. Outputs `logits_0`, `logits_1`, …: those of each
/// head, [N, num_classes]. All heads start from the same weights, N(0, 0.01²), and from biases of zero.
class ProbeHeads final : public Model {
 public:
  /// In the shape of the head of `classifier`, and on its device. `rates`: of each head, times the learning rate of a
  /// step.
  ProbeHeads(const Model& classifier, std::vector<double> rates);
  ~ProbeHeads() override;

  Outputs forward(Inputs inputs) override;
  const std::vector<double>& rates() const { return rates_; }
  /// Gives each head its rate.
  std::vector<GroupRule> rate_rules() const;

  /// The head with the best accuracy: the first one of several, or before any evaluation.
  std::size_t best(const std::optional<Evaluation>& evaluation) const;
  /// Sets the head of `classifier` to head `head`.
  void copy_head(std::size_t head, const Model& classifier) const;

 private:
  std::vector<double> rates_;
  std::vector<std::unique_ptr<nn::Linear>> heads_;
};

/// The metric of the head with this rate.
std::string probe_metric(double rate);

/// Writes what the head of `classifier` reads in evaluation to `into["features"]` [samples, width], for all samples of
/// `batches` in their order, and their targets to the other tensors, by name. `go_on` is asked after each batch, with
/// the number of samples so far, and ends the work with false; returns whether all is done.
bool compute_features(Model& classifier, const Batches& batches, const NamedTensors& into, int workers = 1,
                      const std::function<bool(std::int64_t samples)>& go_on = {});

}  // namespace lacuna
