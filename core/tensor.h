// A contiguous array of one type on one device. Images are NHWC, tokens [batch, length, channels].
#pragma once

#include "core/device.h"
#include "core/dtype.h"
#include "core/ledger.h"
#include "core/shape.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lacuna {

/// A block of device memory with an identity, counted in the ledger for as long as it lives.
class Storage {
 public:
  Storage(std::size_t bytes, Device device, const Owner& owner);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  std::uint64_t id() const { return id_; }
  /// Counts the changes in place: a saved tensor whose version moved on is stale.
  std::uint64_t version() const { return version_; }
  void bump_version() { ++version_; }
  const Owner& owner() const { return owner_; }
  void assign(const Owner& owner);

 private:
  std::byte* data_;
  std::size_t bytes_;
  Device device_;
  std::uint64_t id_;
  std::uint64_t version_ = 0;
  Owner owner_;
};

class Tensor {
 public:
  Tensor() = default;  // undefined: no storage

  /// Not initialised. The owner is the current AllocationScope's, with `purpose`.
  static Tensor empty(const Shape& shape, DType dtype, Device device, Purpose purpose = Purpose::transient);
  static Tensor zeros(const Shape& shape, DType dtype, Device device, Purpose purpose = Purpose::transient);
  static Tensor full(const Shape& shape, double value, DType dtype, Device device,
                     Purpose purpose = Purpose::transient);
  /// Copies values from host memory, converting to `dtype`.
  static Tensor from(std::span<const float> values, const Shape& shape, DType dtype = DType::f32,
                     Device device = Device::cpu);
  static Tensor from(std::span<const double> values, const Shape& shape, DType dtype = DType::f64,
                     Device device = Device::cpu);
  static Tensor from(std::span<const std::int64_t> values, const Shape& shape, Device device = Device::cpu);

  bool defined() const { return storage_ != nullptr; }
  explicit operator bool() const { return defined(); }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_->device(); }
  std::int64_t count() const { return shape_.count(); }
  std::int64_t rows() const { return shape_.rows(); }
  std::int64_t bytes() const { return count() * size_of(dtype_); }

  /// First element, as device memory of type T; null on `meta`.
  template <class T>
  T* data() const {
    expect(dtype_of<T>() == dtype_, "a tensor of {} was read as {}", name_of(dtype_), name_of(dtype_of<T>()));
    return reinterpret_cast<T*>(raw());
  }
  std::byte* raw() const { return storage_->data() == nullptr ? nullptr : storage_->data() + offset_; }

  /// The same memory under another shape with as many elements.
  Tensor reshape(const Shape& shape) const;
  /// Leading entries [begin, end) of axis 0, as a view.
  Tensor leading(std::int64_t begin, std::int64_t end) const;
  /// Rows [begin, end) of the last axis, as a view [end - begin, C].
  Tensor row_range(std::int64_t begin, std::int64_t end) const;

  Tensor clone(Purpose purpose = Purpose::transient) const;
  /// Converted; the tensor itself when it has that type already.
  Tensor to(DType dtype) const;
  void copy_from(const Tensor& source) const;
  void fill(double value) const;

  /// Values as the host reads them, row-major.
  std::vector<double> to_vector() const;
  /// The value of a tensor with one element.
  double item() const;

  /// Nobody else can see this memory: an op may write into it.
  bool unique() const { return storage_.use_count() == 1; }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  std::size_t offset() const { return offset_; }
  bool whole_storage() const { return offset_ == 0 && static_cast<std::size_t>(bytes()) == storage_->bytes(); }
  void set_purpose(Purpose purpose) const;
  void bump_version() const { storage_->bump_version(); }

 private:
  std::shared_ptr<Storage> storage_;
  std::size_t offset_ = 0;  // bytes
  Shape shape_;
  DType dtype_ = DType::f32;
};

inline Tensor empty_like(const Tensor& like) { return Tensor::empty(like.shape(), like.dtype(), like.device()); }
/// `candidate` itself where nobody else can see it and it has the right size, new memory otherwise.
Tensor reuse_or_empty(const Tensor& candidate, const Shape& shape, DType dtype);

}  // namespace lacuna
