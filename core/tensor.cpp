#include "core/tensor.h"

#include "core/allocator.h"
#include "core/backend.h"
#include "core/coded/codec.h"
#include "core/parallel.h"
#include "core/tensor_kernels.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

namespace lacuna {
namespace {

std::uint64_t next_storage_id() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

template <class To, class From>
To convert(From value) {
  if constexpr (is_half<To>)
    return To(static_cast<float>(to_compute(value)));
  else
    return static_cast<To>(to_compute(value));
}

template <class From>
Tensor copy_in(std::span<const From> values, const Shape& shape, DType dtype, Device device) {
  expect(static_cast<std::int64_t>(values.size()) == shape.count(), "{} values do not fill {}", values.size(), shape);
  if (device != Device::cpu && device != Device::meta) return copy_in(values, shape, dtype, Device::cpu).to(device);
  Tensor tensor = Tensor::empty(shape, dtype, device);
  if (device == Device::cpu)
    with_type(dtype, [&]<class To>(Type<To>) {
      std::transform(values.begin(), values.end(), tensor.data<To>(), [](From v) { return convert<To>(v); });
    });
  return tensor;
}

/// Calls `f(begin, end)` for ranges of [0, n) elements or bytes, on all threads if n is large enough.
template <class F>
void for_ranges(std::int64_t n, const F& f) {
  constexpr std::int64_t serial_below = 65536, unit = 64;
  parallel_for(n, serial_below, f, unit);
}

void set_to_zero(const Tensor& y) {
  for_ranges(y.bytes(), [to = y.raw()](std::int64_t begin, std::int64_t end) {
    std::memset(to + begin, 0, static_cast<std::size_t>(end - begin));
  });
}

const RegisterKernel cpu_fill{
    tensor_fill, DeviceKind::cpu, [](double value, const Tensor& y) {
      if (std::bit_cast<std::uint64_t>(value) == 0) return set_to_zero(y);
      with_type(y.dtype(), [&]<class T>(Type<T>) {
        for_ranges(y.count(), [to = y.data<T>(), element = convert<T>(value)](std::int64_t begin, std::int64_t end) {
          std::fill(to + begin, to + end, element);
        });
      });
    }};

void copy_bytes(const Tensor& x, const Tensor& y) {
  for_ranges(y.bytes(), [from = x.raw(), to = y.raw()](std::int64_t begin, std::int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
  });
}

template <class From, class To>
void convert_elements(const Tensor& x, const Tensor& y) {
  for_ranges(y.count(), [from = x.data<From>(), to = y.data<To>()](std::int64_t begin, std::int64_t end) {
#pragma GCC ivdep
    for (std::int64_t i = begin; i < end; ++i) to[i] = convert<To>(from[i]);
  });
}

/// Copies the bytes of `x` to `y` on another device. Does nothing for a tensor on `meta`, which has no bytes.
void copy_between_devices(const Tensor& x, const Tensor& y) {
  if (y.device() == Device::meta || y.bytes() == 0) return;
  expect(x.device() != Device::meta, "a tensor on meta has no values to copy to {}", name_of(y.device()));
  const auto bytes = static_cast<std::size_t>(y.bytes());
  const bool from_host = x.device() == Device::cpu, to_host = y.device() == Device::cpu;
  if (!from_host && !to_host) return copy_between_devices(x.to(Device::cpu), y);
  const Device device = from_host ? y.device() : x.device();
  Backend& own = backend(device);
  if (from_host)
    own.copy_in(own.stream(device.index), y.raw(), x.data<const std::byte>(), bytes);
  else
    own.copy_out(own.stream(device.index), y.raw(), x.data<const std::byte>(), bytes);
}

const RegisterKernel cpu_copy{tensor_copy, DeviceKind::cpu, [](const Tensor& x, const Tensor& y) {
                                if (x.dtype() == y.dtype()) return copy_bytes(x, y);
                                with_type(x.dtype(), [&]<class From>(Type<From>) {
                                  with_type(y.dtype(), [&]<class To>(Type<To>) { convert_elements<From, To>(x, y); });
                                });
                              }};

}  // namespace

Storage::Storage(std::size_t bytes, Device device, const Owner& owner)
    : data_(static_cast<std::byte*>(allocator(device).allocate(bytes))),
      bytes_(bytes),
      device_(device),
      id_(next_storage_id()),
      owner_(owner) {
  try {
    ledger(device_).add(owner_, static_cast<std::int64_t>(bytes_));
  } catch (...) {
    allocator(device_).release(data_, bytes_);
    throw;
  }
}

Storage::~Storage() {
  ledger(device_).remove(owner_, static_cast<std::int64_t>(bytes_));
  allocator(device_).release(data_, bytes_);
}

void Storage::assign(const Owner& owner) {
  if (owner == owner_) return;
  ledger(device_).move(owner_, owner, static_cast<std::int64_t>(bytes_));
  owner_ = owner;
}

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device, Purpose purpose) {
  expect(dtype != DType::coded, "a coded tensor {} needs a format", shape);
  Owner owner = AllocationScope::current();
  owner.purpose = purpose;
  // This is more than a processor can address. Below this limit, the sum over a model's tensors cannot overflow either.
  constexpr std::int64_t most_bytes = std::int64_t{1} << 48;
  if (shape.count() > most_bytes / size_of(dtype))
    reject("a tensor of {} {} is larger than any machine's memory: a smaller batch, image or model is needed", shape,
           name_of(dtype));
  Tensor tensor;
  tensor.shape_ = shape;
  tensor.dtype_ = dtype;
  tensor.storage_ = std::make_shared<Storage>(static_cast<std::size_t>(shape.count() * size_of(dtype)), device, owner);
  return tensor;
}

Tensor Tensor::coded(const Shape& shape, const WeightFormat& format, Device device, Purpose purpose) {
  Tensor tensor = empty({layout_of(format, shape.count()).bytes}, DType::u8, device, purpose);
  tensor.shape_ = shape;
  tensor.dtype_ = DType::coded;
  tensor.format_ = format;
  return tensor;
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device, Purpose purpose) {
  Tensor tensor = empty(shape, dtype, device, purpose);
  tensor_fill(device, 0, tensor);
  return tensor;
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype, Device device, Purpose purpose) {
  Tensor tensor = empty(shape, dtype, device, purpose);
  tensor_fill(device, value, tensor);
  return tensor;
}

Tensor Tensor::from(std::span<const float> values, const Shape& shape, DType dtype, Device device) {
  return copy_in(values, shape, dtype, device);
}
Tensor Tensor::from(std::span<const double> values, const Shape& shape, DType dtype, Device device) {
  return copy_in(values, shape, dtype, device);
}
Tensor Tensor::from(std::span<const std::int64_t> values, const Shape& shape, Device device) {
  return copy_in(values, shape, DType::i64, device);
}

Tensor Tensor::reshape(const Shape& shape) const {
  expect(shape.count() == count(), "{} has {} elements and cannot be seen as {}", shape_, count(), shape);
  Tensor view = *this;
  view.shape_ = shape;
  return view;
}

Tensor Tensor::leading(std::int64_t begin, std::int64_t end) const {
  expect(shape_.rank() > 0 && 0 <= begin && begin <= end && end <= shape_.front(), "[{}, {}) lies outside axis 0 of {}",
         begin, end, shape_);
  if (is_coded() && begin == 0 && end == shape_.front()) return *this;
  expect(!is_coded(), "rows [{}, {}) of a weight {} in few bits cannot be viewed", begin, end, shape_);
  std::vector<std::int64_t> extents(shape_.begin(), shape_.end());
  const std::int64_t stride = shape_.front() == 0 ? 0 : bytes() / shape_.front();
  extents[0] = end - begin;
  Tensor view = *this;
  view.shape_ = Shape(std::span<const std::int64_t>(extents));
  view.offset_ += static_cast<std::size_t>(begin * stride);
  return view;
}

Tensor Tensor::row_range(std::int64_t begin, std::int64_t end) const {
  return reshape({rows(), shape_.back()}).leading(begin, end);
}

Tensor Tensor::clone(Purpose purpose) const {
  if (is_coded()) {
    Tensor copy = coded(shape_, format_, device(), purpose);
    tensor_copy(device(), as_bytes(), copy.as_bytes());
    return copy;
  }
  Tensor copy = empty(shape_, dtype_, device(), purpose);
  tensor_copy(device(), *this, copy);
  return copy;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor converted = empty(shape_, dtype, device());
  if (is_coded())
    decode(*this, converted);
  else
    tensor_copy(device(), *this, converted);
  return converted;
}

Tensor Tensor::to(Device device) const {
  if (device == this->device()) return *this;
  Tensor copy = is_coded() ? coded(shape_, format_, device) : empty(shape_, dtype_, device);
  const KernelScope scope;
  copy_between_devices(*this, copy);
  return copy;
}

void Tensor::copy_from(const Tensor& source) const {
  expect(source.count() == count(), "cannot copy {} into {}", source.shape(), shape_);
  if (is_coded() || source.is_coded()) {
    copy_coded(source);
  } else if (source.device() == device()) {
    tensor_copy(device(), source, *this);
  } else {
    const KernelScope scope;
    copy_between_devices(source.to(dtype_), *this);
  }
  bump_version();
}

Tensor Tensor::as_bytes() const {
  Tensor bytes = *this;
  bytes.shape_ = {this->bytes()};
  bytes.dtype_ = DType::u8;
  return bytes;
}

Tensor Tensor::as_bf16() const {
  expect(is_coded() && format_.code == WeightCode::bf16, "expected a weight coded as bf16");
  Tensor plain = *this;
  plain.dtype_ = DType::bf16;
  return plain;
}

void Tensor::copy_coded(const Tensor& source) const {
  if (is_coded() && source.is_coded() && format_ == source.format_) return as_bytes().copy_from(source.as_bytes());
  if (!is_coded()) {  // decoded on the source's device
    const Tensor decoded = source.to(is_floating(dtype_) && dtype_ != DType::f16 ? dtype_ : DType::f32);
    return copy_from(decoded);
  }
  if (source.is_coded()) return copy_from(source.to(DType::f32));
  if (device().kind == DeviceKind::meta) return;
  if (device() == Device::cpu) return encode(source.to(Device::cpu), *this);
  const Tensor encoded = coded(shape_, format_, Device::cpu);
  encode(source.to(Device::cpu), encoded);
  as_bytes().copy_from(encoded.as_bytes());
}

void Tensor::fill(double value) const {
  if (is_coded()) return copy_from(full(shape_, value, DType::f32, device()));
  tensor_fill(device(), value, *this);
  bump_version();
}

std::vector<double> Tensor::to_vector() const {
  expect(device() != Device::meta, "a tensor on {} has no values to read", name_of(device()));
  if (device() != Device::cpu) return to(Device::cpu).to_vector();
  if (is_coded()) return to(DType::f32).to_vector();
  std::vector<double> values(static_cast<std::size_t>(count()));
  with_type(dtype_, [&]<class T>(Type<T>) {
    const T* const in = data<const T>();
    std::transform(in, in + count(), values.begin(), [](T v) { return static_cast<double>(to_compute(v)); });
  });
  return values;
}

double Tensor::item() const {
  expect(count() == 1, "expected one element, got {}", shape_);
  return to_vector().front();
}

void Tensor::set_purpose(Purpose purpose) const {
  Owner owner = memory().owner();
  owner.purpose = purpose;
  memory().assign(owner);
}

void Tensor::throw_undefined() {
  fail("an undefined tensor was used: it was never assigned, or was moved from; check defined() before");
}

Tensor reuse_or_empty(const Tensor& candidate, const Shape& shape, DType dtype) {
  if (candidate.unique() && candidate.whole_storage() && candidate.dtype() == dtype &&
      candidate.count() == shape.count())
    return candidate.reshape(shape);
  return Tensor::empty(shape, dtype, candidate.device());
}

}  // namespace lacuna
