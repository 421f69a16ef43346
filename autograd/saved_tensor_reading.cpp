// How a slot's values are read: as they lie there, decoded, or derived from other slots; in whole, by runs that all
// threads read together, or by runs apart.
#include "autograd/saved_tensor.h"

#include "autograd/policies/grouping.h"

#include "core/parallel.h"
#include "ops/quantize/pack.h"

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

namespace lacuna {
namespace {

/// Bytes that a thread decodes at a time where it works apart, unless a unit or its room are others: they and what is
/// made of them stay in its own cache, and what an op prepares for a call is worth its while.
constexpr std::int64_t apart_bytes = 256 * 1024;
/// Elements below which threads are not worth their start.
constexpr std::int64_t serial_below = 16384;

/// Calls `f(begin, end, part, at)` for runs of the rows to share, on the thread that owns them. The parts divide a
/// room, `room` rows each; from row `at` of it on there is place for the run.
template <class F>
void for_runs_on_threads(const RowPartition& share, std::int64_t room, std::int64_t row_bytes, const F& f) {
  const std::int64_t step = std::clamp(apart_bytes / row_bytes / share.unit * share.unit, share.unit, room);
  parallel_tasks(share.parts, [&](std::int64_t index, int) {
    share.for_row_blocks(0, share.count, index, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t begin = first; begin < last; begin += step)
        f(begin, std::min(last, begin + step), static_cast<int>(index), index * room);
    });
  });
}

}  // namespace

void SavedTensor::derive_rows(std::int64_t begin, std::int64_t end, Label reader, const Tensor& out) {
  const std::span<const Remat> table = origin_.op->rematerializes();
  std::vector<Tensor> tensors(table.size()), variances(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    const SavedTensorPtr& source = origin_.sources[i];
    if (!source) continue;
    const Shape& shape = origin_.shapes[i];
    tensors[i] = table[i].by_rows
                     ? source->rows(begin, end, shape.back(), reader, table[i].with_variance ? &variances[i] : nullptr)
                     : source->whole(reader).reshape(shape);
  }
  origin_.op->rematerialize(tensors, variances, shape_, begin, mask_, out);
}

/// Room for what threads decode apart: as much as a run takes that they decode together, on `meta` too.
SavedTensor::Room SavedTensor::room_for(std::int64_t rows, std::int64_t width, bool with_variance) const {
  const AllocationScope scope({Purpose::workspace, maker_.op, maker_.path});
  Room room{Tensor::empty({rows, width}, dtype_, device_, Purpose::workspace), {}};
  quant::decoding_room(codes_, rows * width);  // passes by; a thread's own few means are no tensor
  room.variance = variance_room(room.values.shape(), with_variance);
  if (!quant::uses_hadamard(codes_.coding.bits)) room.variance = {};
  return room;
}

bool SavedTensor::derived_once() const { return users_.size() - left_ > 1 && !is_coded(); }

bool SavedTensor::decodes_apart() const {
  return how_ == Hold::quantize && !tensor_.defined() && slopes_ == nullptr && probe_bits_ == 0 && shape_.count() > 0;
}

quant::RangeDecoder SavedTensor::range_decoder() const {
  if (!mask_.defined()) return quant::range_decoder(codes_);
  return [this, decode_range = quant::range_decoder(codes_)](std::int64_t begin, std::int64_t end, std::byte* out) {
    decode_range(begin, end, out);
    quant::rectify(dtype_, out, end - begin, mask_.data<std::uint8_t>(), begin);
  };
}

bool SavedTensor::read_apart(const RowPartition& share, std::int64_t width, bool with_variance,
                             const RowBlockKernel& f) {
  if (device_ == Device::meta || !decodes_apart() || (share.block == 0 && share.count * width < serial_below))
    return false;
  expect(share.count * width <= shape_.count(), "{} rows of {} elements are to be read of a tensor {}", share.count,
         width, shape_);
  const std::int64_t usual = block_rows(width), own = share.room(usual), row_bytes = width * size_of(dtype_);
  if (own == 0) return false;
  // Rotated groups are decoded whole, and with the means of their samples: parts of a few would do much of it twice.
  constexpr std::int64_t worth_apart = 16;  // groups
  if (share.block > 0 && codes_.coding.rounding == quant::Rounding::hadamard &&
      share.block / share.parts * width < worth_apart * codes_.coding.grouping.size)
    return false;
  const Room room = room_for(share.run(usual), width, with_variance);
  const quant::RangeDecoder decode_range = range_decoder();
  const bool tells = room.variance.defined();
  for_runs_on_threads(share, own, row_bytes, [&](std::int64_t begin, std::int64_t end, int index, std::int64_t at) {
    std::byte* const values = room.values.raw() + at * row_bytes;
    decode_range(begin * width, end * width, values);
    const Tensor variance = tells ? room.variance.leading(at, at + end - begin) : Tensor();
    if (tells) quant::find_variance(codes_, begin * width, end * width, variance);
    f({begin, end, index, dtype_, values, tells ? variance.data<float>() : nullptr});
  });
  return true;
}

/// How threads have rows of a slot apart from each other, prepared once for many runs: as they lie there, or decoded or
/// derived by each for itself, in its part of the room.
class SavedTensor::RowReader {
 public:
  /// Whether threads can have rows of the slot apart from each other, in rows of that width.
  static bool can_read(const SavedTensor& slot, std::int64_t width) {
    if (slot.tensor_.defined() || slot.decodes_apart()) return true;
    return slot.how_ == Hold::rematerialize && !slot.derived_once() && width == slot.shape_.back() && can_derive(slot);
  }
  static bool can_derive(const SavedTensor& slot) {
    const std::span<const Remat> table = slot.origin_.op->rematerializes();
    for (std::size_t i = 0; i < table.size(); ++i) {
      const SavedTensorPtr& source = slot.origin_.sources[i];
      if (source && !source->tensor_.defined() &&
          !(table[i].by_rows && can_read(*source, slot.origin_.shapes[i].back())))
        return false;
    }
    return true;
  }

  /// Of a slot that can be read so, seen in `shape`; with room for `rows` rows, of all threads together.
  RowReader(SavedTensor& slot, const Shape& shape, std::int64_t rows, bool with_variance, Label reader)
      : slot_(slot), width_(shape.back()) {
    if (slot.tensor_.defined()) {
      whole_ = slot.whole(reader).reshape(shape);
    } else if (slot.how_ == Hold::quantize) {
      room_ = slot.room_for(rows, width_, with_variance);
      if (slot.device_ != Device::meta) decode_ = slot.range_decoder();
    } else {
      const AllocationScope scope({Purpose::workspace, slot.maker_.op, slot.maker_.path});
      room_.values = Tensor::empty({rows, width_}, slot.dtype_, slot.device_, Purpose::workspace);
      sources_ = readers_of_sources(slot, rows, reader);
    }
  }
  /// Of a slot's sources, as its origin has them; null where one is absent.
  static std::vector<std::unique_ptr<RowReader>> readers_of_sources(const SavedTensor& slot, std::int64_t rows,
                                                                    Label reader) {
    const std::span<const Remat> table = slot.origin_.op->rematerializes();
    std::vector<std::unique_ptr<RowReader>> readers(table.size());
    for (std::size_t i = 0; i < table.size(); ++i)
      if (const SavedTensorPtr& source = slot.origin_.sources[i])
        readers[i] = std::make_unique<RowReader>(*source, slot.origin_.shapes[i], rows, table[i].with_variance, reader);
    return readers;
  }
  /// Rows [first, last) of `slot`'s output into `out`, from `sources`.
  static void rematerialize(const SavedTensor& slot, const std::vector<std::unique_ptr<RowReader>>& sources,
                            std::int64_t first, std::int64_t last, std::int64_t at, const Tensor& out) {
    const std::span<const Remat> table = slot.origin_.op->rematerializes();
    std::vector<Tensor> tensors(table.size()), variances(table.size());
    for (std::size_t i = 0; i < table.size(); ++i)
      if (sources[i])
        tensors[i] = table[i].by_rows ? sources[i]->read(first, last, at, variances[i]) : sources[i]->whole_;
    slot.origin_.op->rematerialize(tensors, variances, slot.shape_, first, slot.mask_, out);
  }

 private:
  /// Rows [first, last), in place `at` of the room; where their errors have a variance that is asked for, that too.
  Tensor read(std::int64_t first, std::int64_t last, std::int64_t at, Tensor& variance) const {
    if (whole_.defined()) return whole_.row_range(first, last);
    const Tensor values = room_.values.leading(at, at + last - first);
    if (!decode_) {
      rematerialize(slot_, sources_, first, last, at, values);
      return values;
    }
    decode_(first * width_, last * width_, values.raw());
    if (room_.variance.defined()) {
      variance = room_.variance.leading(at, at + last - first);
      quant::find_variance(slot_.codes_, first * width_, last * width_, variance);
    }
    return values;
  }

  const SavedTensor& slot_;
  std::int64_t width_;
  Tensor whole_{};  // [rows, C], or of any shape where it is not read by rows
  Room room_{};
  quant::RangeDecoder decode_{};
  std::vector<std::unique_ptr<RowReader>> sources_{};
};

/// Rows [begin, begin + rows of `out`), where every source lies there, or threads can decode or derive it apart: what
/// one of them has it derives from at once, in room for `run` rows a link of the chain. False, and nothing is done,
/// where that is not so.
bool SavedTensor::derive_apart(std::int64_t begin, std::int64_t run, Label reader, const Tensor& out) {
  const RowPartition share{.count = out.rows()};
  const std::int64_t own = share.room(run);
  if (own == 0 || out.count() < serial_below || !RowReader::can_derive(*this)) return false;
  const std::vector<std::unique_ptr<RowReader>> sources = RowReader::readers_of_sources(*this, run, reader);
  if (device_ == Device::meta) return true;  // deriving allocates nothing, and there is nothing to compute
  for_runs_on_threads(share, own, shape_.back() * size_of(dtype_),
                      [&](std::int64_t from, std::int64_t to, int, std::int64_t at) {
                        RowReader::rematerialize(*this, sources, begin + from, begin + to, at, out.row_range(from, to));
                      });
  return true;
}

// By runs where sources have to be decoded or derived themselves, or come with variances: as many of their rows would
// be held again for each link of a chain.
void SavedTensor::derive_runs(std::int64_t begin, std::int64_t end, Label reader, const Tensor& out) {
  const std::span<const Remat> table = origin_.op->rematerializes();
  bool by_runs = false;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const SavedTensorPtr& source = origin_.sources[i];
    by_runs |= source && table[i].by_rows && (table[i].with_variance || !source->tensor_.defined());
  }
  const std::int64_t all = end - begin, usual = block_rows(shape_.back());
  const std::int64_t runs = by_runs ? (all + usual - 1) / usual : 1;
  if (by_runs && runs > 0 && derive_apart(begin, (all + runs - 1) / runs, reader, out)) return;
  for (std::int64_t run = 0; run < runs; ++run) {
    const Range range = part(all, run, runs);
    derive_rows(begin + range.begin, begin + range.end, reader, out.row_range(range.begin, range.end));
  }
}

Tensor SavedTensor::variance_room(const Shape& shape, bool asked) const {
  const bool could_tell = asked && quant::tells_variance(codes_.coding) && !mask_.defined();
  return could_tell ? Tensor::empty(shape, DType::f32, device_, Purpose::workspace) : Tensor();
}

void SavedTensor::decode(std::int64_t begin, std::int64_t end, const Tensor& out, Tensor* variance) const {
  if (slopes_ != nullptr) return quant::decode_slopes(codes_.bytes, *slopes_, begin, end, out);
  quant::decode(codes_, begin, end, out);
  // With four bits what a curve adds in the mean is a twentieth of the error already, and to take it off costs a pass
  // over as many numbers. Who is held by its sign has no error where it is zero. Room is taken for any number of bits:
  // what a step takes is not to depend on what was measured.
  const Tensor room = variance_room(out.shape(), variance != nullptr);
  const bool tells = room.defined() && (quant::uses_hadamard(codes_.coding.bits) ||
                                        (0 < probe_bits_ && quant::uses_hadamard(probe_bits_)));
  if (tells) {
    quant::find_variance(codes_, begin, end, room);
    *variance = room;
  }
  if (probe_bits_ > 0) code_again(begin, end, out, tells ? *variance : Tensor());
  if (mask_.defined()) quant::rectify(out, mask_, begin, out);  // who is needed by its sign is zero or positive
}

/// Elements [begin, end), into their place, as if they were held in `probe_bits_`: whole samples, and what of others
/// lies before and behind, as samples of their own.
void SavedTensor::code_again(std::int64_t begin, std::int64_t end, const Tensor& values, const Tensor& variance) const {
  if (begin == end) return;
  const quant::Grouping& grouping = codes_.coding.grouping;
  const bool as_long = grouping.kind != quant::Grouping::Kind::run || quant::uses_hadamard(codes_.coding.bits);
  const quant::QuantConfig coarser =
      as_long ? quant::least_error(probe_bits_, grouping) : run_config(facts(), probe_bits_, grouping.size);
  const std::int64_t sample = shape_.count() / shape_.front(), width = shape_.back(),
                     first = std::min(end, (begin + sample - 1) / sample * sample),
                     last = std::max(first, end / sample * sample);
  const auto part = [&](const Tensor& of, std::int64_t from, std::int64_t to) {
    return of.reshape({of.count(), 1}).leading(from - begin, to - begin);
  };
  const auto code = [&](std::int64_t from, std::int64_t to, std::int64_t samples) {
    if (from == to) return;
    const bool rows = (to - from) % (samples * width) == 0;
    const Tensor own = part(values, from, to);
    const quant::QuantizedTensor again =
        quant::encode(rows ? own.reshape({samples, (to - from) / (samples * width), width}) : own, coarser,
                      codes_.key + 1 + static_cast<std::uint64_t>(from));
    quant::decode(again, 0, to - from, own);
    if (variance.defined()) quant::add_variance(again, 0, to - from, part(variance, from, to));
  };
  code(begin, first, 1);
  code(first, last, (last - first) / sample);
  code(last, end, 1);
}

Tensor SavedTensor::whole(Label reader) {
  if (!tensor_.defined()) {
    expect(settled_ && (how_ == Hold::rematerialize || how_ == Hold::quantize), "{} reads values of {} {}, of which {}",
           reader.text(), maker_.op.text(), maker_.path.text(),
           how_ == Hold::sign_mask ? "only the signs were kept" : "nothing is kept");
    const AllocationScope scope({Purpose::transient, maker_.op, maker_.path});
    Tensor values = Tensor::empty(shape_, dtype_, device_);
    if (how_ == Hold::quantize)
      decode(0, values.count(), values);
    else if (values.count() > 0)
      derive_runs(0, shape_.rows(), reader, values);
    if (is_coded()) return values;
    tensor_ = std::move(values);
    version_ = tensor_.storage()->version();
    owner_ = tensor_.storage()->owner();
    if (!retained_) {
      release_origin();
      how_ = Hold::keep;
    }
  }
  check_version(reader);
  return tensor_;
}

Tensor SavedTensor::rows(std::int64_t begin, std::int64_t end, std::int64_t width, Label reader, Tensor* variance) {
  const std::int64_t own_width = shape_.back();
  if (!tensor_.defined() && how_ == Hold::quantize) {
    const AllocationScope scope({Purpose::workspace, maker_.op, maker_.path});
    const Tensor decoded = Tensor::empty({end - begin, width}, dtype_, device_, Purpose::workspace);
    decode(begin * width, end * width, decoded, variance);
    return decoded;
  }
  if (tensor_.defined() || how_ != Hold::rematerialize || derived_once() || begin * width % own_width != 0 ||
      end * width % own_width != 0)
    return whole(reader).reshape({shape_.count() / width, width}).leading(begin, end);
  const std::int64_t first = begin * width / own_width, last = end * width / own_width;
  const AllocationScope scope({Purpose::workspace, maker_.op, maker_.path});
  const Tensor derived = Tensor::empty({last - first, own_width}, dtype_, device_, Purpose::workspace);
  derive_runs(first, last, reader, derived);
  return derived.reshape({end - begin, width});
}

std::int64_t SavedTensor::block_rows(std::int64_t width) const {
  if (shape_.count() == 0) return std::max<std::int64_t>(shape_.rows(), 1);
  const std::int64_t all = shape_.count() / width;
  if (tensor_.defined() || derived_once()) return all;
  constexpr std::int64_t cache = 1024 * 1024;  // bytes
  return std::clamp<std::int64_t>(cache / (width * size_of(dtype_)), 1, std::max<std::int64_t>(all, 1));
}

Signs SavedTensor::signs(Label reader, bool optional) {
  if (mask_.defined()) return {.values = {}, .bits = mask_};
  if (optional && !shows_signs_) return {};
  return {.values = whole(reader), .bits = {}};
}

}  // namespace lacuna
