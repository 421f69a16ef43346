// Communication between the processes of one training run.
#pragma once

#include "core/tensor.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace lacuna {

/// Bytes [begin, begin + bytes) of a buffer.
struct Section {
  std::size_t begin = 0, bytes = 0;
};

/// Collective operations over the ranks of a run: every rank calls the same ones in the same order, one thread at a
/// time. Of one for a cuda device operations are queued on the device's stream, as kernels are.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The device whose memory it sends and receives.
  virtual Device device() const { return Device::cpu; }
  /// The same ranks, for memory of the host.
  virtual Communicator& host() { return *this; }

  /// Replaces `bytes` by those of rank `root`.
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
  /// all: [size, bytes], what each rank gave as `mine`, in the order of the ranks.
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  /// Section r of `send` goes to rank r; section r of `receive` came from rank r. to, from: [size].
  virtual void all_to_all(std::span<const std::byte> send, std::span<const Section> to, std::span<std::byte> receive,
                          std::span<const Section> from) = 0;
  /// Returns when all ranks have called it.
  virtual void barrier() = 0;
  /// The same ranks on a channel of their own, which another thread may use at the same time. Collective.
  virtual std::unique_ptr<Communicator> duplicate() = 0;
  /// Names the operations to come, for the message about a rank that does not take part in them.
  virtual void describe(std::string_view /*operation*/) {}
  /// Ends the processes of all ranks with this exit code.
  [[noreturn]] virtual void abort(int code) = 0;

  /// The same for sections of equal size: send, receive: [size, bytes].
  void all_to_all(std::span<const std::byte> send, std::span<std::byte> receive);
  /// Replaces `tensor` by its sum over all ranks, added in the order of the ranks: the same bits on every rank and with
  /// every library. Both take a tensor of another device over the communicator's own.
  void all_reduce(const Tensor& tensor);
  void broadcast(const Tensor& tensor, int root);

 protected:
  Communicator() = default;
};

/// The ranks of `host`, between whose GPUs bytes travel without the host: this rank's is `device`. Collective; `host`
/// outlives it.
std::unique_ptr<Communicator> device_ranks(Device device, Communicator& host);

/// The communicator of a run with one process: nothing is sent.
Communicator& single_process();

}  // namespace lacuna
