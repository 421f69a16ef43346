#include "ops/losses/top_k_cuda.h"

#include "core/block.h"

namespace lacuna::cuda {
namespace {

struct Candidate {
  float value;
  std::int32_t place;
};
/// The larger value, the first of equals.
struct Earlier {
  LACUNA_DEVICE Candidate operator()(Candidate a, Candidate b) const {
    const bool first = a.place < b.place;
    const Candidate front = first ? a : b, back = first ? b : a;
    return back.value > front.value ? back : front;
  }
};

/// A block a row.
template <class T>
struct Largest {
  static constexpr int threads = 128;
  struct Shared {
    Candidate best[threads / warp_size];
  };
  FindLargest what;
  LACUNA_DEVICE void operator()(const Block<Largest>& block) const {
    const auto* const row = static_cast<const T*>(what.values) + block.index() * what.columns;
    Candidate best{-INFINITY, 0x7fffffff};
    for (std::int64_t c = block.thread(); c < what.columns; c += threads)
      best = Earlier{}(best, {ordered(to_compute(row[c]), c == 0), static_cast<std::int32_t>(c)});
    best = joined_of_block(block, best, block.shared().best, Earlier{});
    if (block.thread() == 0) what.places[block.index()] = best.place == 0x7fffffff ? 0 : best.place;
  }

 private:
  /// As a loop that looks for a larger value has it: nothing is larger than a NaN in the first place, and none
  /// elsewhere is larger than anything.
  LACUNA_DEVICE static float ordered(float value, bool is_first) {
    if (value == value) return value;
    return is_first ? INFINITY : -INFINITY;
  }
};

/// A block a row.
template <class T>
struct CountLarger {
  static constexpr int threads = 128;
  struct Shared {
    std::int64_t larger[threads / warp_size];
  };
  CountTopK what;
  LACUNA_DEVICE void operator()(const Block<CountLarger>& block) const {
    const auto* const row = static_cast<const T*>(what.logits) + block.index() * what.columns;
    const std::int64_t target = what.targets[block.index()];
    const bool inside = 0 <= target && target < what.columns;
    const float own = inside ? to_compute(row[target]) : 0.0F;
    std::int64_t larger = inside ? 0 : what.columns;
    for (std::int64_t c = block.thread(); inside && c < what.columns; c += threads) {
      const float value = to_compute(row[c]);
      // A logit that is not a number is larger than any target's: such a row is never correct.
      larger += !(value < own) && c != target && (value != own || c < target) ? 1 : 0;
    }
    larger = joined_of_block(block, larger, block.shared().larger, Plus{});
    if (block.thread() == 0) what.larger[block.index()] = larger;
  }
};

/// One block.
struct AddCounts {
  static constexpr int threads = 128;
  struct Shared {
    std::int64_t correct[threads / warp_size];
  };
  CountTopK what;
  LACUNA_DEVICE void operator()(const Block<AddCounts>& block) const {
    for (int i = 0; i < what.ks; ++i) {
      std::int64_t correct = 0;
      for (std::int64_t row = block.thread(); row < what.rows; row += threads)
        correct += what.larger[row] < what.k[i] && what.larger[row] < what.columns ? 1 : 0;
      correct = joined_of_block(block, correct, block.shared().correct, Plus{});
      if (block.thread() == 0) what.counts[i] += static_cast<double>(correct);
      block.sync();
    }
  }
};

}  // namespace

void find_largest(Stream stream, DType type, const FindLargest& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) { run(stream, what.rows, Largest<T>{what}); });
}
void count_top_k(Stream stream, DType type, const CountTopK& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) { run(stream, what.rows, CountLarger<T>{what}); });
  run(stream, 1, AddCounts{what});
}

}  // namespace lacuna::cuda
