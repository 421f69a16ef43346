// What runs a node's backward: private to the tape's own files.
#pragma once

#include "autograd/tape.h"

namespace lacuna {

/// What a node's backward sees: its slots, in the shapes it knew them by.
class Tape::NodeTensors final : public SavedTensors {
 public:
  explicit NodeTensors(const Node& node) : node_(node), name_(node.op->name()) {}

  bool present(std::size_t row) const override { return node_.saved[row] != nullptr; }
  Tensor whole(std::size_t row) const override { return slot(row).whole(name_).reshape(node_.shapes[row]); }
  Tensor rows(std::size_t row, std::int64_t begin, std::int64_t end, Tensor* variance) const override {
    return slot(row).rows(begin, end, node_.shapes[row].back(), name_, variance);
  }
  std::int64_t block_rows(std::size_t row) const override { return slot(row).block_rows(node_.shapes[row].back()); }
  bool read_apart(std::size_t row, const RowPartition& share, bool with_variance,
                  const RowBlockKernel& f) const override {
    return slot(row).read_apart(share, node_.shapes[row].back(), with_variance, f);
  }
  Signs signs(std::size_t row) const override { return slot(row).signs(name_, node_.op->saves()[row].optional); }
  Shape shape(std::size_t row) const override { return node_.shapes[row]; }

 private:
  SavedTensor& slot(std::size_t row) const {
    expect(node_.saved[row] != nullptr, "{} in {} reads a tensor that no wanted gradient needs: row {} of its saves",
           name_.text(), node_.path.text(), row);
    return *node_.saved[row];
  }
  const Node& node_;
  Label name_;
};

}  // namespace lacuna
