// Communication between the processes of one training run.
#pragma once

#include "core/tensor.h"

#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <string_view>

namespace lacuna {

/// Bytes [begin, begin + bytes) of a buffer.
struct Section {
  std::size_t begin = 0, bytes = 0;
};

/// Collective operations over the ranks of a run. Every rank calls the same operations in the same order, from one
/// thread at a time. The communicator of a cuda device queues them on the device's stream, as kernels are.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The device whose memory is sent and received.
  virtual Device device() const { return Device::cpu; }
  /// The communicator of the same ranks for host memory.
  virtual Communicator& host() { return *this; }

  /// Replaces `bytes` by rank `root`'s.
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
  /// Gathers `mine` of every rank, in the order of the ranks. all: [size, bytes].
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  /// Section r of `send` goes to rank r; section r of `receive` came from rank r. to, from: [size].
  virtual void all_to_all(std::span<const std::byte> send, std::span<const Section> to, std::span<std::byte> receive,
                          std::span<const Section> from) = 0;
  /// Returns when all ranks have called it.
  virtual void barrier() = 0;
  /// A communicator of the same ranks on a separate channel, which another thread may use at the same time. Collective.
  virtual std::unique_ptr<Communicator> duplicate() = 0;
  /// Names the next operations, for the error message about a rank that does not take part in them.
  virtual void describe(std::string_view /*operation*/) {}
  /// Seconds after which a rank that does not take part ends all; infinite: never.
  virtual double timeout() const { return std::numeric_limits<double>::infinity(); }
  /// Ends the processes of all ranks with this exit code.
  [[noreturn]] virtual void abort(int code) = 0;

  /// All-to-all with sections of equal size. send, receive: [size, bytes].
  void all_to_all(std::span<const std::byte> send, std::span<std::byte> receive);
  /// Replaces `tensor` by its sum over all ranks, added in the order of the ranks: the result has the same bits on
  /// every rank and with every library. Here and in `broadcast`, a tensor on another device is staged through the
  /// communicator's device.
  void all_reduce(const Tensor& tensor);
  void broadcast(const Tensor& tensor, int root);

 protected:
  Communicator() = default;
};

/// A communicator of the ranks of `host` that sends directly between their GPUs; this rank's is `device`. Collective.
/// `host` must outlive it. The GPUs are joined by the first call and stay so for the life of the process: a call before
/// the first tensor of the device lets the library take its memory first.
std::unique_ptr<Communicator> device_ranks(Device device, Communicator& host);

/// The communicator of a single-process run. It sends nothing.
Communicator& single_process();

}  // namespace lacuna
