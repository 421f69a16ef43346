// Any bytes as a safetensors file: it is refused with an Error, or every tensor of a type that Lacuna has can be read.
#include "core/error.h"
#include "models/io/safetensors.h"
#include "tests/temporary_folder.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lacuna;
  static const test::TemporaryFolder folder;
  test::write_file(folder / "input", std::string_view(reinterpret_cast<const char*>(bytes), size));
  try {
    const SafetensorsFile file(folder / "input");
    for (const SafetensorsEntry& entry : file.entries())
      if (entry.dtype && static_cast<std::size_t>(file.load(entry.name).bytes()) > size) std::abort();
  } catch (const Error& error) {
    if (error.fault() != Fault::input) std::abort();
  }
  return 0;
}
