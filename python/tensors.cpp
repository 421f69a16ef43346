#include "python/tensors.h"

#include "core/dtype.h"
#include "nn/functional.h"
#include "python/gil.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
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

/// The memory of a tensor as an object with `__dlpack__` and the buffer protocol, which keeps it alive.
nb::object exchange(const Tensor& given) {
  const Tensor tensor = given.is_coded() && given.format().code == WeightCode::bf16 ? given.as_bf16() : given;
  if (tensor.is_coded()) reject("a tensor in few bits has no array of its elements: `to(\"f32\")` decodes it");
  if (tensor.device() == Device::meta) reject("a tensor on meta has no values");
  std::vector<std::size_t> extents(tensor.shape().begin(), tensor.shape().end());
  const nb::capsule owner(new Tensor(tensor), [](void* held) noexcept { delete static_cast<Tensor*>(held); });
  const bool on_gpu = tensor.device().kind == DeviceKind::cuda;
  return nb::cast(Exchanged(tensor.raw(), extents.size(), extents.data(), owner, nullptr, exchanged(tensor.dtype()),
                            on_gpu ? nb::device::cuda::value : nb::device::cpu::value,
                            on_gpu ? tensor.device().index : 0, 'C'));
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  try {
    const nb::object memory = exchange(nb::cast<const Variable&>(nb::handle(self)).tensor());
    return PyObject_GetBuffer(memory.ptr(), view, flags);
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
    return -1;
  }
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

DType type_named(const std::string& name) {
  for (const auto& [type, code] : codes)
    if (name_of(type) == name) return type;
  reject("expected a type among f32, bf16, f16, f64, i64, i32 and u8, got {}", name);
}

/// Extents of nested lists, whose numbers are appended to `numbers`.
void flatten(nb::handle value, std::size_t depth, std::vector<std::int64_t>& extents, std::vector<double>& numbers,
             bool& whole, const std::string& name) {
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
    const auto count = static_cast<std::int64_t>(nb::len(value));
    if (depth == extents.size())
      extents.push_back(count);
    else if (extents[depth] != count)
      reject("{}: expected lists of one length, got {} and {}", name, extents[depth], count);
    for (const nb::handle item : value) flatten(item, depth + 1, extents, numbers, whole, name);
    return;
  }
  double number = 0;
  if (!nb::try_cast(value, number) || depth != extents.size())
    reject("{}: expected an array or nested lists of numbers, got {}", name,
           nb::cast<std::string>(nb::str(value.type().attr("__name__"))));
  whole = whole && !PyFloat_Check(value.ptr());
  numbers.push_back(number);
}

Tensor from_lists(nb::handle value, const std::string& name) {
  std::vector<std::int64_t> extents;
  std::vector<double> numbers;
  bool whole = true;
  flatten(value, 0, extents, numbers, whole, name);
  const Tensor tensor = Tensor::from(std::span<const double>(numbers), Shape(extents));
  return tensor.to(whole ? DType::i64 : DType::f32);
}

/// An op that works while other Python threads may run.
template <class R, class... Args>
auto freely(R (*op)(Args...)) {
  return [op](std::decay_t<Args>... given) -> Variable {
    const CppScope scope;
    return op(std::move(given)...);
  };
}

}  // namespace

namespace {

using HostArray = nb::ndarray<nb::c_contig, nb::device::cpu>;

DType type_of(const HostArray& array, const std::string& name) {
  const std::optional<DType> type = type_of(array.dtype());
  if (!type) reject("{}: expected an array of f32, bf16, f16, f64, i64, i32, u8 or bool, got another type", name);
  return *type;
}

Shape shape_of(const HostArray& array) {
  return Shape(std::vector<std::int64_t>(array.shape_ptr(), array.shape_ptr() + array.ndim()));
}

}  // namespace

std::pair<DType, Shape> described(nb::handle array, const std::string& name) {
  HostArray given;
  if (!nb::try_cast(array, given)) reject("{}: expected an array on the host", name);
  return {type_of(given, name), shape_of(given)};
}

Tensor to_tensor(nb::handle array, const std::string& name) {
  if (nb::isinstance<Variable>(array)) return nb::cast<const Variable&>(array).tensor();
  HostArray given;
  if (!nb::try_cast(array, given)) return from_lists(array, name);
  const Tensor tensor = Tensor::empty(shape_of(given), type_of(given, name), Device::cpu, Purpose::data);
  std::copy_n(static_cast<const std::byte*>(static_cast<const void*>(given.data())), tensor.bytes(), tensor.raw());
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

nb::dict to_python(const NamedTensors& tensors) {
  nb::dict dict;
  for (const auto& [name, tensor] : tensors) dict[nb::str(name.data(), name.size())] = Variable(tensor);
  return dict;
}

nb::dict to_python(const NamedValues<Variable>& variables) {
  nb::dict dict;
  for (const auto& [name, variable] : variables) dict[nb::str(name.data(), name.size())] = variable;
  return dict;
}

void bind_tensors(nb::module_& module) {
  nb::class_<Variable>(
      module, "Tensor", nb::type_slots(slots),
      "A tensor that the tape of a training step tracks. Anything with `__dlpack__` or the buffer protocol "
      "makes one (a copy); numpy and torch take its memory without a copy, by `numpy()`, `torch()`, "
      "`numpy.asarray` or `torch.from_dlpack`.")
      .def(
          "__init__",
          [](Variable* self, nb::handle array, bool requires_grad) {
            new (self) Variable(to_tensor(array, "array"), requires_grad);
          },
          "array"_a, "requires_grad"_a = false)
      .def_prop_ro("shape",
                   [](const Variable& self) {
                     return nb::tuple(nb::cast(std::vector<std::int64_t>(self.shape().begin(), self.shape().end())));
                   })
      .def_prop_ro("dtype", [](const Variable& self) { return std::string(name_of(self.dtype())); })
      .def_prop_ro("device", [](const Variable& self) { return name_of(self.device()); })
      .def_prop_rw("requires_grad", &Variable::requires_grad, &Variable::set_requires_grad)
      .def("__dlpack__",
           [](const Variable& self, const nb::kwargs& options) {
             return exchange(self.tensor()).attr("__dlpack__")(**options);
           })
      .def("__dlpack_device__",
           [](const Variable& self) { return exchange(self.tensor()).attr("__dlpack_device__")(); })
      .def(
          "numpy",
          [](const Variable& self) {
            return nb::module_::import_("numpy").attr("asarray")(exchange(self.tensor().to(Device::cpu)));
          },
          "An array of numpy over the same memory.")
      .def(
          "torch",
          [](const Variable& self) {
            return nb::module_::import_("torch").attr("from_dlpack")(exchange(self.tensor()));
          },
          "A tensor of torch over the same memory.")
      .def(
          "item", [](const Variable& self) { return self.tensor().item(); }, "The value of a tensor with one element.")
      .def(
          "to",
          [](const Variable& self, const std::string& type) { return Variable(self.tensor().to(type_named(type))); },
          "dtype"_a, "A constant of another type; a tensor in few bits is decoded.")
      .def("detach", &Variable::detach, "The same memory as a constant.")
      .def(
          "reshape",
          [](const Variable& self, const std::vector<std::int64_t>& shape) { return self.reshape(Shape(shape)); },
          "shape"_a)
      .def("__add__", freely<Variable, Variable, Variable>(operator+), nb::is_operator())
      .def("__sub__", freely<Variable, Variable, Variable>(operator-), nb::is_operator())
      .def("__mul__", freely<Variable, Variable, Variable>(operator*), nb::is_operator())
      .def("__mul__", freely<Variable, Variable, double>(operator*), nb::is_operator())
      .def("__rmul__", freely<Variable, Variable, double>(operator*), nb::is_operator())
      .def("__truediv__", freely<Variable, Variable, double>(operator/), nb::is_operator())
      .def("__neg__", freely<Variable, Variable>(operator-), nb::is_operator())
      .def(
          "__matmul__",
          [](const Variable& a, const Variable& b) {
            const CppScope scope;
            return matmul(a, b);
          },
          nb::is_operator())
      .def("__repr__", [](const Variable& self) {
        return fmt::format("Tensor({} {} on {})", name_of(self.dtype()), self.shape(), name_of(self.device()));
      });
}

}  // namespace lacuna::python
