#include "tests/ops/op_run.h"

#include "ops/quantize/sign_mask.h"
#include "tests/ops/operand_forms.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lacuna {

double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-11;
    case DType::f32:
      return 2e-5;
    default:
      return 4e-2;
  }
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.count() != b.count()) return false;
  const Tensor left = a.to(Device::cpu), right = b.to(Device::cpu);
  return a.count() == 0 || std::memcmp(left.raw(), right.raw(), static_cast<std::size_t>(a.bytes())) == 0;
}

double largest(const std::vector<double>& values) {
  double magnitude = 0;
  for (const double v : values)
    if (std::isfinite(v)) magnitude = std::max(magnitude, std::abs(v));
  return magnitude;
}

double relative_error(const Tensor& got, const Tensor& expected, double floor) {
  const std::vector<double> a = got.to_vector(), b = expected.to_vector();
  REQUIRE(a.size() == b.size());
  double difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i]) && std::isfinite(b[i]))
      difference = std::max(difference, std::abs(a[i] - b[i]));
    else if (a[i] != b[i])
      return INFINITY;
  }
  return difference / std::max(largest(b), floor);
}

std::vector<Tensor> each(const std::vector<Tensor>& tensors, const std::function<Tensor(const Tensor&)>& f) {
  std::vector<Tensor> results;
  for (const Tensor& tensor : tensors) results.push_back(tensor.defined() ? f(tensor) : Tensor());
  return results;
}

Tensor in_double(const Tensor& tensor) { return is_floating(tensor.dtype()) ? tensor.to(DType::f64) : tensor; }

const Tensor& Result::at(Source source) const {
  if (source.kind == Source::Kind::output) return outputs[source.index];
  const std::vector<Tensor>& all = source.kind == Source::Kind::input ? inputs : extra_outputs;
  static const Tensor none;  // an extra output that the op did not give
  return source.index < all.size() ? all[source.index] : none;
}
const Tensor& Result::y() const {
  REQUIRE(outputs.size() == 1);
  return outputs.front();
}

Result forward(const Operation& op, std::vector<Tensor> inputs) {
  Result result{.inputs = std::move(inputs), .outputs = {}, .extra_outputs = {}};
  result.outputs = op.forward(result.inputs, result.extra_outputs);
  return result;
}

namespace {

/// Gives backward what the op's table says it may have, and throws when it asks for more.
class DeclaredTensors final : public SavedTensors {
 public:
  DeclaredTensors(const Operation& op, const Result& result, InputSet wanted, Form form)
      : op_(op), result_(result), wanted_(wanted), form_(form) {}

  bool present(std::size_t row) const override {
    const Save& save = op_.saves()[row];
    const bool is_lossless = form_ != Form::quantized && form_ != Form::decoded;
    return result_.at(save.from).defined() && (save.when == When::always || is_lossless);
  }
  Operand operand(std::size_t row) const override {
    const Tensor& tensor = declared(row);
    const Need need = op_.saves()[row].need;
    if (tensor.is_coded()) return Operand(tensor);  // a parameter, which is always kept
    if (need == Need::sign && form_ == Form::bits)
      return Operand(SignForm{quant::pack_signs(tensor)}, tensor.shape(), tensor.dtype(), tensor.device(), {}, {});
    if (form_ == Form::copied && need != Need::sign) return copied_operand(tensor);
    if (need != Need::value || !is_floating(tensor.dtype())) return Operand(tensor);
    if (form_ == Form::quantized) return quantized_operand(tensor);
    return Operand(form_ == Form::decoded ? quantized_operand(tensor).whole() : tensor);
  }
  Shape shape(std::size_t row) const override { return declared(row).shape(); }

 private:
  const Tensor& declared(std::size_t row) const {
    const Save& save = op_.saves()[row];
    expect(save.for_grad_of.intersects(wanted_), "{} reads row {} of its saves, which no wanted gradient needs",
           op_.name(), row);
    const Tensor& tensor = result_.at(save.from);
    expect(tensor.defined(), "{} reads row {} of its saves, an absent input", op_.name(), row);
    return tensor;
  }

  const Operation& op_;
  const Result& result_;
  InputSet wanted_;
  Form form_;
};

}  // namespace

std::vector<Tensor> backward(const Operation& op, const Result& result, std::vector<Tensor> dy, InputSet wanted,
                             Form form, const std::vector<Tensor>& present) {
  Grads grads(result.inputs.size(), wanted);
  for (std::size_t i = 0; i < present.size(); ++i) grads[static_cast<int>(i)] = present[i];
  op.backward(std::move(dy), DeclaredTensors(op, result, wanted, form), grads);
  std::vector<Tensor> gradients;
  for (std::size_t i = 0; i < grads.size(); ++i) gradients.push_back(std::move(grads[static_cast<int>(i)]));
  return gradients;
}

Tensor projection(const Tensor& y, std::uint32_t site) {
  return sample_values(y.shape(), y.dtype(), site).to(y.device());
}

std::vector<Tensor> projections(const Result& result) {
  std::vector<Tensor> all;
  for (const Tensor& y : result.outputs) all.push_back(projection(y, 12345 + static_cast<std::uint32_t>(all.size())));
  return all;
}

std::vector<Tensor> clones(const std::vector<Tensor>& tensors) {
  return each(tensors, [](const Tensor& t) { return t.clone(); });
}

std::vector<std::vector<Tensor>> selections(const std::vector<Tensor>& dy) {
  std::vector<std::vector<Tensor>> all;
  for (unsigned bits = (1U << dy.size()) - 1; bits > 0; --bits) {
    all.push_back(dy);
    for (std::size_t i = 0; i < dy.size(); ++i)
      if ((bits >> i & 1U) == 0) all.back()[i] = {};
  }
  return all;
}

std::vector<InputSet> subsets(const OpSample& sample) {
  std::vector<int> inputs;
  for (int i = 0; i < 32; ++i)
    if (sample.differentiable.contains(i)) inputs.push_back(i);
  std::vector<InputSet> sets;
  for (unsigned bits = 1; bits < 1U << inputs.size(); ++bits) {
    InputSet set;
    for (std::size_t k = 0; k < inputs.size(); ++k)
      if ((bits >> k & 1U) != 0) set.insert(inputs[k]);
    sets.push_back(set);
  }
  return sets;
}

}  // namespace lacuna
