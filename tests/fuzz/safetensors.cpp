// Any bytes as a safetensors header: they are refused with an Error or describe data that fits.
#include "models/io/safetensors.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lacuna;
  if (size == 0) return 0;
  const std::uint64_t data_bytes = bytes[0];
  const std::string_view json(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  try {
    for (const SafetensorsEntry& entry : parse_safetensors_header(json, data_bytes, "input").entries)
      if (entry.end > data_bytes || entry.begin > entry.end) std::abort();
  } catch (const Error& error) {
    if (error.fault() != Fault::input) std::abort();
  }
  return 0;
}
