// Class names given by a setting.
#pragma once

#include <string>
#include <vector>

namespace lacuna {

/// The class names in `data.labels`: separated by commas, or one per line of a file `*.txt`; none if it is empty.
/// Rejects empty and duplicate names.
std::vector<std::string> class_names(const std::string& setting);

}  // namespace lacuna
