#include "data/files/split_names.h"

#include "core/text.h"

#include <string>

namespace lacuna {

SplitName split_named(std::string_view name) {
  const std::string lower = lower_case(name);
  if (lower == "train" || lower == "training") return SplitName::train;
  for (const char* const one : {"val", "valid", "validation", "eval", "evaluation"})
    if (lower == one) return SplitName::validation;
  return lower == "test" ? SplitName::test : SplitName::none;
}

}  // namespace lacuna
