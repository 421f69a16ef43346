// Images side by side along their channels.
#pragma once

#include "core/op.h"

namespace lacuna {

/// Inputs [..., C_i] of equal leading extents and one type to [..., ΣC_i], up to 16 of them. Saves nothing, and rows
/// are put together again from those of the inputs.
struct ConcatChannels {
  static constexpr int most_inputs = 16;
  std::vector<std::int64_t> channels;  // of each input
  static constexpr std::string_view name = "concat_channels";
  static constexpr std::array<Save, 0> saves{};
  static constexpr std::array rematerializes = [] {
    std::array<Remat, most_inputs> rows{};
    for (int i = 0; i < most_inputs; ++i) rows[static_cast<std::size_t>(i)] = rows_of(input(i));
    return rows;
  }();
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<ConcatChannels>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<ConcatChannels>& from, const Tensor& out) const;
};

}  // namespace lacuna
