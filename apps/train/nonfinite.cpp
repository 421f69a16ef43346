#include "apps/train/nonfinite.h"

#include "core/finite.h"

#include <algorithm>

namespace lacuna::apps {
void NonFiniteSearch::after(Phase phase, const Operation& op, Label path, const Work&,
                            std::span<const Tensor> results) {
  if (first_) return;
  constexpr std::size_t shown = 5;
  const std::string where = fmt::format("{} in {} ({})", op.name(), path.text().empty() ? "the model" : path.text(),
                                        phase == Phase::forward ? "forward" : "backward");
  for (const Tensor& result : results) {
    const ValueRange range = value_range(result);
    if (!range.finite) first_ = where;
    if (range.magnitude > 0) largest_.push_back({where, range.magnitude});
  }
  std::ranges::stable_sort(largest_, std::greater{}, &Largest::magnitude);
  if (largest_.size() > shown) largest_.resize(shown);
}

std::string NonFiniteSearch::describe() const {
  std::string text =
      first_ ? "The first value that is not finite came out of " + *first_ + "." : "All its ops gave finite values.";
  text += " The largest values until then:";
  for (const Largest& one : largest_) text += fmt::format("\n  {:12.5g}  {}", one.magnitude, one.where);
  return text;
}

}  // namespace lacuna::apps
