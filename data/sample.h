// One sample, between data set and batch.
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

/// Describes a tensor that every sample of a data set has.
struct SampleField {
  std::string name;
  DType dtype = DType::f32;
  Shape shape{};  // shape of one sample; if lengths vary, axis 0 is the maximum length
  Collation collation = Collation::stacked;
  double padding = 0;      // padding value
  std::int64_t below = 0;  // integers are in [0, below); 0: unknown
  std::string lengths{};   // if lengths vary: the name of the batch's offsets or lengths; see lengths_of
};
using SampleFields = std::vector<SampleField>;

/// The name of the batch's tensor, on the host, that delimits the field's samples. Packed: i64 [N + 1], by default
/// `offsets`; sample i has rows [offsets[i], offsets[i + 1]). Padded: i64 [N], the lengths, by default `key_lengths`.
/// Stacked: empty. Fields that share a name share their lengths.
std::string lengths_of(const SampleField& field);

/// The field `name`. Throws if there is none, and the message lists the existing fields.
const SampleField& field_of(const SampleFields& fields, std::string_view name);

/// Thrown if the data of one sample is damaged or in an unsupported format: the input's fault. The message does not
/// name the file; `Sample::origin` does.
class DamagedSample : public Error {
 public:
  explicit DamagedSample(const std::string& message) : Error(Fault::input, message) {}
};

template <class... Args>
[[noreturn]] void reject_sample(fmt::format_string<Args...> format, Args&&... args) {
  throw DamagedSample(fmt::format(format, std::forward<Args>(args)...));
}

/// Named tensors of one sample, in memory that is reused for the next sample. A tensor whose place in the batch is
/// known is written there directly, so that collating copies nothing.
class Sample {
 public:
  std::int64_t index = 0;  // its index in the data set it was read from
  std::int64_t epoch = 0;
  std::int64_t copy = 0;  // distinguishes the occurrences of a sample that is repeated within an epoch
  std::string origin{};   // the file it was read from, or an archive and the name in it; empty if there is none
  std::optional<SampleRandom> random{};  // for the remaining transforms
  std::optional<DamagedFile> damaged{};  // its file, if it is damaged and the sample is replaced or dropped

  /// Starts a new sample without tensors. `places`: the batch's memory for some of its tensors.
  void begin(std::int64_t epoch_now, NamedTensors places = {});

  const NamedTensors& tensors() const { return tensors_; }
  const Tensor& operator[](std::string_view name) const { return tensors_.at(name); }

  /// Memory for a new value of `name`: its place in the batch if shape and type match and the current value does not
  /// occupy it, otherwise scratch memory. The value becomes visible once it is `set`.
  Tensor make(std::string_view name, const Shape& shape, DType dtype);
  void set(std::string_view name, Tensor value);
  /// Scratch memory, reused once the tensor and all its copies are destroyed.
  Tensor scratch(const Shape& shape, DType dtype);

 private:
  NamedTensors tensors_, places_;
  std::vector<Tensor> memory_;  // each [elements], as large as the largest scratch tensor it has held
};

}  // namespace lacuna
