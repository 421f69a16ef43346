// Communication between the processes of one training run.
#pragma once

#include "core/tensor.h"

#include <vector>

namespace lacuna {

/// Collective operations: every rank calls the same ones in the same order. Tensors are changed in place.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Replaces `tensor` by its sum over all ranks, added in the order of the ranks: the same bits on every rank.
  virtual void all_reduce(const Tensor& tensor) = 0;
  /// Replaces `tensor` by that of rank `root`.
  virtual void broadcast(const Tensor& tensor, int root) = 0;
  /// The tensors of all ranks, in their order, on rank `root`; nothing on the others.
  virtual std::vector<Tensor> gather(const Tensor& tensor, int root) = 0;
  /// Returns when all ranks have called it.
  virtual void barrier() = 0;
};

/// The communicator of a run with one process: nothing is sent.
Communicator& single_process();

}  // namespace lacuna
