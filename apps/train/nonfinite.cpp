#include "apps/train/nonfinite.h"

#include <algorithm>
#include <cmath>

namespace lacuna::apps {
namespace {

struct Range {
  bool finite = true;
  double magnitude = 0;  // of the finite values
};

Range range_of(const Tensor& tensor) {
  Range range;
  if (!is_floating(tensor.dtype()) || tensor.device() != Device::cpu) return range;
  with_float_type(tensor.dtype(), [&]<class T>(Type<T>) {
    const T* const values = tensor.data<T>();
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      const double magnitude = std::abs(static_cast<double>(to_compute(values[i])));
      if (std::isfinite(magnitude))
        range.magnitude = std::max(range.magnitude, magnitude);
      else
        range.finite = false;
    }
  });
  return range;
}

}  // namespace

bool is_finite(const Tensor& tensor) { return range_of(tensor).finite; }

void NonFiniteSearch::after(Phase phase, const Operation& op, Label path, const Work&,
                            std::span<const Tensor> results) {
  if (first_) return;
  constexpr std::size_t shown = 5;
  const std::string where = fmt::format("{} in {} ({})", op.name(), path.text().empty() ? "the model" : path.text(),
                                        phase == Phase::forward ? "forward" : "backward");
  for (const Tensor& result : results) {
    const Range range = range_of(result);
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
