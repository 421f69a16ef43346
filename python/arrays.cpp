// Arrays of Python, taken from other libraries and given to them.
#include "core/backend.h"
#include "core/dtype.h"
#include "python/tensors.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace lacuna::python {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;

constexpr std::pair<DType, nb::dlpack::dtype_code> codes[] = {
    {DType::f32, nb::dlpack::dtype_code::Float}, {DType::bf16, nb::dlpack::dtype_code::Bfloat},
    {DType::f16, nb::dlpack::dtype_code::Float}, {DType::f64, nb::dlpack::dtype_code::Float},
    {DType::i64, nb::dlpack::dtype_code::Int},   {DType::i32, nb::dlpack::dtype_code::Int},
    {DType::u8, nb::dlpack::dtype_code::UInt}};

nb::dlpack::dtype exchanged(DType type) {
  const auto* const found = std::ranges::find(codes, type, [](const auto& one) { return one.first; });
  return {static_cast<std::uint8_t>(found->second), static_cast<std::uint8_t>(8 * size_of(type)), 1};
}

/// Nothing where Lacuna has no such type.
std::optional<DType> type_of(nb::dlpack::dtype type) {
  for (const auto& [ours, code] : codes)
    if (exchanged(ours) == type) return ours;
  if (type == nb::dlpack::dtype{static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bool), 8, 1}) return DType::u8;
  return {};
}

using Exchanged = nb::ndarray<nb::array_api>;

/// Refuses tensors without an array of their elements.
Tensor readable(const Tensor& given) {
  if (given.device() == Device::meta) reject("a tensor on meta has no values");
  if (!given.is_coded()) return given;
  if (given.format().code != WeightCode::bf16)
    reject("a tensor in few bits has no array of its elements: `to(\"f32\")` decodes it");
  return given.as_bf16();
}

/// The tensor, or a copy of it, on the host, where `name` stands in messages; nothing where `value` is none of Lacuna.
std::optional<Tensor> own_tensor(nb::handle value, const std::string& name) try {
  if (!nb::isinstance<Variable>(value)) return {};
  return readable(nb::cast<const Variable&>(value).tensor()).to(Device::cpu);
} catch (const Error& error) {
  reject("{}: {}", name, error.what());
}

}  // namespace

nb::object exchange(const Tensor& given) {
  const Tensor tensor = readable(given);
  std::vector<std::size_t> extents(tensor.shape().begin(), tensor.shape().end());
  const nb::capsule owner(new Tensor(tensor), [](void* held) noexcept { delete static_cast<Tensor*>(held); });
  const bool on_gpu = tensor.device().kind == DeviceKind::cuda;
  if (on_gpu) {  // others read it on streams that do not wait for Lacuna's
    const nb::gil_scoped_release released;
    synchronize(tensor.device());
  }
  return nb::cast(Exchanged(tensor.raw(), extents.size(), extents.data(), owner, nullptr, exchanged(tensor.dtype()),
                            on_gpu ? nb::device::cuda::value : nb::device::cpu::value,
                            on_gpu ? tensor.device().index : 0, 'C'));
}

nb::object to_numpy(const Tensor& given, nb::handle dtype, nb::handle copy) {
  const Tensor tensor = readable(given).to(Device::cpu);
  if (tensor.dtype() == DType::bf16) reject("numpy has no bf16: `to(\"f32\")` converts the tensor");
  if (copy.is(nb::bool_(false)) && given.device() != Device::cpu)
    reject("expected a tensor on the host where copy=False, got one on {}", name_of(given.device()));
  return nb::module_::import_("numpy").attr("array")(exchange(tensor), "dtype"_a = dtype, "copy"_a = copy);
}

DType type_named(const std::string& name) {
  for (const auto& [type, code] : codes)
    if (name_of(type) == name) return type;
  reject("expected a type among f32, bf16, f16, f64, i64, i32 and u8, got {}", name);
}

namespace {

std::string name_of_type(nb::handle value) { return nb::cast<std::string>(nb::str(value.type().attr("__name__"))); }

/// Whether `value`, an array or a number of a library, has axes.
bool has_axes(nb::handle value) {
  return nb::hasattr(value, "ndim") && !nb::object(value.attr("ndim")).equal(nb::int_(0));
}

/// Numbers of nested lists.
struct Listed {
  std::vector<std::int64_t> extents;
  std::vector<double> numbers;
  std::vector<std::int64_t> whole;  // the same, as long as all are whole

  void add(nb::handle value, std::size_t depth, const std::string& name) {
    if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
      const auto count = static_cast<std::int64_t>(nb::len(value));
      if (depth == Shape::max_rank) reject("{}: expected at most {} axes, got lists in more lists", name, depth);
      if (depth == extents.size() && numbers.empty())
        extents.push_back(count);
      else if (depth == extents.size())
        reject("{}: expected a number beside numbers, got a list", name);
      else if (extents[depth] != count)
        reject("{}: expected lists of one length, got {} and {}", name, extents[depth], count);
      for (const nb::handle item : value) add(item, depth + 1, name);
      return;
    }
    double number = 0;
    if (has_axes(value) || !nb::try_cast(value, number) || depth != extents.size())
      reject("{}: expected an array or nested lists of numbers, got {}", name, name_of_type(value));
    std::int64_t exact = 0;
    nb::object index;
    if (PyIndex_Check(value.ptr()) != 0) index = nb::steal(PyNumber_Index(value.ptr()));
    if (!index.is_valid()) {
      PyErr_Clear();  // arrays of floats have an index that raises
    } else {
      if (!nb::try_cast(index, exact))
        reject("{}: expected whole numbers of 64 bits, got {}", name, nb::cast<std::string>(nb::str(value)));
      whole.push_back(exact);
    }
    numbers.push_back(number);
  }
};

Tensor from_lists(nb::handle value, const std::string& name) {
  Listed listed;
  listed.add(value, 0, name);
  const Shape shape(listed.extents);
  if (listed.whole.size() == listed.numbers.size())
    return Tensor::from(std::span<const std::int64_t>(listed.whole), shape);
  for (const double number : listed.numbers)
    if (std::isfinite(number) && std::abs(number) > std::numeric_limits<float>::max())
      reject("{}: expected numbers that f32 holds, got {}: arrays of f64 hold it", name, number);
  return Tensor::from(std::span<const double>(listed.numbers), shape).to(DType::f32);
}

using HostArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

/// The array on the host that `array` is, or that it can become, as pictures of Pillow and tensors with a gradient do;
/// nothing where it is none.
std::optional<HostArray> host_array(nb::handle array, const std::string& name) {
  HostArray given;
  if (nb::try_cast(array, given)) return given;
  if (nb::hasattr(array, "is_cpu") && PyObject_IsTrue(nb::object(array.attr("is_cpu")).ptr()) == 0)
    reject("{}: expected an array on the host, got one on {}: `.cpu()` copies it", name,
           nb::cast<std::string>(nb::str(nb::object(array.attr("device")))));
  nb::object other;
  if (nb::hasattr(array, "detach"))
    other = array.attr("detach")();
  else if (nb::hasattr(array, "__array_interface__"))
    other = nb::module_::import_("numpy").attr("ascontiguousarray")(array);
  if (other.is_valid() && nb::try_cast(other, given)) return given;
  if (nb::hasattr(array, "dtype"))
    reject("{}: expected a dense array of numbers in this machine's order of bytes, got {} of {}", name,
           name_of_type(array), nb::cast<std::string>(nb::str(nb::object(array.attr("dtype")))));
  return {};
}

/// A number of numpy, which is no array.
bool is_scalar(nb::handle value) {
  return nb::hasattr(value, "ndim") && !has_axes(value) && nb::hasattr(value, "item") &&
         !nb::hasattr(value, "__dlpack__");
}

/// The type of Lacuna that holds the elements; integers that it lacks become i64.
DType type_of(const HostArray& array, const std::string& name) {
  const nb::dlpack::dtype type = array.dtype();
  if (const std::optional<DType> same = type_of(type)) return *same;
  const bool is_whole = type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int) ||
                        type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt);
  if (!is_whole || type.lanes != 1 || (type.bits != 8 && type.bits != 16 && type.bits != 32))
    reject("{}: expected f32, bf16, f16, f64, bool, i64 or integers of 8, 16 or 32 bits, got another type of {} bits",
           name, static_cast<int>(type.bits));
  return DType::i64;
}

Shape shape_of(const HostArray& array) {
  return Shape(std::vector<std::int64_t>(array.shape_ptr(), array.shape_ptr() + array.ndim()));
}

template <class T>
void widen(const HostArray& from, Tensor& to) {
  std::copy_n(static_cast<const T*>(static_cast<const void*>(from.data())), to.count(), to.data<std::int64_t>());
}

}  // namespace

std::pair<DType, Shape> described(nb::handle array, const std::string& name) {
  if (const std::optional<Tensor> own = own_tensor(array, name)) return {own->dtype(), own->shape()};
  const std::optional<HostArray> given = host_array(array, name);
  if (!given) reject("{}: expected an array, got {}", name, name_of_type(array));
  return {type_of(*given, name), shape_of(*given)};
}

Tensor to_tensor(nb::handle array, const std::string& name) {
  if (const std::optional<Tensor> own = own_tensor(array, name)) return own->clone(Purpose::data);
  if (is_scalar(array)) return from_lists(nb::object(array.attr("item")()), name);
  const std::optional<HostArray> given = host_array(array, name);
  if (!given) return from_lists(array, name);
  Tensor tensor = Tensor::empty(shape_of(*given), type_of(*given, name), Device::cpu, Purpose::data);
  const nb::dlpack::dtype type = given->dtype();
  const bool is_signed = type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int);
  if (type_of(type))
    std::copy_n(static_cast<const std::byte*>(static_cast<const void*>(given->data())), tensor.bytes(), tensor.raw());
  else if (type.bits == 8)
    widen<std::int8_t>(*given, tensor);
  else if (type.bits == 16)
    is_signed ? widen<std::int16_t>(*given, tensor) : widen<std::uint16_t>(*given, tensor);
  else
    widen<std::uint32_t>(*given, tensor);
  return tensor;
}

Tensor to_field(nb::handle array, const SampleField& field, const std::string& where) {
  const std::string name = where + field.name;
  Tensor tensor = to_tensor(array, name);
  const Shape& shape = tensor.shape();
  const bool varies = field.collation != Collation::stacked;
  const bool fits = shape.rank() == field.shape.rank() &&
                    std::equal(shape.begin() + (varies ? 1 : 0), shape.end(), field.shape.begin() + (varies ? 1 : 0));
  if (!fits || (varies && shape.front() > field.shape.front()))
    reject("{}: expected the shape {}{}, got {}", name, field.shape, varies ? ", or shorter" : "", shape);
  const bool is_read = field.dtype != DType::u8 && tensor.dtype() != DType::u8 &&
                       is_floating(field.dtype) == is_floating(tensor.dtype());
  if (tensor.dtype() != field.dtype && !is_read)
    reject("{}: expected {}, got {}", name, name_of(field.dtype), name_of(tensor.dtype()));
  tensor = tensor.to(field.dtype);
  if (field.below > 0 && field.dtype == DType::i64) {
    const std::span values(tensor.data<const std::int64_t>(), static_cast<std::size_t>(tensor.count()));
    for (const std::int64_t value : values)
      if (value >= field.below || (value < 0 && value != static_cast<std::int64_t>(field.padding)))
        reject("{}: expected whole numbers from 0 to {}, got {}", name, field.below - 1, value);
  }
  return tensor;
}

}  // namespace lacuna::python
