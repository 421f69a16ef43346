#include "python/given.h"

#include <utility>

namespace lacuna::python {
namespace {

/// Never destroyed: the interpreter ends before static objects do.
Given& current() {
  static auto* const given = new Given;
  return *given;
}

}  // namespace

GivenScope::GivenScope(Given given) : before_(std::exchange(current(), std::move(given))) {}
GivenScope::~GivenScope() { std::swap(current(), before_); }

const Given& given() { return current(); }

}  // namespace lacuna::python
