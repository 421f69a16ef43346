// The instruction sets of the library, and where its own libraries are.
#include "core/processor.h"
#include "core/library_folder.h"

#include <doctest/doctest.h>

#include <filesystem>

namespace lacuna {
namespace {

TEST_CASE("processor: kernels use no instruction set that this processor lacks") {
  const std::vector<InstructionSet> sets = instruction_sets();
  for (const InstructionSet& set : sets)
    if (set.used && set.name != "avx512_bf16") CHECK(set.processor);  // that one is chosen at run time
}

TEST_CASE("library_folder: liblacuna is in it, or a part of it for one level") {
  bool found = false;
  for (const auto& entry : std::filesystem::directory_iterator(library_folder()))
    if (entry.path().filename().string().starts_with("liblacuna.so")) found = true;
  CHECK(found);
}

}  // namespace
}  // namespace lacuna
