#include "optim/shard.h"

#include "core/backend.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace lacuna {
namespace {

/// The memory of the parameters that one rank updates.
struct Share {
  std::vector<std::span<std::byte>> parts;
  std::size_t bytes = 0;
  /// Calls f(part of the memory, its place in the section) for bytes [begin, end).
  template <class F>
  void for_section(std::size_t begin, std::size_t end, const F& f) const {
    std::size_t at = 0;  // of a part
    for (const std::span<std::byte>& part : parts) {
      const std::size_t from = std::max(begin, at), to = std::min(end, at + part.size());
      if (from < to) f(part.subspan(from - at, to - from), from - begin);
      at += part.size();
    }
  }
};

void copy(std::byte* to, Device to_device, const std::byte* from, Device from_device, std::size_t bytes) {
  const Device device = to_device == Device::cpu ? from_device : to_device;
  if (device == Device::cpu) {
    std::memcpy(to, from, bytes);
    return;
  }
  const Stream stream = stream_of(device);
  if (to_device == Device::cpu)
    backend(device).copy_out(stream, to, from, bytes);
  else if (from_device == Device::cpu)
    backend(device).copy_in(stream, to, from, bytes);
  else
    backend(device).copy(stream, to, from, bytes);
}

}  // namespace

void share_updates(const Optimizer& optimizer, std::span<Parameter* const> parameters, Communicator& ranks) {
  if (parameters.empty()) return;
  std::vector<Share> shares(static_cast<std::size_t>(ranks.size()));
  for (Parameter* const parameter : parameters) {
    if (!parameter->trainable()) continue;
    Share& share = shares[static_cast<std::size_t>(optimizer.owner_of(*parameter))];
    const Tensor& tensor = parameter->tensor();
    share.parts.emplace_back(tensor.raw(), static_cast<std::size_t>(tensor.bytes()));
    share.bytes += share.parts.back().size();
  }
  const std::size_t longest = std::ranges::max(shares, {}, &Share::bytes).bytes;
  constexpr std::size_t most_at_once = std::size_t{4} << 20;  // bytes of a rank
  const std::size_t round = std::min(longest, most_at_once);
  const AllocationScope scope({Purpose::workspace, Label("shared parameters"), {}});
  const Device device = parameters.front()->tensor().device();
  const auto bytes = [&](std::int64_t rows) {
    return Tensor::zeros({rows, static_cast<std::int64_t>(round)}, DType::u8, ranks.device(), Purpose::workspace);
  };
  const Tensor mine = bytes(1), all = bytes(ranks.size());
  const auto own = static_cast<std::size_t>(ranks.rank());
  for (std::size_t begin = 0; begin < longest; begin += round) {
    const std::size_t width = std::min(round, longest - begin);
    shares[own].for_section(begin, begin + width, [&](std::span<std::byte> part, std::size_t place) {
      copy(mine.raw() + place, mine.device(), part.data(), device, part.size());
    });
    ranks.all_gather({mine.raw(), width}, {all.raw(), width * shares.size()});
    for (std::size_t rank = 0; rank < shares.size(); ++rank)
      if (rank != own)
        shares[rank].for_section(begin, begin + width, [&](std::span<std::byte> part, std::size_t place) {
          copy(part.data(), device, all.raw() + rank * width + place, all.device(), part.size());
        });
  }
  for (const Parameter* const parameter : parameters)
    if (parameter->trainable() && !optimizer.holds(*parameter)) parameter->tensor().bump_version();
}

}  // namespace lacuna
