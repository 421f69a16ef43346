#pragma once

namespace lacuna::apps {

/// `value` with `digits` significant decimal digits.
double rounded(double value, int digits);

}  // namespace lacuna::apps
