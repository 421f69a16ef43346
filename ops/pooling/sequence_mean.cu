#include "ops/pooling/sequence_mean_cuda.h"

#include "core/block.h"

namespace lacuna::cuda {
namespace {

/// A thread has a column of a sequence.
template <class T>
struct Column {
  std::int64_t sequence, column, begin, end, length;
  T *first, *mean;  // of the column's rows; of the sequence
  LACUNA_DEVICE Column(const SequenceMeans& what, std::int64_t thread)
      : sequence(thread / what.width), column(thread % what.width) {
    if (sequence >= what.sequences.count) return;
    begin = what.sequences.offsets[sequence];
    end = what.sequences.offsets[sequence + 1];
    length = what.sequences.lengths[sequence];
    first = static_cast<T*>(what.rows) + begin * what.width + column;
    mean = static_cast<T*>(what.means) + thread;
  }
};

template <class T>
struct Means {
  static constexpr int threads = 64;
  SequenceMeans what;
  LACUNA_DEVICE void operator()(const Block<Means>& block) const {
    const Column<T> own(what, block.global_thread());
    if (own.sequence >= what.sequences.count) return;
    float sum = 0;
    for (std::int64_t t = 0; t < own.length; ++t) sum += to_compute(own.first[t * what.width]);
    *own.mean = static_cast<T>(sum / static_cast<float>(own.length));
  }
};

template <class T>
struct SpreadMeans {
  static constexpr int threads = 64;
  SequenceMeans what;
  LACUNA_DEVICE void operator()(const Block<SpreadMeans>& block) const {
    const Column<T> own(what, block.global_thread());
    if (own.sequence >= what.sequences.count) return;
    const auto share = static_cast<T>(to_compute(*own.mean) * (1.0F / static_cast<float>(own.length)));
    for (std::int64_t t = 0; t < own.end - own.begin; ++t) own.first[t * what.width] = t < own.length ? share : T(0.0F);
  }
};

}  // namespace

void sequence_means(Stream stream, DType type, const SequenceMeans& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(what.sequences.count * what.width, Means<T>::threads), Means<T>{what});
  });
}
void spread_over_sequences(Stream stream, DType type, const SequenceMeans& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(what.sequences.count * what.width, SpreadMeans<T>::threads), SpreadMeans<T>{what});
  });
}

}  // namespace lacuna::cuda
