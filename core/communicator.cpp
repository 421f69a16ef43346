#include "core/communicator.h"

#include "core/collectives.h"
#include "core/device_ranks.h"
#include "core/kernel_scope.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace lacuna {
namespace {

class SingleProcess final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void broadcast(std::span<std::byte>, int root) override {
    expect(root == 0, "expected rank 0, the only one, as the root, got {}", root);
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    std::ranges::copy(mine, all.begin());
  }
  void all_to_all(std::span<const std::byte> send, std::span<const Section> to, std::span<std::byte> receive,
                  std::span<const Section> from) override {
    std::ranges::copy(send.subspan(to[0].begin, to[0].bytes), receive.subspan(from[0].begin).begin());
  }
  void barrier() override {}
  std::unique_ptr<Communicator> duplicate() override { return std::make_unique<SingleProcess>(); }
  void abort(int code) override { std::_Exit(code); }
};

}  // namespace

Communicator& single_process() {
  static SingleProcess alone;
  return alone;
}

std::unique_ptr<Communicator> device_ranks(Device device, Communicator& host) {
  std::unique_ptr<Communicator> made;
  open_device_ranks(device, device, host, made);
  return made;
}

void Communicator::broadcast(const Tensor& tensor, int root) {
  const Tensor here = tensor.to(device());
  broadcast(std::span(here.raw(), static_cast<std::size_t>(here.bytes())), root);
  if (tensor.device() != device()) tensor.copy_from(here);
}

void Communicator::all_to_all(std::span<const std::byte> send, std::span<std::byte> receive) {
  const auto ranks = static_cast<std::size_t>(size());
  expect(send.size() == receive.size() && send.size() % ranks == 0, "cannot exchange {} bytes for {} among {} ranks",
         send.size(), receive.size(), ranks);
  std::vector<Section> rows;
  for (std::size_t rank = 0; rank < ranks; ++rank) rows.push_back({rank * send.size() / ranks, send.size() / ranks});
  all_to_all(send, rows, receive, rows);
}

void Communicator::all_reduce(const Tensor& tensor) {
  if (size() == 1 || tensor.device() == Device::meta) return;
  const RankOrderSum sum(*this, tensor.count(), tensor.dtype(), tensor.dtype());
  sum.put(0, tensor.to(device()));
  sum.run(tensor.count());
  if (tensor.device() == device()) return sum.take(0, tensor);
  const Tensor here = Tensor::empty(tensor.shape(), tensor.dtype(), device());
  sum.take(0, here);
  tensor.copy_from(here);
}

}  // namespace lacuna
