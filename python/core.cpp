// The extension `lacuna._core`; python/lacuna holds what users see.
#include "core/error.h"
#include "python/commands.h"
#include "python/model.h"
#include "python/tensors.h"

#include <nanobind/nanobind.h>

namespace nb = nanobind;

NB_MODULE(_core, module) {
  module.attr("__version__") = LACUNA_VERSION;
  nb::exception<lacuna::Error>(module, "Error").attr("__module__") = "lacuna";
  lacuna::python::bind_tensors(module);
  lacuna::python::bind_ops(module);
  lacuna::python::bind_model(module);
  lacuna::python::bind_commands(module);
}
