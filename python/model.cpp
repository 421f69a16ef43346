#include "python/model.h"

#include "apps/commands/opened_model.h"
#include "data/collate.h"
#include "models/folders/folder.h"
#include "models/language_model.h"
#include "python/gil.h"
#include "python/json.h"
#include "python/tensors.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lacuna::python {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;

using apps::OpenedModel;

Device device_of(const std::string& name) {
  const std::optional<Device> device = device_named(name);
  if (!device || *device == Device::meta) reject("device: expected cpu, cuda or cuda:N, got {}", name);
  return *device;
}

std::unique_ptr<OpenedModel> open(const std::string& folder, const std::string& base, const std::string& device) {
  const Device on = device_of(device);
  const CppScope scope;
  return std::make_unique<OpenedModel>(apps::open_model(folder, on, base));
}

/// The model that another library has in memory, by its config.json and its tensors.
std::unique_ptr<OpenedModel> model_of(const std::string& config, const nb::dict& state, const std::string& name,
                                      const std::string& device) {
  const Device on = device_of(device);
  const auto lock = turn();
  std::vector<PendingTensor> tensors;
  for (const auto [key, array] : state) {
    const auto tensor_name = nb::cast<std::string>(key);
    const auto [dtype, shape] = described(array, tensor_name);
    tensors.push_back({tensor_name, dtype, shape,
                       [array = nb::borrow(array), tensor_name] { return to_tensor(array, tensor_name); }});
  }
  auto opened = std::make_unique<OpenedModel>();
  opened->weights = name;
  opened->folder = describe_config(nlohmann::ordered_json::parse(config), name);
  const FolderWeights weights = named_weights(WeightFiles(name, std::move(tensors)), opened->folder);
  opened->model = apps::make_described(opened->folder, weights, on);
  return opened;
}

Library library_of(const OpenedModel& opened, const std::string& format) {
  const std::string name = format.empty() ? apps::usual_format(opened) : format;
  if (name != "timm" && name != "transformers") reject("format: expected timm or transformers, got {}", format);
  return name == "timm" ? Library::timm : Library::transformers;
}

nb::dict state(const OpenedModel& opened, const std::string& format) {
  NamedTensors tensors;
  {
    const CppScope scope;
    const std::shared_ptr<const Model> model = apps::merged_model(opened);
    const ModelFolder folder = apps::description_to_write(opened, "f32");
    for (const PendingTensor& one : state_for(*model, folder, library_of(opened, format)))
      tensors.set(one.name, one.make());
  }
  return to_python(tensors);
}

std::string config(const OpenedModel& opened, const std::string& format) {
  return texts_beside(*opened.model, opened.folder, library_of(opened, format)).at("config.json");
}

/// Samples of arrays [N, ...], or of lists of N arrays, whose lengths may differ.
std::vector<Sample> samples_of(const nb::dict& arrays, const SampleFields& fields) {
  std::vector<Sample> samples;
  for (const SampleField& field : fields) {
    const nb::object given = arrays[field.name.c_str()];
    const bool is_list = PyMapping_Check(given.ptr()) != 0 && !nb::hasattr(given, "keys");
    const Py_ssize_t length = is_list ? PyObject_Size(given.ptr()) : -1;
    if (length < 0) {
      PyErr_Clear();
      reject("{}: expected an array [N, ...] or a list of N arrays, got {}", field.name,
             nb::cast<std::string>(nb::str(given.type().attr("__name__"))));
    }
    const auto count = static_cast<std::size_t>(length);
    if (&field == &fields.front()) samples.resize(count);
    if (samples.size() != count || count == 0)
      reject("{}: expected {} samples, got {}", field.name, std::max<std::size_t>(samples.size(), 1), count);
    for (std::size_t i = 0; i < count; ++i)
      samples[i].set(field.name, to_field(given[nb::int_(i)], field, fmt::format("sample {}: ", i)));
  }
  return samples;
}

/// The model's fields that are given. Refuses others.
SampleFields given_fields(const nb::dict& arrays, const Model& model) {
  SampleFields fields;
  for (const auto [key, value] : arrays) {
    const auto name = nb::cast<std::string>(key);
    const auto found = std::ranges::find(model.inputs(), name, &SampleField::name);
    if (found == model.inputs().end()) reject("{}: expected the model's inputs, {}", name, to_string(model.inputs()));
    fields.push_back(*found);
  }
  if (fields.empty()) reject("expected the model's inputs, {}, got none", to_string(model.inputs()));
  return fields;
}

nb::dict forward(const OpenedModel& opened, const nb::kwargs& arrays) {
  Model& model = *opened.model;
  const SampleFields fields = given_fields(arrays, model);
  const std::vector<Sample> samples = samples_of(arrays, fields);
  Outputs outputs;
  {
    const CppScope scope;
    outputs = model.forward(collate(samples, fields));
    if (const auto* const language_model = dynamic_cast<const LanguageModel*>(&model))
      outputs.set("logits", logits_of(outputs, language_model->soft_cap()));
  }
  return to_python(outputs);
}

template <class Parts>
nb::dict named(const Parts& parts) {
  NamedTensors tensors;
  for (const auto* const part : parts) tensors.set(part->path(), part->tensor());
  return to_python(tensors);
}

nb::list listed(const SampleFields& fields) {
  nb::list all;
  for (const SampleField& field : fields) {
    nb::dict one;
    one["name"] = field.name;
    one["kind"] = std::string(name_of(field.kind));
    one["dtype"] = std::string(name_of(field.dtype));
    one["shape"] = nb::tuple(nb::cast(std::vector<std::int64_t>(field.shape.begin(), field.shape.end())));
    all.append(one);
  }
  return all;
}

}  // namespace

void bind_model(nb::module_& module) {
  nb::class_<OpenedModel>(module, "Model")
      .def("__call__", forward, "arrays"_a, nb::sig("def __call__(self, **arrays: typing.Any) -> dict[str, Tensor]"))
      .def_prop_ro("name", [](const OpenedModel& self) { return self.folder.model; })
      .def_prop_ro(
          "inputs", [](const OpenedModel& self) { return listed(self.model->inputs()); },
          nb::sig("def inputs(self) -> list[dict[str, typing.Any]]"))
      .def_prop_ro(
          "parameters", [](const OpenedModel& self) { return named(self.model->parameters()); },
          nb::sig("def parameters(self) -> dict[str, Tensor]"))
      .def_prop_ro(
          "buffers", [](const OpenedModel& self) { return named(self.model->buffers()); },
          nb::sig("def buffers(self) -> dict[str, Tensor]"))
      .def("state", state, "format"_a, nb::sig("def state(self, format: str) -> dict[str, Tensor]"))
      .def("config", config, "format"_a)
      .def(
          "save",
          [](const OpenedModel& self, const std::string& folder, const std::string& format, const std::string& type) {
            nlohmann::ordered_json written;
            {
              const CppScope scope;
              written = apps::write_model(self, folder, format, type);
            }
            return to_python(written);
          },
          nb::sig("def save(self, folder: str, format: str, dtype: str) -> dict[str, typing.Any]"), "folder"_a,
          "format"_a, "dtype"_a);
  module.def(
      "model_of", model_of, "config"_a, "state"_a, "name"_a, "device"_a,
      nb::sig("def model_of(config: str, state: dict[str, typing.Any], name: str, device: str) -> Model"),
      "A model by the config.json of timm or transformers and arrays by name.");
  module.def("open_model", open, "folder"_a, "base"_a, "device"_a);
}

}  // namespace lacuna::python
