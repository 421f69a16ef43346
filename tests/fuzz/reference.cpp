// Any bytes as a reference file for `lacuna verify`: it is refused with an Error, or compared.
#include "apps/commands/reference.h"
#include "core/error.h"
#include "tests/temporary_folder.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lacuna;
  static const test::TemporaryFolder folder;
  test::write_file(folder / "input", std::string_view(reinterpret_cast<const char*>(bytes), size));
  try {
    if (compare_with_reference(SafetensorsFile(folder / "input")).tensors.empty()) std::abort();
  } catch (const Error&) {  // of the run, too: weights that are not finite
  }
  return 0;
}
