// Text of the last system error.
#pragma once

#include <string>

namespace lacuna {

/// Message for `errno`. Call it before anything else can change errno.
std::string last_system_error();

}  // namespace lacuna
