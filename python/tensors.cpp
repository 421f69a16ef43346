#include "python/tensors.h"

#include "core/dtype.h"
#include "nn/functional.h"
#include "python/gil.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace lacuna::python {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;

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

/// The type whose numbers Python has.
DType listed(DType type) { return is_floating(type) ? DType::f64 : type; }

std::int64_t length_of(const Variable& self) {
  if (self.shape().rank() == 0) throw nb::type_error("a tensor [] has no length");
  return self.shape().front();
}

Variable entry(const Variable& self, std::int64_t index) {
  const std::int64_t count = length_of(self);
  if (index < -count || index >= count) throw nb::index_error("index out of range");
  const std::int64_t at = index < 0 ? index + count : index;
  const Shape rest(std::span(self.shape().begin() + 1, self.shape().end()));
  if (!self.requires_grad()) return Variable(self.tensor().leading(at, at + 1).reshape(rest));
  const CppScope scope;
  return slice(self, 0, at, at + 1).reshape(rest);
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
  nb::class_<Variable>(module, "Tensor", nb::type_slots(slots),
                       "A tensor that the tape of a training step tracks.\n\n"
                       "numpy and torch take its memory without a copy: `numpy()`, `torch()`, `numpy.asarray`, "
                       "`torch.from_dlpack`. Operators +, - and * take tensors of one shape and type, * and / numbers; "
                       "shapes that do not fit raise `lacuna.Error`.")
      .def(
          "__init__",
          [](Variable* self, nb::handle array) { new (self) Variable(to_tensor(array, "array")); },
          nb::sig("def __init__(self, array: typing.Any) -> None"), "array"_a,
          "A copy on the host of an array there (`__dlpack__`, the buffer protocol, numpy's interface), of a Tensor, a "
          "number or nested lists of numbers, which become i64 where all are whole and f32 else.")
      .def("__len__", length_of, "The extent of axis 0; TypeError of a tensor [].")
      .def("__getitem__", entry, "index"_a,
           "Entry `index` of axis 0: the same memory, or a copy that the tape tracks where it requires a gradient.")
      .def_prop_ro(
          "shape",
          [](const Variable& self) {
            return nb::tuple(nb::cast(std::vector<std::int64_t>(self.shape().begin(), self.shape().end())));
          },
          nb::sig("def shape(self) -> tuple[int, ...]"), "The extents.")
      .def_prop_ro(
          "dtype", [](const Variable& self) { return std::string(name_of(self.dtype())); },
          "`f32`, `bf16`, `f16`, `f64`, `i64`, `i32` or `u8`.")
      .def_prop_ro(
          "device", [](const Variable& self) { return name_of(self.device()); },
          "`cpu`, `cuda:0`, or `meta` in plans, where tensors have no values.")
      .def_prop_ro("requires_grad", &Variable::requires_grad, "Whether the gradient of a parameter depends on it.")
      .def(
          "__dlpack__",
          [](const Variable& self, const nb::kwargs& options) {
            return exchange(self.tensor()).attr("__dlpack__")(**options);
          },
          nb::sig("def __dlpack__(self, **options: typing.Any) -> typing.Any"),
          "A capsule over the same memory. Raises Error for tensors in few bits and on meta.")
      .def(
          "__dlpack_device__",
          [](const Variable& self) { return exchange(self.tensor()).attr("__dlpack_device__")(); },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"),
          "The kind of device and its number, as DLPack says.")
      .def(
          "__array__",
          [](const Variable& self, nb::handle dtype, nb::handle copy) { return to_numpy(self.tensor(), dtype, copy); },
          nb::sig("def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> typing.Any"),
          "dtype"_a = nb::none(), "copy"_a = nb::none(), "As numpy().")
      .def(
          "numpy", [](const Variable& self) { return to_numpy(self.tensor()); },
          nb::sig("def numpy(self) -> typing.Any"),
          "An array of numpy over the same memory; a copy where the tensor is on a GPU. Raises Error for bf16, which "
          "numpy lacks: `to(\"f32\")` first.")
      .def(
          "torch",
          [](const Variable& self) {
            return nb::module_::import_("torch").attr("from_dlpack")(exchange(self.tensor()));
          },
          nb::sig("def torch(self) -> typing.Any"), "A tensor of torch over the same memory.")
      .def(
          "tolist",
          [](const Variable& self) {
            const nb::object memory = exchange(self.tensor().to(Device::cpu).to(listed(self.dtype())));
            return nb::steal(PyMemoryView_FromObject(memory.ptr())).attr("tolist")();
          },
          nb::sig("def tolist(self) -> typing.Any"), "The values as nested lists, of a tensor [] as a number.")
      .def(
          "item", [](const Variable& self) { return self.tensor().item(); },
          "The value of a tensor with one element; Error of others.")
      .def("__float__", [](const Variable& self) { return self.tensor().item(); }, "As item().")
      .def(
          "to",
          [](const Variable& self, const std::string& type) { return Variable(self.tensor().to(type_named(type))); },
          "dtype"_a, "A constant of another type, named as in `dtype`; a tensor in few bits is decoded.")
      .def("detach", &Variable::detach, "The same memory as a constant.")
      .def(
          "reshape",
          [](const Variable& self, std::vector<std::int64_t> shape) {
            const auto open = std::ranges::find(shape, -1);
            if (open != shape.end()) {
              *open = 1;
              const std::int64_t others = Shape(shape).count();
              *open = others > 0 ? self.shape().count() / others : 0;
            }
            return self.reshape(Shape(shape));
          },
          nb::sig("def reshape(self, shape: collections.abc.Sequence[int]) -> Tensor"), "shape"_a,
          "The same elements in another shape; one extent may be -1.")
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
