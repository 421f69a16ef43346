#include "autograd/op_node.h"

#include "ops/operand.h"

namespace lacuna {
namespace {

/// The saved tensors of a node, in the shapes in which its op saw them.
class NodeTensors final : public SavedTensors {
 public:
  explicit NodeTensors(const OpNode& node) : node_(node) {}

  bool present(std::size_t row) const override {
    return node_.saved[row] != nullptr &&
           (node_.operation->saves()[row].when != When::held || node_.saved[row]->is_kept());
  }
  Operand operand(std::size_t row) const override {
    const Save& save = node_.operation->saves()[row];
    const Shape& shape = node_.saved_shapes[row];
    return save.need == Need::sign ? saved(row).signs(shape, node_.op, save.optional)
                                   : saved(row).operand(shape, node_.op);
  }
  Shape shape(std::size_t row) const override { return node_.saved_shapes[row]; }

 private:
  SavedTensor& saved(std::size_t row) const {
    expect(node_.saved[row] != nullptr, "{} in {} reads a tensor that no wanted gradient needs: row {} of its saves",
           node_.op.text(), node_.path.text(), row);
    return *node_.saved[row];
  }
  const OpNode& node_;
};

/// Multiply-adds of a node's backward. The gradient of each operand of a matrix product takes as many as forward.
std::int64_t macs_of_gradients(const OpNode& node) {
  const InputSet factors = node.operation->matmul_operands();
  if (factors.empty()) return 0;
  return 2 * node.operation->macs(node.inputs, node.outputs.front()) * (factors & node.wanted).size() / factors.size();
}

}  // namespace

std::int64_t bytes_of(std::span<const Tensor> tensors) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : tensors)
    if (tensor.defined()) bytes += tensor.bytes();
  return bytes;
}

void OpNode::backward(std::vector<Tensor> output_gradients, BackwardPass& pass) {
  const AllocationScope scope({pass.purpose(), op, path});
  Grads grads(edges.size(), wanted);
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const int input = static_cast<int>(i);
    if (!wanted.contains(input) || !operation->accumulates_into().contains(input)) continue;
    if (edges[i].leaf && edges[i].leaf->gradient_type) continue;  // an op adds only to gradients of its own type
    if (Tensor gathered = pass.take_gradient(edges[i]); gathered.defined())
      grads[input] = std::move(gathered).reshape(inputs[i]);
  }
  Observer* const observer = pass.observer();
  std::int64_t bytes_read = bytes_of(output_gradients);
  if (observer != nullptr) {
    for (const SavedTensorPtr& tensor : saved)
      if (tensor) bytes_read += tensor->read_bytes();
    observer->before(Phase::backward, *operation, path);
  }
  operation->backward(std::move(output_gradients), NodeTensors(*this), grads);
  if (observer != nullptr) {
    std::vector<Tensor> results;
    for (std::size_t i = 0; i < grads.size(); ++i)
      if (grads[static_cast<int>(i)].defined()) results.push_back(grads[static_cast<int>(i)]);
    observer->after(Phase::backward, *operation, path, {bytes_read + bytes_of(results), macs_of_gradients(*this)},
                    results);
  }
  pass.release_readers(*this);
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const int input = static_cast<int>(i);
    if (!wanted.contains(input)) continue;
    expect(grads[input].defined(), "{} gave no gradient for input {}, which requires one", op.text(), i);
    pass.accumulate_grad(*this, i, std::move(grads[input]));
    if (edges[i].leaf) pass.leaf_done(*edges[i].leaf);
  }
}

}  // namespace lacuna
