// lacuna verify: compares a model with a public implementation's results.
#include "apps/command.h"
#include "apps/commands/reference.h"
#include "apps/output/output.h"
#include "apps/train/crowding.h"
#include "autograd/policy.h"
#include "core/error.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <nlohmann/json.hpp>

namespace lacuna::apps {
namespace {

class Verify {
 public:
  explicit Verify(CLI::App& app) {
    app.add_option("file", file_, "reference file")->type_name("GOLDEN.safetensors")->required();
    app.add_option("--policy", policy_, "memory policy, one that is exact")->capture_default_str();
    app.add_option("--precision", precision_,
                   "type of the activations: f64 for a file whose results were computed in f64")
        ->check(CLI::IsMember({"f32", "f64"}))
        ->capture_default_str();
    app.add_option("--tolerance", tolerance_, "largest difference relative to a tensor's largest magnitude")
        ->capture_default_str()
        ->check(CLI::Range(reference_tolerance_f64, 1.0));
    report_.declare(app);
  }

  ExitCode operator()() const {
    if (policy_ == "auto")
      reject("--policy: auto needs a memory plan, and a reference file has none: expected exact or keep");
    if (make_policy(policy_)->quantizes())
      reject(
          "--policy: {} quantizes tensors, which changes gradients by design: expected exact or keep. "
          "docs/quantization.md says by how much",
          policy_);
    warn_if_crowded();
    const ReferenceReport result =
        compare_with_reference(SafetensorsFile(file_), policy_, precision_ == "f64" ? DType::f64 : DType::f32);
    nlohmann::ordered_json tensors = nlohmann::json::array();
    std::string text = fmt::format("{:>12} {:>12} {:>12}  {}\n", "difference", "magnitude", "relative", "tensor");
    for (const ReferenceTensor& tensor : result.tensors) {
      text += fmt::format("{:12.4g} {:12.4g} {:12.4g}  {}{}\n", tensor.difference, tensor.magnitude, tensor.relative(),
                          tensor.name, agrees(tensor) ? "" : "  <- too large");
      tensors.push_back({{"name", tensor.name},
                         {"difference", tensor.difference},
                         {"magnitude", tensor.magnitude},
                         {"relative", tensor.relative()}});
    }
    const ReferenceTensor& worst = result.worst();
    if (result.repetition > 0)
      text += fmt::format(
          "repetition {}, inputs perturbed by rounding: some ReLU inputs are exactly 0, where its gradient jumps\n",
          result.repetition);
    if (result.stepped_alike > 0)
      text += fmt::format("{} elements of gradients are zero within the tolerance: the step is from the file's there\n",
                          result.stepped_alike);
    text += fmt::format("{}: {} tensors, the worst is {}: {:.4g} relative to its magnitude, allowed {:g}: {}\n",
                        result.model, result.tensors.size(), worst.name, worst.relative(), tolerance_,
                        agrees(worst) ? "passed" : "FAILED");
    report_.write(text, {{"model", result.model},
                         {"policy", policy_},
                         {"precision", precision_},
                         {"tolerance", tolerance_},
                         {"passed", agrees(worst)},
                         {"repetition", result.repetition},
                         {"stepped_alike", result.stepped_alike},
                         {"worst", {{"name", worst.name}, {"relative", worst.relative()}}},
                         {"tensors", tensors}});
    expect(agrees(worst), "{}: {} differs by {:.4g} relative to its largest magnitude, more than {:g}", file_,
           worst.name, worst.relative(), tolerance_);
    return 0;
  }

 private:
  bool agrees(const ReferenceTensor& tensor) const { return tensor.relative() <= tolerance_; }

  std::string file_;
  std::string policy_ = "exact", precision_ = "f32";
  double tolerance_ = reference_tolerance;
  Report report_;
};

const RegisterCommand verify(70, "verify", "compare a model with a reference file, for example from timm",
                             declare<Verify>);

}  // namespace
}  // namespace lacuna::apps
