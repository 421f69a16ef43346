#include "ops/curves/gated_activation_cuda.h"

#include "ops/cuda/elements.h"
#include "ops/curves/gated_curves.h"
#include "ops/quantize/decode_map.h"

namespace lacuna::cuda {
namespace {

/// Calls `f(row, column)` for the eight elements of a row that this thread has.
template <class K, class F>
LACUNA_DEVICE inline void for_eight(const Block<K>& block, std::int64_t rows, std::int64_t width, const F& f) {
  const std::int64_t chunks = (width + 7) / 8, row = block.global_thread() / chunks;
  if (row < rows) f(row, block.global_thread() % chunks * 8);
}
std::int64_t blocks_of(std::int64_t rows, std::int64_t width) { return divide_up(rows * divide_up(width, 8), 256); }

/// Rows of [rows, width], or if `joined` those of gates and ups in turn: [rows, 2, width].
struct GatedRows {
  bool joined;
  LACUNA_DEVICE std::int64_t gate(std::int64_t row) const { return joined ? 2 * row : row; }
  LACUNA_DEVICE std::int64_t up(std::int64_t row) const { return joined ? 2 * row + 1 : row; }
};

template <class T, class Gate, class Up, class F>
struct GatedForwardKernel {
  static constexpr int threads = 256;
  Gate gate;
  Up up;
  Written<T> y;
  GatedRows at;
  std::int64_t first_gate, first_up, rows, width;
  LACUNA_DEVICE void operator()(const Block<GatedForwardKernel>& block) const {
    for_eight(block, rows, width, [&](std::int64_t row, std::int64_t c) {
      const Eight g = gate.at_row(at.gate(first_gate + row), width, c), u = up.at_row(at.up(first_up + row), width, c);
      Eight out;
#pragma unroll
      for (int i = 0; i < 8; ++i) out[i] = F{}(g[i]) * u[i];
      y.set_row(row, width, c, out);
    });
  }
};

/// Gates and ups in codes whose rows are whole blocks of one group each: a thread has 32 of both.
template <class T>
struct QuadRows {
  SavedValues gate, up;
  Divisor gate_group, up_group, blocks_of_row;  // groups: in blocks
  GatedRows at;
  std::int64_t first_gate, first_up, blocks, width;

  /// Offsets of eight elements in y, gates and ups.
  struct Places {
    std::int64_t y, gate, up;
  };

  static bool fit(const SavedValues& gate, const SavedValues& up, std::int64_t width) {
    return gate.values == nullptr && up.values == nullptr && in_quads(gate, 0, width, nullptr) &&
           in_quads(up, 0, width, nullptr);
  }
  QuadRows(const GatedInput& gates, const GatedInput& ups, bool joined, std::int64_t rows, std::int64_t row_width)
      : gate(gates.values),
        up(ups.values),
        gate_group(gate.group / code_block),
        up_group(up.group / code_block),
        blocks_of_row(row_width / code_block),
        at{joined},
        first_gate(gates.first),
        first_up(ups.first),
        blocks(rows * (row_width / code_block)),
        width(row_width) {}
  std::int64_t thread_blocks(int threads) const { return divide_up(blocks * quad_lanes, threads); }

  /// Calls `f(gates, ups, places)` for each eight elements of this thread.
  template <class K, class F>
  LACUNA_DEVICE void for_eights(const Block<K>& block, const F& f) const {
    const std::int64_t own = block.global_thread() / quad_lanes, of_row = width / code_block;
    if (own >= blocks) return;
    const int lane = block.thread() % quad_lanes;
    const std::int64_t row = blocks_of_row.quotient(own), column = own - row * of_row;
    const QuadValues<T> gates(gate, gate_group, at.gate(first_gate + row) * of_row + column, lane),
        ups(up, up_group, at.up(first_up + row) * of_row + column, lane);
#pragma unroll
    for (int k = 0; k < quad_eights; ++k) {
      const std::int64_t c = column * code_block + lane * 8 + 32 * k;
      f(rounded_to<T>(gates.eight(k)), rounded_to<T>(ups.eight(k)),
        Places{row * width + c, at.gate(row) * width + c, at.up(row) * width + c});
    }
  }
};

template <class T, class F>
struct GatedForwardQuads {
  static constexpr int threads = 256;
  QuadRows<T> from;
  T* y;
  LACUNA_DEVICE void operator()(const Block<GatedForwardQuads>& block) const {
    from.for_eights(block, [&](const Eight& g, const Eight& u, const auto& places) {
      Eight out;
#pragma unroll
      for (int i = 0; i < 8; ++i) out[i] = F{}(g[i]) * u[i];
      store_eight(y + places.y, out);
    });
  }
};

template <class T, class Gate, class Up, class F, class B>
struct GatedBackwardKernel {
  static constexpr int threads = 256;
  Gate gate;
  Up up;
  Kept<T> dy;
  Written<T> dgate, dup;
  GatedRows at;
  std::int64_t rows, width;
  bool of_gate, of_up;
  LACUNA_DEVICE void operator()(const Block<GatedBackwardKernel>& block) const {
    for_eight(block, rows, width, [&](std::int64_t row, std::int64_t c) {
      const Eight g = gate.at_row(at.gate(row), width, c), d = dy.at_row(row, width, c);
      Eight to_gate, to_up;
      if (of_gate) {
        const Eight u = up.at_row(at.up(row), width, c);
#pragma unroll
        for (int i = 0; i < 8; ++i) to_gate[i] = B{}(d[i] * u[i], g[i]);
      }
      if (of_up) {
#pragma unroll
        for (int i = 0; i < 8; ++i) to_up[i] = d[i] * F{}(g[i]);
        dup.set_row(at.up(row), width, c, to_up);
      }
      if (of_gate) dgate.set_row(at.gate(row), width, c, to_gate);
    });
  }
};

template <class T, class F, class B>
struct GatedBackwardQuads {
  static constexpr int threads = 256;
  QuadRows<T> from;
  const T* dy;
  T *dgate, *dup;  // null: not wanted
  LACUNA_DEVICE void operator()(const Block<GatedBackwardQuads>& block) const {
    from.for_eights(block, [&](const Eight& g, const Eight& u, const auto& places) {
      const Eight d = load_eight(dy + places.y);
      Eight to_gate, to_up;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        to_gate[i] = B{}(d[i] * u[i], g[i]);
        to_up[i] = d[i] * F{}(g[i]);
      }
      if (dup != nullptr) store_eight(dup + places.up, to_up);
      if (dgate != nullptr) store_eight(dgate + places.gate, to_gate);
    });
  }
};

}  // namespace

void gated_forward(Stream stream, DType type, const GatedForward& what) {
  const GatedInput& ups = what.joined ? what.gate : what.up;
  const std::int64_t of_row = what.joined ? 2 * what.width : what.width;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    if (QuadRows<T>::fit(what.gate.values, ups.values, what.width) && is_aligned(static_cast<const T*>(what.y)))
      return with_gated_curve(what.curve, [&]<class F, class B>(F, B) {
        const QuadRows<T> from(what.gate, ups, what.joined, what.rows, what.width);
        using Kernel = GatedForwardQuads<T, F>;
        run(stream, from.thread_blocks(Kernel::threads), Kernel{.from = from, .y = static_cast<T*>(what.y)});
      });
    with_saved_values<T>(what.gate.values, what.gate.rows * of_row, [&]<class Gate>(const Gate& gate) {
      with_saved_values<T>(ups.values, ups.rows * of_row, [&]<class Up>(const Up& up) {
        with_gated_curve(what.curve, [&]<class F, class B>(F, B) {
          run(stream, blocks_of(what.rows, what.width),
              GatedForwardKernel<T, Gate, Up, F>{.gate = gate,
                                                 .up = up,
                                                 .y = {what.y, what.rows * what.width},
                                                 .at = {what.joined},
                                                 .first_gate = what.gate.first,
                                                 .first_up = ups.first,
                                                 .rows = what.rows,
                                                 .width = what.width});
        });
      });
    });
  });
}

void gated_backward(Stream stream, DType type, const GatedBackward& what) {
  const std::int64_t count = what.rows * what.width, of_input = what.joined ? 2 * count : count;
  const SavedValues ups = what.joined || what.dgate == nullptr ? what.gate : what.up;  // not read without dgate
  with_cuda_type(type, [&]<class T>(Type<T>) {
    const auto* const dy = static_cast<const T*>(what.dy);
    auto *const dgate = static_cast<T*>(what.dgate), *const dup = static_cast<T*>(what.joined ? what.dgate : what.dup);
    if (QuadRows<T>::fit(what.gate, ups, what.width) && is_aligned(dy) && is_aligned(dgate) && is_aligned(dup))
      return with_gated_curve(what.curve, [&]<class F, class B>(F, B) {
        const QuadRows<T> from({.values = what.gate}, {.values = ups}, what.joined, what.rows, what.width);
        using Kernel = GatedBackwardQuads<T, F, B>;
        run(stream, from.thread_blocks(Kernel::threads), Kernel{.from = from, .dy = dy, .dgate = dgate, .dup = dup});
      });
    with_saved_values<T>(what.gate, of_input, [&]<class Gate>(const Gate& gate) {
      with_saved_values<T>(ups, of_input, [&]<class Up>(const Up& up) {
        with_gated_curve(what.curve, [&]<class F, class B>(F, B) {
          run(stream, blocks_of(what.rows, what.width),
              GatedBackwardKernel<T, Gate, Up, F, B>{.gate = gate,
                                                     .up = up,
                                                     .dy = {dy, count},
                                                     .dgate = {dgate, of_input},
                                                     .dup = {dup, of_input},
                                                     .at = {what.joined},
                                                     .rows = what.rows,
                                                     .width = what.width,
                                                     .of_gate = dgate != nullptr,
                                                     .of_up = dup != nullptr});
        });
      });
    });
  });
}

}  // namespace lacuna::cuda
