// What the operating system says of the call that failed last.
#pragma once

#include <string>

namespace lacuna {

/// In words, of `errno`: asked for before another call can change it.
std::string last_system_error();

}  // namespace lacuna
