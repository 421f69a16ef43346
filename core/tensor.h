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

/// A block of device memory with an identity. The ledger counts it while it exists.
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
  /// Number of in-place changes. A saved tensor whose version differs from the one at saving is stale.
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

  /// Uninitialised. The owner is the current AllocationScope's, with `purpose`.
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
  Device device() const { return memory().device(); }
  std::int64_t count() const { return shape_.count(); }
  std::int64_t rows() const { return shape_.rows(); }
  std::int64_t bytes() const { return count() * size_of(dtype_); }

  /// Device memory of the first element; null on `meta`. Throws Error if T is not the tensor's type.
  template <class T>
  T* data() const {
    expect(dtype_of<T>() == dtype_, "a tensor of {} was read as {}", name_of(dtype_), name_of(dtype_of<T>()));
    return reinterpret_cast<T*>(raw());
  }
  std::byte* raw() const {
    std::byte* const data = memory().data();
    return data == nullptr ? nullptr : data + offset_;
  }

  /// A view of the same memory with another shape of as many elements.
  Tensor reshape(const Shape& shape) const;
  /// Leading entries [begin, end) of axis 0, as a view.
  Tensor leading(std::int64_t begin, std::int64_t end) const;
  /// Rows [begin, end) of the last axis, as a view [end - begin, C].
  Tensor row_range(std::int64_t begin, std::int64_t end) const;

  Tensor clone(Purpose purpose = Purpose::transient) const;
  /// Converted to `dtype`; the tensor itself if it has that type already.
  Tensor to(DType dtype) const;
  /// Copies the elements of `source`, which has as many on the same device, and converts them. Raises the version.
  void copy_from(const Tensor& source) const;
  /// Sets every element to `value`. Raises the version.
  void fill(double value) const;

  /// All values, row-major. Throws Error on `meta`.
  std::vector<double> to_vector() const;
  /// The value of a tensor with one element.
  double item() const;

  /// Whether this is the only reference to the memory, so that an op may overwrite it.
  bool unique() const { return storage_.use_count() == 1; }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  std::size_t offset() const { return offset_; }
  bool whole_storage() const { return offset_ == 0 && static_cast<std::size_t>(bytes()) == memory().bytes(); }
  void set_purpose(Purpose purpose) const;
  /// Called by code that changes the values in place through `data` or `raw`.
  void bump_version() const { memory().bump_version(); }

 private:
  Storage& memory() const {
    if (storage_ == nullptr) [[unlikely]]
      throw_undefined();
    return *storage_;
  }
  [[noreturn]] static void throw_undefined();

  std::shared_ptr<Storage> storage_;
  std::size_t offset_ = 0;  // bytes
  Shape shape_;
  DType dtype_ = DType::f32;
};

inline Tensor empty_like(const Tensor& like) { return Tensor::empty(like.shape(), like.dtype(), like.device()); }
/// `candidate` reshaped if it is unique and has the right size and type; new memory otherwise.
Tensor reuse_or_empty(const Tensor& candidate, const Shape& shape, DType dtype);

}  // namespace lacuna
