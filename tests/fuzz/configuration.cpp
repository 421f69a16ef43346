// Any bytes as a configuration, with the last line as an override: they are refused with an Error, or what was read is
// written in a form that reads back the same.
#include "apps/config/experiment.h"
#include "core/error.h"
#include "models/resnet.h"
#include "models/vit.h"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lacuna;
  using namespace lacuna::apps;
  std::string text(reinterpret_cast<const char*>(bytes), size);
  std::vector<std::string> overrides;
  if (const std::size_t line = text.rfind('\n'); line != std::string::npos) {
    overrides.push_back(text.substr(line + 1));
    text.resize(line + 1);
  }
  if (!overrides.empty() && overrides.front().empty()) overrides.clear();
  try {
    const std::string written = to_yaml(parse_configuration(text, "input", overrides));
    if (to_yaml(parse_configuration(written, "written")) != written) std::abort();
  } catch (const Error& error) {
    if (error.fault() != Fault::input) std::abort();
  }
  return 0;
}
