// In the tests for a GPU: a device has no schedule to choose. What the stand-in runs in other orders runs again
// instead.
#include "core/stand_in/fibers.h"

namespace lacuna::cuda::stand_in {

ScheduleScope::ScheduleScope(std::uint64_t) {}
ScheduleScope::~ScheduleScope() = default;

}  // namespace lacuna::cuda::stand_in
