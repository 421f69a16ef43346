// The data set `python`: a sequence of dictionaries of arrays.
#include "data/dataset.h"
#include "python/gil.h"
#include "python/given.h"
#include "python/tensors.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <string>

namespace lacuna::python {
namespace {

namespace nb = nanobind;

constexpr std::int64_t no_label = -100;  // of tokens without one

std::string name_of_sample(Split split, std::int64_t index) {
  return fmt::format("{}[{}]: ", split == Split::train ? "data" : "validation", index);
}

nb::dict row_of(const nb::object& rows, Split split, std::int64_t index) {
  const nb::object row = rows[nb::int_(index)];
  if (!nb::hasattr(row, "keys"))
    reject("{}expected a dictionary of arrays, got {}", name_of_sample(split, index),
           nb::cast<std::string>(nb::str(row.type().attr("__name__"))));
  nb::dict arrays;
  if (PyDict_Update(arrays.ptr(), row.ptr()) != 0) nb::raise_python_error();
  return arrays;
}

/// The length of the longest array `name`. Whether all have one is seen when samples are read.
std::int64_t longest_of(const nb::object& rows, Split split, const std::string& name) {
  Py_ssize_t longest = 1;
  for (std::size_t i = 0; i < nb::len(rows); ++i) {
    const nb::dict row = row_of(rows, split, static_cast<std::int64_t>(i));
    if (row.contains(name.c_str())) longest = std::max(longest, PyObject_Size(nb::object(row[name.c_str()]).ptr()));
    PyErr_Clear();
  }
  return longest;
}

/// The field that an array of a sample shows: u8 [H, W, C] are pixels, whole numbers [] a class, the first ones [L] of
/// any length tokens and further ones numbers per token; all else are numbers.
SampleField field_like(const std::string& name, const Tensor& tensor, const nb::object& rows,
                       const DatasetOptions& options, bool has_tokens) {
  constexpr int image_rank = 3;
  const Shape& shape = tensor.shape();
  SampleField field{.name = name, .dtype = tensor.dtype(), .shape = shape};
  if (tensor.dtype() == DType::u8 && shape.rank() == image_rank) {
    field.kind = FieldKind::pixels;
  } else if (tensor.dtype() == DType::i64 || tensor.dtype() == DType::i32) {
    field.dtype = DType::i64;
    if (shape.rank() == 0) {
      field.kind = FieldKind::label;
      field.below = options.classes;
    } else if (shape.rank() == 1) {
      field.kind = has_tokens ? FieldKind::number : FieldKind::tokens;
      field.shape = {longest_of(rows, options.split, name)};
      field.collation = Collation::packed;
      field.below = has_tokens ? 0 : options.vocabulary;
      field.padding = has_tokens ? no_label : 0;
    }
  } else if (is_floating(tensor.dtype())) {
    field.dtype = DType::f32;
  }
  return field;
}

const nb::object& rows_of(Split split) {
  const nb::object& rows = split == Split::train ? given().train : given().validation;
  if (!rows.is_valid() || rows.is_none())
    reject("data: expected {}=, a sequence of dictionaries of arrays, got none",
           split == Split::train ? "data" : "validation");
  return rows;
}

DatasetInfo describe(const DatasetOptions& options) {
  const PythonScope scope;
  const nb::object& rows = rows_of(options.split);
  DatasetInfo info{.name = "python", .size = static_cast<std::int64_t>(nb::len(rows))};
  if (info.size == 0) reject("{}expected samples, got none", name_of_sample(options.split, 0));
  if (const std::int64_t wanted = options.size(); wanted > info.size)
    reject("data: expected at most the {} samples that are given, got a size of {}", info.size, wanted);
  else if (wanted > 0)
    info.size = wanted;
  bool has_tokens = false;
  // Both splits have the fields of the first training sample.
  for (const auto [key, array] : row_of(rows_of(Split::train), Split::train, 0)) {
    if (!nb::isinstance<nb::str>(key))
      reject("{}expected texts as names of arrays, got {}", name_of_sample(Split::train, 0),
             nb::cast<std::string>(nb::repr(key)));
    const auto name = nb::cast<std::string>(key);
    const Tensor first = to_tensor(array, name_of_sample(Split::train, 0) + name);
    info.fields.push_back(field_like(name, first, rows, options, has_tokens));
    has_tokens = has_tokens || info.fields.back().kind == FieldKind::tokens;
  }
  if (const SampleField* const images = find_field(info.fields, FieldKind::pixels)) {
    const auto channels = static_cast<std::size_t>(images->shape.back());
    info.mean.assign(channels, 0.5F);  // data.mean and data.std say otherwise
    info.deviation.assign(channels, 0.5F);
  }
  info.vocabulary.size = options.vocabulary;
  for (std::int64_t i = 0; i < options.classes; ++i) info.classes.push_back(std::to_string(i));
  return info;
}

class Rows final : public Dataset {
 public:
  explicit Rows(const DatasetOptions& options) : Dataset(describe(options)), split_(options.split) {
    const PythonScope scope;
    rows_ = rows_of(split_);
  }
  ~Rows() override {
    const PythonScope scope;
    rows_.reset();
  }

 private:
  void read_sample(std::int64_t index, Sample& sample) const override {
    const PythonScope scope;
    const nb::dict row = row_of(rows_, split_, index);
    const std::string where = name_of_sample(split_, index);
    for (const SampleField& field : info().fields) {
      if (!row.contains(field.name.c_str())) reject("{}expected {}, got none", where, to_string(info().fields));
      sample.set(field.name, to_field(row[field.name.c_str()], field, where));
    }
    if (row.size() > info().fields.size())
      reject("{}expected {} as in the first sample, got {} arrays", where, to_string(info().fields), row.size());
  }

  Split split_;
  nb::object rows_;
};

const RegisterDataset python("python", {.describe = describe,
                                        .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
                                          return std::make_unique<Rows>(options);
                                        },
                                        .reads_files = false});

}  // namespace
}  // namespace lacuna::python
