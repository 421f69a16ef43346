// Any bytes as checkpoint.json and as metrics.jsonl: they are refused with an Error, or what they say is possible.
#include "models/checkpoint.h"
#include "apps/train/run_folder.h"
#include "core/error.h"

#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lacuna;
  using namespace lacuna::apps;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  try {
    const Progress progress = parse_manifest(text, "input").progress;
    if (progress.step < 0 || progress.epochs_evaluated > progress.step) std::abort();
  } catch (const Error& error) {
    if (error.fault() != Fault::input) std::abort();
  }
  std::istringstream lines{std::string(text)};
  if (kept_metrics(lines, {.step = 4, .epochs_evaluated = 1}).size() > size + 1) std::abort();
  return 0;
}
