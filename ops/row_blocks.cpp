#include "ops/row_blocks.h"

#include "core/planned_device.h"
#include "ops/quantize/quantizer.h"
#include "ops/quantize/sign_mask.h"

#include <bit>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lacuna {
namespace {

/// Rows that one thread handles at a time, out of the `own` rows of its scratch.
std::int64_t rows_per_call(const RowPartition& partition, std::int64_t own, std::int64_t row_bytes) {
  const std::int64_t unit = partition.unit;
  return std::clamp(row_block_sizes().thread_cache / row_bytes / unit * unit, unit, own);
}

/// Calls `f(begin, end, part, at)` for blocks of up to `step` of the partition's rows, on the thread that has the part.
/// Each part has `own` rows of a common scratch; the block goes to rows [at, at + end - begin) of it.
template <class F>
void for_blocks_by_threads(const RowPartition& partition, std::int64_t own, std::int64_t step, const F& f) {
  parallel_tasks(partition.parts, [&](std::int64_t index, int) {
    partition.for_row_blocks(0, partition.count, index, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t begin = first; begin < last; begin += step)
        f(begin, std::min(last, begin + step), static_cast<int>(index), index * own);
    });
  });
}

bool is_cuda(Device device) { return device.kind == DeviceKind::cuda; }

/// The quantized form, if threads can decode it independently of each other: without allocating a tensor.
const QuantizedForm* decoded_by_threads(const Operand& operand) {
  const auto* const form = operand.as<QuantizedForm>();
  return form != nullptr && !is_cuda(operand.device()) && !form->coarser && operand.shape().count() > 0 ? form
                                                                                                        : nullptr;
}

/// Decodes rows of a quantized operand on several threads, each into its own rows of a scratch. On `meta` only the
/// scratch is allocated.
class RowDecoder {
 public:
  /// With scratch for `rows` rows of all `parts` threads together, of which each decodes up to `step` at a time.
  RowDecoder(const Operand& operand, const QuantizedForm& form, std::int64_t rows, std::int64_t step, int parts)
      : form_(form), width_(operand.shape().back()) {
    const AllocationScope scope({Purpose::workspace, operand.op(), operand.path()});
    scratch_ = Tensor::empty({rows, width_}, operand.dtype(), operand.device(), Purpose::workspace);
    dequantize_ = quant::block_dequantizer(form.values, step * width_, parts);
  }

  /// Decodes rows [first, last) into the scratch from row `at` on.
  Tensor decode(std::int64_t first, std::int64_t last, int part, std::int64_t at) const {
    Tensor values = scratch_.leading(at, at + last - first);
    dequantize_(first * width_, last * width_, values.raw(), part);
    if (form_.signs.defined())
      quant::rectify(values.dtype(), values.raw(), values.count(), form_.signs.data<std::uint8_t>(), first * width_);
    return values;
  }

 private:
  const QuantizedForm& form_;
  std::int64_t width_;
  Tensor scratch_{};  // [rows, C]
  quant::BlockDequantizer dequantize_{};
};

bool can_rematerialize_by_threads(const RematerializedForm& form);

/// Whether threads can have rows of the operand independently of each other.
bool can_read_by_threads(const Operand& operand) {
  if (operand.as<KeptForm>() != nullptr || decoded_by_threads(operand) != nullptr) return true;
  const auto* const form = operand.as<RematerializedForm>();
  return form != nullptr && operand.shape().back() == form->shape.back() && can_rematerialize_by_threads(*form);
}

bool can_rematerialize_by_threads(const RematerializedForm& form) {
  const std::span<const Remat> table = form.op->rematerializes();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Operand& source = form.sources[i];
    if (source.defined() && source.as<KeptForm>() == nullptr && !(table[i].by_rows && can_read_by_threads(source)))
      return false;
  }
  return true;
}

/// Reads rows of an operand of which `can_read_by_threads` holds, each thread in its own part of the scratch. Prepared
/// once for many blocks.
class RowReader {
 public:
  /// With scratch for `rows` rows of all `parts` threads together, of which each reads up to `step` at a time.
  RowReader(const Operand& operand, std::int64_t rows, std::int64_t step, int parts) : operand_(operand) {
    if (const auto* const kept = operand.as<KeptForm>()) {
      kept_ = kept->values;
    } else if (const auto* const quantized = operand.as<QuantizedForm>()) {
      decoder_.emplace(operand, *quantized, rows, step, parts);
    } else {
      const AllocationScope scope({Purpose::workspace, operand.op(), operand.path()});
      scratch_ = Tensor::empty({rows, operand.shape().back()}, operand.dtype(), operand.device(), Purpose::workspace);
      sources_ = readers_of_sources(*operand.as<RematerializedForm>(), rows, step, parts);
    }
  }

  /// Readers of the sources of a rematerialized operand; null for an absent one.
  static std::vector<std::unique_ptr<RowReader>> readers_of_sources(const RematerializedForm& form, std::int64_t rows,
                                                                    std::int64_t step, int parts) {
    std::vector<std::unique_ptr<RowReader>> readers(form.sources.size());
    for (std::size_t i = 0; i < readers.size(); ++i)
      if (form.sources[i].defined()) readers[i] = std::make_unique<RowReader>(form.sources[i], rows, step, parts);
    return readers;
  }
  /// Rows [first, last) of `form`'s output into `out`, for part `part`; scratch from row `at` on.
  static void rematerialize(const RematerializedForm& form, const std::vector<std::unique_ptr<RowReader>>& sources,
                            std::int64_t first, std::int64_t last, int part, std::int64_t at, const Tensor& out) {
    const std::span<const Remat> table = form.op->rematerializes();
    std::vector<Tensor> tensors(table.size());
    for (std::size_t i = 0; i < table.size(); ++i)
      if (sources[i]) tensors[i] = table[i].by_rows ? sources[i]->read(first, last, part, at) : sources[i]->kept_;
    form.op->rematerialize({tensors, form.shape, first, form.signs}, out);
  }

 private:
  Tensor read(std::int64_t first, std::int64_t last, int part, std::int64_t at) const {
    if (kept_.defined()) return kept_.row_range(first, last);
    if (decoder_) return decoder_->decode(first, last, part, at);
    Tensor values = scratch_.leading(at, at + last - first);
    rematerialize(*operand_.as<RematerializedForm>(), sources_, first, last, part, at, values);
    return values;
  }

  const Operand& operand_;
  Tensor kept_{};
  std::optional<RowDecoder> decoder_{};
  Tensor scratch_{};  // [rows, C]
  std::vector<std::unique_ptr<RowReader>> sources_{};
};

/// Rematerializes rows [begin, begin + rows of `out`), each thread rows of its own from sources that it decodes or
/// rematerializes itself, with scratch for `rows` rows a link of the chain. Returns false and does nothing if threads
/// cannot work independently or are not worth it.
bool rematerialize_by_threads(const RematerializedForm& form, std::int64_t begin, std::int64_t rows,
                              const Tensor& out) {
  const RowPartition partition{.count = out.rows()};
  const std::int64_t own = partition.scratch_rows(rows);
  if (is_cuda(out.device()) || own == 0 || out.count() < row_block_sizes().serial_below ||
      !can_rematerialize_by_threads(form))
    return false;
  const std::int64_t step = rows_per_call(partition, own, form.shape.back() * size_of(out.dtype()));
  const std::vector<std::unique_ptr<RowReader>> sources =
      RowReader::readers_of_sources(form, rows, step, partition.parts);
  if (out.device() == Device::meta) return true;  // the scratch is all that is allocated
  for_blocks_by_threads(partition, own, step, [&](std::int64_t from, std::int64_t to, int part, std::int64_t at) {
    RowReader::rematerialize(form, sources, begin + from, begin + to, part, at, out.row_range(from, to));
  });
  return true;
}

/// Whether a kernel decodes the source where it reads it, so that no decoded rows are there.
bool comes_in_codes(const Remat& row, const Operand& source, const Shape& output) {
  return row.in_codes && source.defined() && computes_on_cuda(source.device()) && source.shape().back() % 8 == 0 &&
         output.back() % 8 == 0 && elements_of_code_group(source) > 0;
}

/// Rematerializes rows [begin, end) with all threads together.
void rematerialize_together(const RematerializedForm& form, std::int64_t begin, std::int64_t end, const Tensor& out) {
  const std::span<const Remat> table = form.op->rematerializes();
  std::vector<Tensor> tensors(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Operand& source = form.sources[i];
    if (source.defined() && !comes_in_codes(table[i], source, form.shape))
      tensors[i] = table[i].by_rows ? source.rows(begin, end) : source.whole();
  }
  form.op->rematerialize({tensors, form.shape, begin, form.signs, form.sources.data()}, out);
}

}  // namespace

RowBlockSizes& row_block_sizes() {
  static RowBlockSizes sizes;
  return sizes;
}

std::int64_t cached_at_once(Device device) {
  constexpr std::int64_t least = std::int64_t{16} << 20, most = std::int64_t{32} << 20;
  return card_of(device).cache * 2 / 3 < most ? least : most;
}

std::int64_t decoded_at_once(Device device) {
  const RowBlockSizes& sizes = row_block_sizes();
  if (!computes_on_cuda(device)) return sizes.cache;
  return sizes.cuda_cache > 0 ? sizes.cuda_cache : cached_at_once(device);
}

std::int64_t summed_at_once(Device device) {
  const std::int64_t given = row_block_sizes().cuda_sum;
  if (given > 0) return given;
  // A power of two: what a driver leaves of a card, and what it is sold as, come to the same. The divisor keeps the
  // limits apart from the sizes that cards have: 6.8, 13.6, 27.2, 54.4 and 109 GiB.
  constexpr std::int64_t least = std::int64_t{32} << 20, part = 218;
  const auto bytes = static_cast<std::uint64_t>(card_of(device).memory / part);
  return std::max(least, static_cast<std::int64_t>(std::bit_floor(bytes)));
}

void rematerialize_rows(const RematerializedForm& form, std::int64_t begin, std::int64_t block_rows,
                        const Tensor& out) {
  const std::span<const Remat> table = form.op->rematerializes();
  bool in_blocks = false;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Operand& source = form.sources[i];
    in_blocks |= source.defined() && table[i].by_rows && source.as<KeptForm>() == nullptr &&
                 !comes_in_codes(table[i], source, form.shape);
  }
  const std::int64_t all = out.rows(), blocks = in_blocks ? (all + block_rows - 1) / block_rows : 1;
  if (in_blocks && blocks > 0 && rematerialize_by_threads(form, begin, (all + blocks - 1) / blocks, out)) return;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const Range range = part(all, block, blocks);
    rematerialize_together(form, begin + range.begin, begin + range.end, out.row_range(range.begin, range.end));
  }
}

bool detail::read_by_threads(const Operand& operand, const RowPartition& partition, const RowBlockKernel& f) {
  const QuantizedForm* const form = decoded_by_threads(operand);
  const std::int64_t width = operand.shape().back();
  if (form == nullptr || (partition.block == 0 && partition.count * width < row_block_sizes().serial_below))
    return false;
  expect(partition.count * width <= operand.shape().count(), "{} rows of {} elements are read of a tensor {}",
         partition.count, width, operand.shape());
  const std::int64_t usual = operand.block_rows(), own = partition.scratch_rows(usual);
  if (own == 0) return false;
  // If groups are decoded whole, blocks of a few groups decode many elements twice.
  constexpr std::int64_t fewest_groups = 16;
  const quant::QuantConfig& config = form->values.config;
  if (partition.block > 0 && quant::quantizer_of(config).decodes_whole_groups() &&
      partition.block / partition.parts * width < fewest_groups * config.grouping.size)
    return false;
  const std::int64_t step = rows_per_call(partition, own, width * size_of(operand.dtype()));
  const RowDecoder decoder(operand, *form, partition.rows_at_once(usual), step, partition.parts);
  if (operand.device() == Device::meta) return true;
  for_blocks_by_threads(partition, own, step, [&](std::int64_t begin, std::int64_t end, int index, std::int64_t at) {
    f({begin, end, index, operand.dtype(), decoder.decode(begin, end, index, at).raw()});
  });
  return true;
}

}  // namespace lacuna
