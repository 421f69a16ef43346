#include "ops/products/tf32.h"

#include <utility>

namespace lacuna {
namespace {

thread_local bool in_use = false;

}  // namespace

Tf32Scope::Tf32Scope(bool on) : outer_(std::exchange(in_use, on)) {}
Tf32Scope::~Tf32Scope() { in_use = outer_; }

bool uses_tf32() { return in_use; }

}  // namespace lacuna
