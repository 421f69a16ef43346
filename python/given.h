// Samples and a loss that Python gives a command beside its words; the data set and the task `python` take them.
#pragma once

#include "data/dataset.h"

#include <nanobind/nanobind.h>

#include <array>

namespace lacuna::python {

/// Sequences of dictionaries of arrays, and a function of dictionaries of outputs and targets; None: not given.
struct Given {
  nanobind::object train, validation, loss;
};

/// Gives commands the samples and the loss as long as the scope exists.
class GivenScope {
 public:
  explicit GivenScope(Given given);
  ~GivenScope();
  GivenScope(const GivenScope&) = delete;
  GivenScope& operator=(const GivenScope&) = delete;

 private:
  Given before_;
};

/// With Python's lock.
const Given& given();

}  // namespace lacuna::python
