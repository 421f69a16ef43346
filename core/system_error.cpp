#include "core/system_error.h"

#include <cerrno>
#include <system_error>

namespace lacuna {

std::string last_system_error() { return std::generic_category().message(errno); }

}  // namespace lacuna
