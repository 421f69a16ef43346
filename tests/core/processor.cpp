// The instruction sets of the library, and where its own libraries are.
#include "core/processor.h"
#include "core/library_folder.h"

#include <doctest/doctest.h>

#include <filesystem>

namespace lacuna {
namespace {

TEST_CASE("processor: kernels use wider vectors with each instruction set") {
  const std::vector<InstructionSet> sets = instruction_sets();
  const auto used = [&](const std::string& name) {
    for (const InstructionSet& set : sets)
      if (set.name == name) return set.used;
    return false;
  };
  CHECK(used("avx512") == (kernel_vector_bytes() == 64));
  CHECK(used("avx2") == (kernel_vector_bytes() >= 32));
  // The library ends the process on other processors.
  for (const InstructionSet& set : sets)
    if (set.used && set.name != "avx512_bf16") CHECK(set.processor);
}

TEST_CASE("library_folder: liblacuna is in it, or a part of it for one level") {
  bool found = false;
  for (const auto& entry : std::filesystem::directory_iterator(library_folder()))
    if (entry.path().filename().string().starts_with("liblacuna.so")) found = true;
  CHECK(found);
}

}  // namespace
}  // namespace lacuna
