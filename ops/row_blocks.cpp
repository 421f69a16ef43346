#include "ops/row_blocks.h"

#include "ops/quantize/pack.h"

#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace lacuna {
namespace {

/// Calls `f(begin, end, part, at)` for blocks of the partition's rows, on the thread that has the part. Each part has
/// `own` rows of a common scratch; the block goes to rows [at, at + end - begin) of it.
template <class F>
void for_blocks_by_threads(const RowPartition& partition, std::int64_t own, std::int64_t row_bytes, const F& f) {
  const std::int64_t unit = partition.unit, step = std::clamp(row_block_sizes().thread_cache / row_bytes / unit * unit, unit, own);
  parallel_tasks(partition.parts, [&](std::int64_t index, int) {
    partition.for_row_blocks(0, partition.count, index, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t begin = first; begin < last; begin += step)
        f(begin, std::min(last, begin + step), static_cast<int>(index), index * own);
    });
  });
}

/// Scratch [rows, C] for what threads decode, and for a moment that of the decoder, as if all threads decoded together:
/// the peak is the same either way, and on `meta`.
Tensor decoding_scratch(const Operand& operand, const QuantizedForm& form, std::int64_t rows) {
  const AllocationScope scope({Purpose::workspace, operand.op(), operand.path()});
  const std::int64_t width = operand.shape().back();
  Tensor values = Tensor::empty({rows, width}, operand.dtype(), operand.device(), Purpose::workspace);
  quant::decoding_room(form.values, rows * width);
  return values;
}

/// The quantized form, if threads can decode it independently of each other: without allocating a tensor.
const QuantizedForm* decoded_by_threads(const Operand& operand) {
  const auto* const form = operand.as<QuantizedForm>();
  return form != nullptr && !form->coarser && operand.shape().count() > 0 ? form : nullptr;
}

quant::RangeDecoder range_decoder(const QuantizedForm& form) {
  if (!form.signs.defined()) return quant::range_decoder(form.values);
  return [&form, decode = quant::range_decoder(form.values)](std::int64_t begin, std::int64_t end, std::byte* out) {
    decode(begin, end, out);
    quant::rectify(form.values.dtype, out, end - begin, form.signs.data<std::uint8_t>(), begin);
  };
}

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
  /// With scratch for `rows` rows, of all threads together.
  RowReader(const Operand& operand, std::int64_t rows) : operand_(operand), width_(operand.shape().back()) {
    if (const auto* const kept = operand.as<KeptForm>()) {
      kept_ = kept->values;
    } else if (const auto* const quantized = operand.as<QuantizedForm>()) {
      scratch_ = decoding_scratch(operand, *quantized, rows);
      if (operand.device() != Device::meta) decode_ = range_decoder(*quantized);
    } else {
      const AllocationScope scope({Purpose::workspace, operand.op(), operand.path()});
      scratch_ = Tensor::empty({rows, width_}, operand.dtype(), operand.device(), Purpose::workspace);
      sources_ = readers_of_sources(*operand.as<RematerializedForm>(), rows);
    }
  }

  /// Of the sources of a rematerialized operand; null where one is absent.
  static std::vector<std::unique_ptr<RowReader>> readers_of_sources(const RematerializedForm& form, std::int64_t rows) {
    std::vector<std::unique_ptr<RowReader>> readers(form.sources.size());
    for (std::size_t i = 0; i < readers.size(); ++i)
      if (form.sources[i].defined()) readers[i] = std::make_unique<RowReader>(form.sources[i], rows);
    return readers;
  }
  /// Rows [first, last) of `form`'s output into `out`; scratch from row `at` on.
  static void rematerialize(const RematerializedForm& form, const std::vector<std::unique_ptr<RowReader>>& sources,
                            std::int64_t first, std::int64_t last, std::int64_t at, const Tensor& out) {
    const std::span<const Remat> table = form.op->rematerializes();
    std::vector<Tensor> tensors(table.size());
    for (std::size_t i = 0; i < table.size(); ++i)
      if (sources[i]) tensors[i] = table[i].by_rows ? sources[i]->read(first, last, at) : sources[i]->kept_;
    form.op->rematerialize({tensors, form.shape, first, form.signs}, out);
  }

 private:
  Tensor read(std::int64_t first, std::int64_t last, std::int64_t at) const {
    if (kept_.defined()) return kept_.row_range(first, last);
    const Tensor values = scratch_.leading(at, at + last - first);
    if (decode_)
      decode_(first * width_, last * width_, values.raw());
    else
      rematerialize(*operand_.as<RematerializedForm>(), sources_, first, last, at, values);
    return values;
  }

  const Operand& operand_;
  std::int64_t width_;
  Tensor kept_{};
  Tensor scratch_{};  // [rows, C]
  quant::RangeDecoder decode_{};
  std::vector<std::unique_ptr<RowReader>> sources_{};
};

/// Rematerializes rows [begin, begin + rows of `out`), each thread rows of its own from sources that it decodes or
/// rematerializes itself, with scratch for `rows` rows a link of the chain. Returns false and does nothing if threads
/// cannot work independently or are not worth it.
bool rematerialize_by_threads(const RematerializedForm& form, std::int64_t begin, std::int64_t rows,
                              const Tensor& out) {
  const RowPartition partition{.count = out.rows()};
  const std::int64_t own = partition.scratch_rows(rows);
  if (own == 0 || out.count() < row_block_sizes().serial_below || !can_rematerialize_by_threads(form)) return false;
  const std::vector<std::unique_ptr<RowReader>> sources = RowReader::readers_of_sources(form, rows);
  if (out.device() == Device::meta) return true;  // the scratch is all that is allocated
  for_blocks_by_threads(partition, own, form.shape.back() * size_of(out.dtype()),
                        [&](std::int64_t from, std::int64_t to, int, std::int64_t at) {
                          RowReader::rematerialize(form, sources, begin + from, begin + to, at,
                                                   out.row_range(from, to));
                        });
  return true;
}

/// Rematerializes rows [begin, end) with all threads together.
void rematerialize_together(const RematerializedForm& form, std::int64_t begin, std::int64_t end, const Tensor& out) {
  const std::span<const Remat> table = form.op->rematerializes();
  std::vector<Tensor> tensors(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Operand& source = form.sources[i];
    if (source.defined()) tensors[i] = table[i].by_rows ? source.rows(begin, end) : source.whole();
  }
  form.op->rematerialize({tensors, form.shape, begin, form.signs}, out);
}

}  // namespace

RowBlockSizes& row_block_sizes() {
  static RowBlockSizes sizes;
  return sizes;
}

void rematerialize_rows(const RematerializedForm& form, std::int64_t begin, std::int64_t block_rows,
                        const Tensor& out) {
  const std::span<const Remat> table = form.op->rematerializes();
  bool in_blocks = false;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Operand& source = form.sources[i];
    in_blocks |= source.defined() && table[i].by_rows && source.as<KeptForm>() == nullptr;
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
  if (operand.device() == Device::meta || form == nullptr ||
      (partition.block == 0 && partition.count * width < row_block_sizes().serial_below))
    return false;
  expect(partition.count * width <= operand.shape().count(), "{} rows of {} elements are read of a tensor {}",
         partition.count, width, operand.shape());
  const std::int64_t usual = operand.block_rows(), own = partition.scratch_rows(usual);
  if (own == 0) return false;
  // Groups with a Hadamard transform are decoded whole, and with the means of their samples: parts of a few groups
  // would decode much of it twice.
  constexpr std::int64_t fewest_groups = 16;
  const quant::QuantConfig& config = form->values.coding;
  if (partition.block > 0 && config.rounding == quant::Rounding::hadamard &&
      partition.block / partition.parts * width < fewest_groups * config.grouping.size)
    return false;
  const Tensor scratch = decoding_scratch(operand, *form, partition.rows_at_once(usual));
  const quant::RangeDecoder decode = range_decoder(*form);
  const std::int64_t row_bytes = width * size_of(operand.dtype());
  for_blocks_by_threads(partition, own, row_bytes,
                        [&](std::int64_t begin, std::int64_t end, int index, std::int64_t at) {
                          std::byte* const values = scratch.raw() + at * row_bytes;
                          decode(begin * width, end * width, values);
                          f({begin, end, index, operand.dtype(), values});
                        });
  return true;
}

}  // namespace lacuna
