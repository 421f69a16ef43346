// The task `python`: a loss that is a Python function of the model's outputs and the targets of a batch.
#include "models/task.h"
#include "python/gil.h"
#include "python/given.h"
#include "python/tensors.h"

#include <algorithm>
#include <utility>

namespace lacuna::python {
namespace {

namespace nb = nanobind;

const Metric objective{.name = "objective", .higher_is_better = false, .sums = 2, .value = ratio_of_sums};

class OwnLoss final : public Task {
 public:
  explicit OwnLoss(const Model& model) : Task({objective}), inputs_(model.inputs()) {}

  /// All that the data set has beside the model's inputs.
  SampleFields targets() const override {
    SampleFields fields;
    for (const SampleField& field : data().fields)
      if (!is_input(field.name)) fields.push_back(field);
    return fields;
  }

  TaskResult run(Model& model, Inputs batch, TaskMode /*mode*/) const override {
    NamedValues<Variable> targets;
    std::int64_t samples = 1;
    for (const auto& [name, variable] : batch)
      if (!is_input(name)) targets.set(name, Variable(on_device(variable.tensor(), model.context().device)));
    for (const SampleField& input : inputs_) {
      const bool is_packed = input.collation == Collation::packed;
      const std::string counted = input.collation == Collation::stacked ? input.name : lengths_of(input);
      if (batch.contains(counted)) samples = batch[counted].shape().front() - (is_packed ? 1 : 0);
    }
    Outputs outputs = model.forward(std::move(batch));
    TaskResult result;
    {
      const PythonScope scope;
      const nb::object loss = given().loss(to_python(std::exchange(outputs, {})), to_python(targets));
      if (!nb::try_cast(loss, result.loss) || !result.loss.defined() || result.loss.shape().count() != 1)
        reject("loss: expected a Tensor of one element, got {}", nb::cast<std::string>(nb::str(nb::repr(loss))));
    }
    result.loss = result.loss.reshape({});
    const Tensor value = result.loss.tensor();
    count_on_host(
        value.device(),
        [value, samples] {
          const double weight = static_cast<double>(samples);
          const double sum = value.device() == Device::meta ? 0 : value.item() * weight;
          return std::vector{Tensor::from(std::vector{sum, weight}, {2})};
        },
        result);
    return result;
  }

 private:
  bool is_input(const std::string& name) const {
    return std::ranges::find(inputs_, name, &SampleField::name) != inputs_.end();
  }

  SampleFields inputs_;
};

const RegisterTask python("python",
                          {.options = {}, .make = [](const Options&, const Model& model) {
                             const PythonScope scope;
                             if (!given().loss.is_valid() || given().loss.is_none())
                               reject("task python: expected loss=, a function of outputs and targets, got none");
                             return std::make_unique<OwnLoss>(model);
                           }});

}  // namespace
}  // namespace lacuna::python
