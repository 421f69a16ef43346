#include "ops/losses/span_cross_entropy_cuda.h"

#include "core/block.h"
#include "core/math.h"

namespace lacuna::cuda {
namespace {

/// A column of a sequence, which a block has.
struct Column {
  std::int64_t sequence, column, columns, begin, end, length, position;

  LACUNA_DEVICE Column(const SequenceRows& sequences, const std::int64_t* positions, std::int64_t width,
                       std::int64_t index)
      : sequence(index / width),
        column(index % width),
        columns(width),
        begin(sequences.offsets[sequence]),
        end(sequences.offsets[sequence + 1]),
        length(sequences.lengths[sequence]),
        position(positions[index]) {}
  LACUNA_DEVICE bool counts() const { return 0 <= position && position < length; }
  LACUNA_DEVICE std::int64_t at(std::int64_t token) const { return (begin + token) * columns + column; }
};

/// How many sequences count in a column; all threads of the block get it.
template <class K>
LACUNA_DEVICE inline std::int64_t counted_in(const Block<K>& block, const SequenceRows& sequences,
                                             const std::int64_t* positions, std::int64_t columns, std::int64_t column,
                                             std::int64_t* scratch) {
  std::int64_t counted = 0;
  for (std::int64_t n = block.thread(); n < sequences.count; n += K::threads) {
    const std::int64_t position = positions[n * columns + column];
    counted += 0 <= position && position < sequences.lengths[n] ? 1 : 0;
  }
  return joined_of_block(block, counted, scratch, Plus{});
}

/// log Σ e^z over the tokens; all threads of the block get it.
template <class T, class K>
LACUNA_DEVICE inline float log_sum(const Block<K>& block, const T* logits, const Column& own) {
  float largest = -INFINITY, sum = 0;
  for (std::int64_t t = block.thread(); t < own.length; t += K::threads)
    largest = Larger{}(largest, to_compute(logits[own.at(t)]));
  largest = joined_of_block(block, largest, block.shared().largest, Larger{});
  for (std::int64_t t = block.thread(); t < own.length; t += K::threads)
    sum += math::exp(to_compute(logits[own.at(t)]) - largest);
  return largest + logf(joined_of_block(block, sum, block.shared().sums, Plus{}));
}

template <class T>
struct Losses {
  static constexpr int threads = 128;
  struct Shared {
    float largest[threads / warp_size], sums[threads / warp_size];
  };
  SpanLosses what;
  LACUNA_DEVICE void operator()(const Block<Losses>& block) const {
    const auto* const logits = static_cast<const T*>(what.logits);
    const Column own(what.sequences, what.positions, what.columns, block.index());
    float loss = 0;
    if (own.counts()) loss = log_sum(block, logits, own) - to_compute(logits[own.at(own.position)]);
    if (block.thread() == 0) what.losses[block.index()] = loss;
  }
};

/// One block.
struct MeanOfColumns {
  static constexpr int threads = 128;
  struct Shared {
    std::int64_t counted[threads / warp_size];
    double sums[threads / warp_size];
  };
  SpanLosses what;
  LACUNA_DEVICE void operator()(const Block<MeanOfColumns>& block) const {
    double total = 0;
    for (std::int64_t c = 0; c < what.columns; ++c) {
      const std::int64_t counted =
          counted_in(block, what.sequences, what.positions, what.columns, c, block.shared().counted);
      double sum = 0;
      for (std::int64_t n = block.thread(); n < what.sequences.count; n += threads)
        sum += static_cast<double>(what.losses[n * what.columns + c]);
      sum = joined_of_block(block, sum, block.shared().sums, Plus{});
      if (counted > 0) total += sum / static_cast<double>(counted * what.columns);
      block.sync();
    }
    if (block.thread() == 0) *what.loss = static_cast<float>(total);
  }
};

template <class T>
struct Gradients {
  static constexpr int threads = 128;
  struct Shared {
    float largest[threads / warp_size], sums[threads / warp_size];
    std::int64_t counted[threads / warp_size];
  };
  SpanGradients what;
  LACUNA_DEVICE void operator()(const Block<Gradients>& block) const {
    const auto* const logits = static_cast<const T*>(what.logits);
    auto* const dz = static_cast<T*>(what.dz);
    const Column own(what.sequences, what.positions, what.columns, block.index());
    float sum = 0, scale = 0;
    if (own.counts()) {
      sum = log_sum(block, logits, own);
      const std::int64_t counted =
          counted_in(block, what.sequences, what.positions, what.columns, own.column, block.shared().counted);
      scale = *what.dy / static_cast<float>(counted * what.columns);
    }
    for (std::int64_t t = block.thread(); t < own.end - own.begin; t += threads) {
      const std::int64_t at = own.at(t);
      float gradient = 0;
      if (own.counts() && t < own.length)
        gradient = scale * (math::exp(to_compute(logits[at]) - sum) - (t == own.position ? 1.0F : 0.0F));
      dz[at] = static_cast<T>(gradient);
    }
  }
};

}  // namespace

void span_losses(Stream stream, DType type, const SpanLosses& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) { run(stream, what.sequences.count * what.columns, Losses<T>{what}); });
  run(stream, 1, MeanOfColumns{what});
}
void span_gradients(Stream stream, DType type, const SpanGradients& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) { run(stream, what.sequences.count * what.columns, Gradients<T>{what}); });
}

}  // namespace lacuna::cuda
