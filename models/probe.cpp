#include "models/probe.h"

#include "autograd/op_mode.h"
#include "data/loader.h"
#include "nn/init.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace lacuna {
namespace {

const Parameter* find_parameter(const Model& model, const std::string& path) {
  const std::vector<Parameter*> all = model.parameters();
  const auto found = std::ranges::find(all, path, &Parameter::path);
  return found == all.end() ? nullptr : *found;
}

/// [num_classes, width]
const Parameter& head_weight(const Model& classifier) {
  const std::string& head = probed_head(classifier);
  const Parameter* const weight = find_parameter(classifier, head + ".weight");
  expect(weight != nullptr && weight->shape().rank() == 2, "probe: expected the head {} to be a linear layer", head);
  return *weight;
}

ModelSignature signature_of(const Model& classifier, std::size_t heads) {
  ModelSignature signature{.inputs = {{.name = "features",
                                       .dtype = classifier.context().dtype,
                                       .shape = {head_weight(classifier).shape()[1]}}},
                           .num_classes = classifier.num_classes(),
                           .heads = {}};
  for (std::size_t k = 0; k < heads; ++k) signature.heads.push_back(fmt::format("heads.{}", k));
  return signature;
}

/// Keeps what the layer at a path reads.
class LayerInput final : public OpMode {
 public:
  explicit LayerInput(std::string path) : path_(std::move(path)) {}

  void after(const Operation&, const std::vector<Variable>& inputs, const std::vector<Variable>&,
             const std::vector<Tensor>&) override {
    if (AllocationScope::current().path.text() == path_) input_ = inputs.front().tensor();
  }
  Tensor take() { return std::exchange(input_, {}); }

 private:
  std::string path_;
  Tensor input_;
};

}  // namespace

const std::string& probed_head(const Model& classifier) {
  if (classifier.heads().size() != 1)
    reject("task probe: expected a model with one head, this one has {}: {}", classifier.heads().size(),
           fmt::join(classifier.heads(), ", "));
  return classifier.heads().front();
}

ProbeHeads::ProbeHeads(const Model& classifier, std::vector<double> rates)
    : Model(classifier.context(), signature_of(classifier, rates.size())), rates_(std::move(rates)) {
  constexpr double deviation = 0.01;
  const Shape& shape = head_weight(classifier).shape();
  const bool bias = find_parameter(classifier, probed_head(classifier) + ".bias") != nullptr;
  for (const std::string& path : heads())
    heads_.push_back(std::make_unique<nn::Linear>(
        *this, path, shape[1], shape[0],
        nn::LinearOptions{.bias = bias, .init = {init::normal(deviation), init::constant(0)}}));
  for (const std::unique_ptr<nn::Linear>& head : heads_)
    head->weight().tensor().copy_from(heads_.front()->weight().tensor());
}

ProbeHeads::~ProbeHeads() = default;

Outputs ProbeHeads::forward(Inputs inputs) {
  const Variable features = inputs.take("features", context().device);
  Outputs outputs;
  for (std::size_t k = 0; k < heads_.size(); ++k)
    outputs.set(fmt::format("logits_{}", k), heads_[k]->forward(features));
  return outputs;
}

std::vector<GroupRule> ProbeHeads::rate_rules() const {
  std::vector<GroupRule> rules;
  for (std::size_t k = 0; k < rates_.size(); ++k)
    rules.push_back({.pattern = heads()[k] + ".*", .lr_scale = rates_[k], .weight_decay = {}});
  return rules;
}

std::size_t ProbeHeads::best(const std::optional<Evaluation>& evaluation) const {
  if (!evaluation) return 0;
  const auto accuracy = [&](double rate) { return evaluation->metrics.at(probe_metric(rate)); };
  return static_cast<std::size_t>(std::ranges::max_element(rates_, {}, accuracy) - rates_.begin());
}

void ProbeHeads::copy_head(std::size_t head, const Model& classifier) const {
  for (const char* const name : {".weight", ".bias"})
    if (const Parameter* const to = find_parameter(classifier, probed_head(classifier) + name))
      to->tensor().copy_from(find_parameter(*this, heads()[head] + name)->tensor());
}

std::string probe_metric(double rate) { return fmt::format("rate_{}_accuracy", rate); }

bool compute_features(Model& classifier, const Batches& batches, const NamedTensors& into, int workers,
                      const std::function<bool(std::int64_t samples)>& go_on) {
  const NoGrad no_grad;
  classifier.set_training(false);
  Loader loader(batches, {.end_epoch = 1, .workers = workers});
  std::int64_t done = 0;
  while (std::optional<Batch> batch = loader.next()) {
    expect(batch->damaged.empty(), "features are computed of all samples, and {} cannot be decoded",
           batch->damaged.empty() ? "" : batch->damaged.front().file);
    const std::int64_t end = done + batch->samples;
    for (const auto& [name, tensor] : into)
      if (name != "features") tensor.leading(done, end).copy_from(batch->at(name));
    LayerInput head(probed_head(classifier));
    classifier.forward(std::move(*batch));
    const Tensor features = head.take();
    const Tensor to = into["features"].leading(done, end);
    expect(features.defined() && features.shape() == to.shape(), "the head {} reads {}, expected {}",
           probed_head(classifier), features.defined() ? to_string(features.shape()) : "nothing", to.shape());
    to.copy_from(features);
    done = end;
    if (go_on && !go_on(done)) return false;
  }
  expect(done == batches.samples(), "the batches have {} of {} samples: features are computed of all", done,
         batches.samples());
  return true;
}

}  // namespace lacuna
