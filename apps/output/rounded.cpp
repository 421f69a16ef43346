#include "apps/output/rounded.h"

#include <fmt/format.h>

#include <charconv>
#include <string>

namespace lacuna::apps {

double rounded(double value, int digits) {
  const std::string text = fmt::format("{:.{}g}", value, digits);
  double result = value;  // stays where the text is beyond the largest number
  std::from_chars(text.data(), text.data() + text.size(), result);
  return result;
}

}  // namespace lacuna::apps
