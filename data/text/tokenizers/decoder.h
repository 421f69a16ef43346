// Steps that turn tokens back into text.
#pragma once

#include <string>
#include <vector>

namespace lacuna {

/// One step; the text is the join of the tokens that the last one leaves.
class DecodingStep {
 public:
  static constexpr const char *key = "decoder", *list_key = "decoders";
  virtual ~DecodingStep() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

}  // namespace lacuna
