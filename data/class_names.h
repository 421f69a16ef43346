// The names of classes that a setting gives.
#pragma once

#include <string>
#include <vector>

namespace lacuna {

/// Of `data.labels`: names with commas between them, or of a file `*.txt` with one on each line; none where it is
/// empty. Empty names and names that come twice are the input's fault.
std::vector<std::string> class_names(const std::string& setting);

}  // namespace lacuna
