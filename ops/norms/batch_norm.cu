#include "ops/norms/batch_norm_cuda.h"

#include "core/block.h"
#include "ops/cuda/elements.h"
#include "ops/norms/joined_statistics.h"

namespace lacuna::cuda {
namespace {

/// The columns and rows of one thread: eight channels of rows part, part + parts, ….
struct Column {
  std::int64_t channel, part;
  LACUNA_DEVICE Column(std::int64_t thread, std::int64_t channels)
      : channel(thread % ((channels + 7) / 8) * 8), part(thread / ((channels + 7) / 8)) {}
};
std::int64_t blocks_of(std::int64_t parts, std::int64_t channels, int threads) {
  return divide_up(parts * divide_up(channels, 8), threads);
}

LACUNA_DEVICE inline Eight channels_at(const float* of, std::int64_t channels, std::int64_t first, float otherwise) {
  Eight eight;
#pragma unroll
  for (int i = 0; i < 8; ++i) eight[i] = of != nullptr && first + i < channels ? of[first + i] : otherwise;
  return eight;
}

/// (x − mean) · scale + bias. Forward and backward round alike, so that they agree on signs.
struct Normalized {
  Eight mean, scale, bias;
  LACUNA_DEVICE Normalized(const NormChannels& of, std::int64_t channels, std::int64_t first)
      : mean(channels_at(of.mean, channels, first, 0)),
        scale(channels_at(of.weight, channels, first, 0)),
        bias(channels_at(of.bias, channels, first, 0)) {
    const Eight variance = channels_at(of.variance, channels, first, 1);
#pragma unroll
    for (int i = 0; i < 8; ++i) scale[i] *= 1.0F / sqrtf(variance[i] + of.eps);
  }
  LACUNA_DEVICE float operator()(float x, int i) const { return fmaf(x - mean[i], scale[i], bias[i]); }
};

/// A thread has a channel: f64 costs nothing for so few.
struct JoinStatistics {
  static constexpr int threads = 128;
  BatchNormJoin what;
  LACUNA_DEVICE void operator()(const Block<JoinStatistics>& block) const {
    const std::int64_t c = block.global_thread();
    if (c >= what.channels) return;
    const formula::JoinedStatistics joined = formula::joined_statistics(what.all + c, what.ranks, what.channels);
    what.mean[c] = static_cast<float>(joined.mean);
    what.variance[c] = static_cast<float>(joined.variance);
  }
};

/// Bits [first, first + 8) of which `count` are there.
LACUNA_DEVICE inline std::uint32_t eight_bits(const std::uint8_t* bits, std::int64_t first, std::int64_t count) {
  if (first % 8 == 0) return bits[first / 8];
  std::uint32_t found = 0;
  for (int i = 0; i < 8 && i < count; ++i) found |= (bits[(first + i) / 8] >> ((first + i) % 8) & 1U) << i;
  return found;
}

/// Calls `use(load(row))` for rows begin, begin + step, … in order. The loads of `together` rows are under way at once:
/// a thread that waits for each does not keep the memory busy.
template <int together, class Load, class Use>
LACUNA_DEVICE inline void for_rows(std::int64_t begin, std::int64_t end, std::int64_t step, const Load& load,
                                   const Use& use) {
  std::int64_t row = begin;
  for (; row + (together - 1) * step < end; row += together * step) {
    decltype(load(row)) loaded[together];
#pragma unroll
    for (int i = 0; i < together; ++i) loaded[i] = load(row + i * step);
#pragma unroll
    for (int i = 0; i < together; ++i) use(loaded[i]);
  }
  for (; row < end; row += step) use(load(row));
}

template <class T>
struct SumStatistics {
  static constexpr int threads = 256;
  Kept<T> x;
  Written<float> partial;  // [parts · 2, channels]
  std::int64_t rows, channels, parts;
  LACUNA_DEVICE void operator()(const Block<SumStatistics>& block) const {
    const Column own(block.global_thread(), channels);
    if (own.part >= parts) return;
    const Eight start = x.at_row(0, channels, own.channel);
    Eight sum{}, squares{};
    const auto add = [&](const Eight& values) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float d = values[i] - start[i];
        sum[i] += d;
        squares[i] += d * d;
      }
    };
    if (x.in_packs(channels))
      for_rows<4>(
          own.part, rows, parts, [&](std::int64_t row) { return x.pack_at_row(row, channels, own.channel); }, add);
    else
      for_rows<1>(
          own.part, rows, parts, [&](std::int64_t row) { return x.at_row(row, channels, own.channel); }, add);
    partial.set_row(own.part * 2, channels, own.channel, sum);
    partial.set_row(own.part * 2 + 1, channels, own.channel, squares);
  }
};

/// A block adds the parts of eight channels in double, and calls `finish(channel, first sum, second sum)` for each.
template <class Finish>
struct FinishChannels {
  static constexpr int threads = 512, together = 8, warps = threads / warp_size;
  struct Shared {
    double sums[2][warps][together];
  };
  Finish finish;
  const float* partial;  // [parts, 2, channels]
  std::int64_t channels, parts;

  LACUNA_DEVICE void operator()(const Block<FinishChannels>& block) const {
    const int place = block.thread() % together;
    const std::int64_t c = block.index() * together + place;
    double first = 0, second = 0;
    if (c < channels)
      for (std::int64_t part = block.thread() / together; part < parts; part += threads / together) {
        first += static_cast<double>(partial[part * 2 * channels + c]);
        second += static_cast<double>(partial[(part * 2 + 1) * channels + c]);
      }
#pragma unroll
    for (int step = warp_size / 2; step >= together; step /= 2) {
      first += exchange(first, step);
      second += exchange(second, step);
    }
    if (block.lane() < together) {
      block.shared().sums[0][block.warp()][place] = first;
      block.shared().sums[1][block.warp()][place] = second;
    }
    block.sync();
    if (block.thread() >= together || c >= channels) return;
    first = second = 0;
    for (int warp = 0; warp < warps; ++warp) {
      first += block.shared().sums[0][warp][place];
      second += block.shared().sums[1][warp][place];
    }
    finish(c, first, second);
  }
};

template <class T>
struct FinishStatistics {
  const T* x;
  float *mean, *variance;
  double rows;
  LACUNA_DEVICE void operator()(std::int64_t c, double sum, double squares) const {
    const double offset = sum / rows, spread = squares / rows - offset * offset;
    mean[c] = static_cast<float>(static_cast<double>(to_compute(x[c])) + offset);
    variance[c] = static_cast<float>(spread < 0 ? 0.0 : spread);  // NaN stays NaN
  }
};

struct FinishBackward {
  BatchNormFinish to;
  LACUNA_DEVICE void operator()(std::int64_t c, double sum, double sum_with_x) const {
    if (to.partial == nullptr) {
      sum = to.totals[c];
      sum_with_x = to.totals[to.channels + c];
    } else if (to.totals != nullptr) {
      to.totals[c] = sum;
      to.totals[to.channels + c] = sum_with_x;
    }
    if (to.bias_gradient != nullptr) to.bias_gradient[c] += static_cast<float>(sum);
    if (to.variance == nullptr) return;
    const double rstd = 1 / sqrt(static_cast<double>(to.variance[c]) + static_cast<double>(to.eps));
    if (to.weight_gradient != nullptr) to.weight_gradient[c] += static_cast<float>(sum_with_x * rstd);
    if (to.slopes == nullptr) return;
    const double slope = static_cast<double>(to.weight[c]) * rstd;
    to.slopes[c] = static_cast<float>(-slope * rstd * rstd * sum_with_x / to.count);
    to.slopes[to.channels + c] = static_cast<float>(-slope * sum / to.count);
  }
};

template <class T, class Read>
struct Apply {
  static constexpr int threads = 256;
  BatchNormApply what;
  Read x;
  Kept<T> residual;
  Written<T> y;
  std::int64_t first_row, parts;  // first_row: of x
  LACUNA_DEVICE void operator()(const Block<Apply>& block) const {
    const std::int64_t channels = what.channels;
    const Column own(block.global_thread(), channels);
    if (own.part >= parts) return;
    const Normalized normalized(what.of, channels, own.channel);
    for (std::int64_t row = own.part; row < what.rows; row += parts) {
      Eight values = x.at_row(first_row + row, channels, own.channel);
#pragma unroll
      for (int i = 0; i < 8; ++i) values[i] = normalized(values[i], i);
      if (what.residual != nullptr) {
        const Eight addend = residual.at_row(row, channels, own.channel);
#pragma unroll
        for (int i = 0; i < 8; ++i) values[i] += addend[i];
      }
      if (what.signs != nullptr) {
        const std::uint32_t bits =
            eight_bits(what.signs, what.first_sign + row * channels + own.channel, channels - own.channel);
#pragma unroll
        for (int i = 0; i < 8; ++i)
          if ((bits >> i & 1U) == 0 && values[i] == values[i]) values[i] = 0;
      } else if (what.relu) {
#pragma unroll
        for (int i = 0; i < 8; ++i) values[i] = values[i] <= 0 ? 0.0F : values[i];
      }
      y.set_row(row, channels, own.channel, values);
    }
  }
};

/// Rows of dy behind the gate, and of x.
template <class T, class Read>
struct GatedRows {
  BatchNormRows what;
  Read x;
  Kept<T> dy, values;

  GatedRows(const BatchNormRows& rows, const Read& read)
      : what(rows),
        x(read),
        dy(rows.dy, rows.rows * rows.channels),
        values(rows.gate == NormGate::values ? rows.signs : nullptr, rows.rows * rows.channels) {}

  LACUNA_DEVICE Eight x_at(std::int64_t row, std::int64_t c) const {
    return what.reads_x ? x.at_row(row, what.channels, c) : Eight{};
  }
  /// x and dy of a row, and the bits of its gate.
  struct Row {
    Eight x, dy;
    std::uint32_t bits;
  };
  /// Whether load() reads rows.
  LACUNA_DEVICE bool in_packs() const {
    if constexpr (std::is_same_v<Read, Kept<T>>)
      return what.reads_x && what.gate != NormGate::values && x.in_packs(what.channels) && dy.in_packs(what.channels);
    else
      return false;
  }
  LACUNA_DEVICE Row load(std::int64_t row, std::int64_t c) const {
    Row loaded{Eight{}, dy.pack_at_row(row, what.channels, c), 0};
    if constexpr (std::is_same_v<Read, Kept<T>>) loaded.x = x.pack_at_row(row, what.channels, c);
    if (what.gate == NormGate::bits)
      loaded.bits = static_cast<const std::uint8_t*>(what.signs)[((what.first_row + row) * what.channels + c) / 8];
    return loaded;
  }
  /// dy behind a gate other than `values`.
  LACUNA_DEVICE Eight gated(const Row& row, const Normalized& normalized) const {
    Eight g = row.dy;
    if (what.gate == NormGate::normalized) {
#pragma unroll
      for (int i = 0; i < 8; ++i) g[i] = normalized(row.x[i], i) > 0 ? g[i] : 0.0F;
    } else if (what.gate == NormGate::bits) {
#pragma unroll
      for (int i = 0; i < 8; ++i) g[i] = (row.bits >> i & 1U) != 0 ? g[i] : 0.0F;
    }
    return g;
  }
  LACUNA_DEVICE Eight g_at(std::int64_t row, std::int64_t c, const Eight& in, const Normalized& normalized) const {
    Row own{in, dy.at_row(row, what.channels, c), 0};
    if (what.gate == NormGate::bits)
      own.bits = eight_bits(static_cast<const std::uint8_t*>(what.signs), (what.first_row + row) * what.channels + c,
                            what.channels - c);
    Eight g = gated(own, normalized);
    if (what.gate == NormGate::values) {
      const Eight signs = values.at_row(row, what.channels, c);
#pragma unroll
      for (int i = 0; i < 8; ++i) g[i] = signs[i] > 0 ? g[i] : 0.0F;
    }
    return g;
  }
};

template <class T, class Read>
struct SumGradients {
  static constexpr int threads = 256;
  GatedRows<T, Read> in;
  Written<float> partial;  // [parts · 2, channels]
  std::int64_t parts;
  LACUNA_DEVICE void operator()(const Block<SumGradients>& block) const {
    const std::int64_t channels = in.what.channels;
    const Column own(block.global_thread(), channels);
    if (own.part >= parts) return;
    const Normalized normalized(in.what.of, channels, own.channel);
    Eight sum = partial.at_row(own.part * 2, channels, own.channel);
    Eight sum_with_x = partial.at_row(own.part * 2 + 1, channels, own.channel);
    const auto add = [&](const Eight& x, const Eight& g) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        sum[i] += g[i];
        sum_with_x[i] = fmaf(g[i], x[i] - normalized.mean[i], sum_with_x[i]);
      }
    };
    const std::int64_t begin = (own.part - in.what.first_row % parts + parts) % parts;
    if (in.in_packs())
      for_rows<2>(
          begin, in.what.rows, parts, [&](std::int64_t row) { return in.load(row, own.channel); },
          [&](const auto& row) { add(row.x, in.gated(row, normalized)); });
    else
      for (std::int64_t row = begin; row < in.what.rows; row += parts) {
        const Eight x = in.x_at(row, own.channel);
        add(x, in.g_at(row, own.channel, x, normalized));
      }
    partial.set_row(own.part * 2, channels, own.channel, sum);
    partial.set_row(own.part * 2 + 1, channels, own.channel, sum_with_x);
  }
};

template <class T, class Read>
struct WriteGradients {
  static constexpr int threads = 256;
  GatedRows<T, Read> in;
  Written<T> dx, residual;
  const float* slopes;
  std::int64_t parts;
  bool wants_x, wants_residual;
  LACUNA_DEVICE void operator()(const Block<WriteGradients>& block) const {
    const std::int64_t channels = in.what.channels;
    const Column own(block.global_thread(), channels);
    if (own.part >= parts) return;
    const Normalized normalized(in.what.of, channels, own.channel);
    const Eight tilt = channels_at(slopes, channels, own.channel, 0);
    const Eight level = channels_at(slopes == nullptr ? nullptr : slopes + channels, channels, own.channel, 0);
    for (std::int64_t row = own.part; row < in.what.rows; row += parts) {
      const Eight x = in.x_at(row, own.channel), g = in.g_at(row, own.channel, x, normalized);
      if (wants_residual) residual.set_row(row, channels, own.channel, g);
      if (!wants_x) continue;
      Eight out;
#pragma unroll
      for (int i = 0; i < 8; ++i)
        out[i] = fmaf(g[i], normalized.scale[i], fmaf(x[i] - normalized.mean[i], tilt[i], level[i]));
      dx.set_row(row, channels, own.channel, out);
    }
  }
};

/// Parts of a kernel whose threads have 8 to 32 rows each: as many as leave work for all of a GPU.
std::int64_t writing_parts(std::int64_t rows, std::int64_t channels) {
  constexpr std::int64_t wanted = 1 << 18;  // threads
  const std::int64_t of_thread = rows * divide_up(channels, 8) / wanted;
  return divide_up(rows, of_thread < 8 ? 8 : of_thread > 32 ? 32 : of_thread);
}

template <class Finish>
void finish_channels(Stream stream, const Finish& finish, const float* partial, std::int64_t channels,
                     std::int64_t parts) {
  run(stream, divide_up(channels, FinishChannels<Finish>::together),
      FinishChannels<Finish>{.finish = finish, .partial = partial, .channels = channels, .parts = parts});
}

}  // namespace

void batch_norm_statistics(Stream stream, DType type, const BatchNormStatistics& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, blocks_of(what.parts, what.channels, SumStatistics<T>::threads),
        SumStatistics<T>{.x = {what.x, what.rows * what.channels},
                         .partial = {what.partial, what.parts * 2 * what.channels},
                         .rows = what.rows,
                         .channels = what.channels,
                         .parts = what.parts});
    finish_channels(
        stream,
        FinishStatistics<T>{static_cast<const T*>(what.x), what.mean, what.variance, static_cast<double>(what.rows)},
        what.partial, what.channels, what.parts);
  });
}

void batch_norm_join(Stream stream, const BatchNormJoin& what) {
  run(stream, divide_up(what.channels, JoinStatistics::threads), JoinStatistics{what});
}

void batch_norm_apply(Stream stream, DType type, const BatchNormApply& what) {
  const std::int64_t count = what.rows * what.channels, parts = writing_parts(what.rows, what.channels);
  with_cuda_type(type, [&]<class T>(Type<T>) {
    const auto apply = [&]<class Read>(const Read& x) {
      run(stream, blocks_of(parts, what.channels, Apply<T, Read>::threads),
          Apply<T, Read>{.what = what,
                         .x = x,
                         .residual = {what.residual, count},
                         .y = {what.y, count},
                         .first_row = what.codes.begin / what.channels,
                         .parts = parts});
    };
    if (what.x != nullptr || count == 0)
      apply(Kept<T>(what.x, count));
    else
      apply(Coded<T>(what.codes.codes, what.codes.total));
  });
}

void batch_norm_sums(Stream stream, DType type, const BatchNormSums& what) {
  const BatchNormRows& rows = what.rows;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    with_saved_values<T>(rows.x, rows.rows * rows.channels, [&]<class Read>(const Read& x) {
      run(stream, blocks_of(what.parts, rows.channels, SumGradients<T, Read>::threads),
          SumGradients<T, Read>{
              .in = {rows, x}, .partial = {what.partial, what.parts * 2 * rows.channels}, .parts = what.parts});
    });
  });
}

void batch_norm_finish(Stream stream, const BatchNormFinish& what) {
  finish_channels(stream, FinishBackward{what}, what.partial, what.channels, what.partial == nullptr ? 0 : what.parts);
}

void batch_norm_gradient(Stream stream, DType type, const BatchNormGradient& what) {
  const BatchNormRows& rows = what.rows;
  const std::int64_t count = rows.rows * rows.channels, parts = writing_parts(rows.rows, rows.channels);
  with_cuda_type(type, [&]<class T>(Type<T>) {
    with_saved_values<T>(rows.x, count, [&]<class Read>(const Read& x) {
      run(stream, blocks_of(parts, rows.channels, WriteGradients<T, Read>::threads),
          WriteGradients<T, Read>{.in = {rows, x},
                                  .dx = {what.dx, count},
                                  .residual = {what.residual, count},
                                  .slopes = what.slopes,
                                  .parts = parts,
                                  .wants_x = what.dx != nullptr,
                                  .wants_residual = what.residual != nullptr});
    });
  });
}

}  // namespace lacuna::cuda
