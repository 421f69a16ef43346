// One sample, between data set and batch.
#pragma once

#include "core/error.h"
#include "data/batch.h"
#include "data/field.h"
#include "data/sample_random.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna {

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

/// The image of a sample, as a transform sees it.
class SampleImage {
 public:
  /// `name`: the field of the image. `mask`: that of the classes of its pixels; null: it has none.
  SampleImage(Sample& sample, std::string_view name, const SampleField* mask = nullptr)
      : sample_(&sample), name_(name), mask_(mask) {}

  const Tensor& tensor() const { return (*sample_)[name_]; }
  /// The field of the mask; null if there is none.
  const SampleField* mask() const { return mask_; }
  /// The mask, [H, W], as it is before the transform.
  const Tensor& mask_values() const { return (*sample_)[mask_->name]; }
  /// Memory for a new value, as Sample::make.
  Tensor make(const Shape& shape, DType dtype) { return sample_->make(name_, shape, dtype); }
  void set(Tensor value) { sample_->set(name_, std::move(value)); }
  Tensor scratch(const Shape& shape, DType dtype) { return sample_->scratch(shape, dtype); }

 private:
  Sample* sample_;
  std::string_view name_;
  const SampleField* mask_;
};

}  // namespace lacuna
