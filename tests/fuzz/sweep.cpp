// Any bytes as a sweep file: it is refused with an Error, or has cases whose names differ.
#include "apps/sweep/sweep_file.h"
#include "core/error.h"
#include "tests/temporary_folder.h"

#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lacuna;
  using namespace lacuna::apps;
  static const test::TemporaryFolder folder("model: {name: resnet20}\n");  // what sweeps are to name
  test::write_file(folder / "input", std::string_view(reinterpret_cast<const char*>(bytes), size));
  try {
    const Sweep sweep = read_sweep(folder / "input");
    std::set<std::string> names;
    for (const SweepCase& one : sweep.cases)
      if (!names.insert(one.id).second) std::abort();
  } catch (const Error& error) {
    if (error.fault() != Fault::input) std::abort();
  }
  return 0;
}
