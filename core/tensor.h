// A contiguous array of one type on one device. Images are NHWC, tokens [batch, length, channels].
#pragma once

#include "core/coded/format.h"
#include "core/device.h"
#include "core/dtype.h"
#include "core/kernel_scope.h"
#include "core/ledger.h"
#include "core/shape.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace lacuna {

/// A block of device memory with an identity. The ledger counts it until it is freed.
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
  /// The number of in-place changes. A saved tensor is stale if the version has changed since it was saved.
  std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.store(version() + 1, std::memory_order_relaxed); }
  const Owner& owner() const { return owner_; }
  void assign(const Owner& owner);

 private:
  std::byte* data_;
  std::size_t bytes_;
  Device device_;
  std::uint64_t id_;
  std::atomic<std::uint64_t> version_ = 0;
  Owner owner_;
};

class Tensor {
 public:
  Tensor() = default;  // undefined: no storage

  /// An uninitialised tensor. The ledger counts it under `purpose` and the owner of the current AllocationScope.
  static Tensor empty(const Shape& shape, DType dtype, Device device, Purpose purpose = Purpose::transient);
  /// An uninitialised tensor in few bits. Kernels read it by core/coded/codec.h; `to` and `copy_from` decode and encode
  /// it.
  static Tensor coded(const Shape& shape, const WeightFormat& format, Device device,
                      Purpose purpose = Purpose::transient);
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
  bool is_coded() const { return dtype_ == DType::coded; }
  /// How a coded tensor lies in memory.
  const WeightFormat& format() const { return format_; }
  Device device() const { return memory().device(); }
  std::int64_t count() const { return shape_.count(); }
  std::int64_t rows() const { return shape_.rows(); }
  std::int64_t bytes() const { return is_coded() ? layout_of(format_, count()).bytes : count() * size_of(dtype_); }

  /// A pointer to the first element; null on `meta`. T must be the tensor's type, or std::byte for any type; otherwise
  /// throws Error. `data<float>()` is for writing: outside of kernels it raises the version, so that backward throws if
  /// it needs the old values. `data<const float>()` is for reading.
  template <class T>
  T* data() const {
    using Element = std::remove_const_t<T>;
    if constexpr (!std::is_same_v<Element, std::byte>)
      expect(dtype_of<Element>() == dtype_, "a tensor of {} was read as {}", name_of(dtype_),
             name_of(dtype_of<Element>()));
    if constexpr (!std::is_const_v<T>)
      if (!KernelScope::is_open()) bump_version();
    std::byte* const first = memory().data();
    return first == nullptr ? nullptr : reinterpret_cast<T*>(first + offset_);
  }
  std::byte* raw() const { return data<std::byte>(); }

  /// A view of the same memory with another shape of equal count.
  Tensor reshape(const Shape& shape) const;
  /// A view of entries [begin, end) of axis 0. A coded tensor has none but the whole.
  Tensor leading(std::int64_t begin, std::int64_t end) const;
  /// A view [end - begin, C] of rows [begin, end), runs along the last axis.
  Tensor row_range(std::int64_t begin, std::int64_t end) const;

  Tensor clone(Purpose purpose = Purpose::transient) const;
  /// The tensor converted to `dtype`, or decoded; the tensor itself if it already has that type.
  Tensor to(DType dtype) const;
  /// A copy on another device; the tensor itself if it is already there. A copy to the CPU waits for the device's work.
  Tensor to(Device device) const;
  /// Copies and converts (decodes, encodes) the elements of `source`, which must have the same count. Raises the
  /// version.
  void copy_from(const Tensor& source) const;
  /// Sets every element to `value`. Raises the version.
  void fill(double value) const;

  /// The codes and scales of a coded tensor as u8 [bytes], a view.
  Tensor as_bytes() const;
  /// The elements of a tensor coded as bf16, a view.
  Tensor as_bf16() const;

  /// All values, row-major. Waits for the device's work. Throws Error on `meta`.
  std::vector<double> to_vector() const;
  /// The value of a tensor with one element.
  double item() const;

  /// Whether this tensor is the only reference to its memory. If so, an op may overwrite it.
  bool unique() const { return storage_.use_count() == 1; }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  std::size_t offset() const { return offset_; }
  bool whole_storage() const { return offset_ == 0 && static_cast<std::size_t>(bytes()) == memory().bytes(); }
  void set_purpose(Purpose purpose) const;
  /// Raises the version. The owner calls it after a kernel changed the tensor in place, or after a write through a
  /// pointer taken earlier.
  void bump_version() const { memory().bump_version(); }

 private:
  void copy_coded(const Tensor& source) const;
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
  WeightFormat format_{};  // of a coded tensor
};

inline Tensor empty_like(const Tensor& like) { return Tensor::empty(like.shape(), like.dtype(), like.device()); }
/// `candidate` reshaped if it is unique and has the right size and type; new memory otherwise.
Tensor reuse_or_empty(const Tensor& candidate, const Shape& shape, DType dtype);

}  // namespace lacuna
