// The split of a data set that a name tells.
#pragma once

#include <cstdint>
#include <string_view>

namespace lacuna {

enum class SplitName : std::uint8_t { none, train, validation, test };

/// `train`, `training`; `val`, `valid`, `validation`, `eval`, `evaluation`; `test`; in upper or lower case.
SplitName split_named(std::string_view name);

}  // namespace lacuna
