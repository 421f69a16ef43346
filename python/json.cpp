#include "python/json.h"

#include <nlohmann/json.hpp>

#include <string>

namespace lacuna::python {

namespace nb = nanobind;

nb::object to_python(const nlohmann::ordered_json& json) {
  switch (json.type()) {
    case nlohmann::json::value_t::object: {
      nb::dict dict;
      for (const auto& [key, value] : json.items()) dict[nb::str(key.data(), key.size())] = to_python(value);
      return dict;
    }
    case nlohmann::json::value_t::array: {
      nb::list list;
      for (const auto& value : json) list.append(to_python(value));
      return list;
    }
    case nlohmann::json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
    }
    case nlohmann::json::value_t::boolean:
      return nb::bool_(json.get<bool>());
    case nlohmann::json::value_t::number_integer:
      return nb::int_(json.get<std::int64_t>());
    case nlohmann::json::value_t::number_unsigned:
      return nb::int_(json.get<std::uint64_t>());
    case nlohmann::json::value_t::number_float:
      return nb::float_(json.get<double>());
    default:
      return nb::none();
  }
}

}  // namespace lacuna::python
