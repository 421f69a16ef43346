#include "core/random.h"

#include <utility>

namespace lacuna {
namespace {

thread_local RandomState current;

}  // namespace

const RandomState& random_state() { return current; }

RandomStateScope::RandomStateScope(const RandomState& state) : outer_(std::exchange(current, state)) {}
RandomStateScope::~RandomStateScope() { current = outer_; }

}  // namespace lacuna
