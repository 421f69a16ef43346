// The commands of `lacuna` in Python's process.
#pragma once

#include <nanobind/nanobind.h>

namespace lacuna::python {

void bind_commands(nanobind::module_& module);

}  // namespace lacuna::python
