#include "ops/curves/gated_activation_cuda.h"

#include "ops/cuda/elements.h"
#include "ops/curves/gated_curves.h"

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

}  // namespace

void gated_forward(Stream stream, DType type, const GatedForward& what) {
  const GatedInput& ups = what.joined ? what.gate : what.up;
  const std::int64_t of_row = what.joined ? 2 * what.width : what.width;
  with_cuda_type(type, [&]<class T>(Type<T>) {
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
    with_saved_values<T>(what.gate, of_input, [&]<class Gate>(const Gate& gate) {
      with_saved_values<T>(ups, of_input, [&]<class Up>(const Up& up) {
        with_gated_curve(what.curve, [&]<class F, class B>(F, B) {
          run(stream, blocks_of(what.rows, what.width),
              GatedBackwardKernel<T, Gate, Up, F, B>{.gate = gate,
                                                     .up = up,
                                                     .dy = {what.dy, count},
                                                     .dgate = {what.dgate, of_input},
                                                     .dup = {what.joined ? what.dgate : what.dup, of_input},
                                                     .at = {what.joined},
                                                     .rows = what.rows,
                                                     .width = what.width,
                                                     .of_gate = what.dgate != nullptr,
                                                     .of_up = what.joined || what.dup != nullptr});
        });
      });
    });
  });
}

}  // namespace lacuna::cuda
