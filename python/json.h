// JSON as Python values.
#pragma once

#include <nanobind/nanobind.h>
#include <nlohmann/json_fwd.hpp>

namespace lacuna::python {

/// Dictionaries keep the order of the object's keys; a number without fraction is an int.
nanobind::object to_python(const nlohmann::ordered_json& json);

}  // namespace lacuna::python
