// One sample on its way from a data set into a batch.
#pragma once

#include "core/error.h"
#include "data/batch.h"
#include "data/sample_random.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna {

/// How a batch holds the tensors of N samples.
enum class Collation : std::uint8_t {
  stacked,  // samples of one shape [...]: [N, ...]
  packed,   // samples [L, ...] of any lengths L: concatenated to [ΣL, ...]
  padded    // samples [L, ...] of any lengths L: padded at the end to [N, longest, ...]
};

/// A tensor that every sample of a data set has.
struct SampleField {
  std::string name;
  DType dtype = DType::f32;
  Shape shape{};  // of one sample; where lengths differ, axis 0 is the longest possible
  Collation collation = Collation::stacked;
  double padding = 0;      // value of the padding
  std::int64_t below = 0;  // whole numbers are in [0, below); 0: not known
  std::string lengths{};   // where lengths differ: the name of the batch's lengths; see lengths_of
};
using SampleFields = std::vector<SampleField>;

/// The name of the tensor by which a batch knows where the field's samples begin and end. It lies on the host. Packed:
/// i64 [N + 1], sample i has rows [offsets[i], offsets[i + 1]); `offsets` unless the field says otherwise. Padded: i64
/// [N], the lengths; `key_lengths` unless the field says otherwise. Empty where samples are stacked. Fields with the
/// same name have the same lengths.
std::string lengths_of(const SampleField& field);

/// The field `name`; an error that lists the fields there are where it is missing.
const SampleField& field_of(const SampleFields& fields, std::string_view name);

/// The data of one sample is damaged or of a kind that is not read: the input's fault. The message does not name the
/// file, which `Sample::origin` does.
class DamagedSample : public Error {
 public:
  explicit DamagedSample(const std::string& message) : Error(Fault::input, message) {}
};

template <class... Args>
[[noreturn]] void reject_sample(fmt::format_string<Args...> format, Args&&... args) {
  throw DamagedSample(fmt::format(format, std::forward<Args>(args)...));
}

/// Named tensors of one sample, in memory that is reused from sample to sample. A tensor whose place in the batch is
/// known is written there directly, so that collating copies nothing.
class Sample {
 public:
  std::int64_t index = 0;  // its number in the data set that it was read from
  std::int64_t epoch = 0;
  std::int64_t copy = 0;  // tells apart the appearances of a sample that comes several times in an epoch
  std::string origin{};   // the file that it was read from, or an archive and the name there; empty where there is none
  std::optional<SampleRandom> random{};  // for the transforms that are still to come
  std::optional<DamagedFile> damaged{};  // its file, where another took its place or it is left out

  /// Forgets the tensors of the sample before. `places`: where the batch wants some of this one's.
  void begin(std::int64_t epoch_now, NamedTensors places = {});

  const NamedTensors& tensors() const { return tensors_; }
  const Tensor& operator[](std::string_view name) const { return tensors_.at(name); }

  /// Memory for a new value of `name`: its place in the batch if shape and type are those wanted there and the present
  /// value does not occupy it, otherwise scratch memory. The value counts once it is `set`.
  Tensor make(std::string_view name, const Shape& shape, DType dtype);
  void set(std::string_view name, Tensor value);
  /// Scratch memory, which is reused once the tensor and all its copies are gone.
  Tensor scratch(const Shape& shape, DType dtype);

 private:
  NamedTensors tensors_, places_;
  std::vector<Tensor> memory_;  // each [elements], of the largest scratch it has served as
};

}  // namespace lacuna
