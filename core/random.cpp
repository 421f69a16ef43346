#include "core/random.h"

namespace lacuna {

RandomState& random_state() {
  thread_local RandomState state;
  return state;
}

}  // namespace lacuna
