// Tensors in Python: variables of the tape, exchanged with numpy, torch and others without a copy.
#pragma once

#include "autograd/variable.h"
#include "data/batch.h"
#include "data/field.h"
#include "data/sample.h"

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

namespace lacuna::python {

void bind_tensors(nanobind::module_& module);
void bind_ops(nanobind::module_& module);

/// The memory of a tensor as an object with `__dlpack__` and the buffer protocol, which keeps it alive.
nanobind::object exchange(const Tensor& tensor);
/// An array of numpy over the memory of a tensor, or over a copy where it is on a GPU. Refuses bf16.
nanobind::object to_numpy(const Tensor& tensor, nanobind::handle dtype = nanobind::none(),
                          nanobind::handle copy = nanobind::none());
/// Refuses names of types that arrays do not have.
DType type_named(const std::string& name);

/// A copy of an array on the host: an object with `__dlpack__`, the buffer protocol or numpy's interface, a number, or
/// nested lists. `name` stands in messages. Numbers and lists become f32, or i64 where all are whole; integers of types
/// that Lacuna lacks become i64, and bool u8.
Tensor to_tensor(nanobind::handle array, const std::string& name);

/// Type and shape of what `to_tensor` would make of an array.
std::pair<DType, Shape> described(nanobind::handle array, const std::string& name);

/// A sample's tensor of `field` from an array: of its shape, and of its type or one that converts to it without loss of
/// meaning, floats to floats and integers to integers. Refuses integers that are not below the field's bound.
Tensor to_field(nanobind::handle array, const SampleField& field, const std::string& where);

/// Outputs and batches as dictionaries of tensors.
nanobind::dict to_python(const NamedTensors& tensors);
nanobind::dict to_python(const NamedValues<Variable>& variables);

}  // namespace lacuna::python
