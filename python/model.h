// Trained models in Python.
#pragma once

#include <nanobind/nanobind.h>

namespace lacuna::python {

void bind_model(nanobind::module_& module);

}  // namespace lacuna::python
