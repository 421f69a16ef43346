// Whole models against timm: tests/models/references/ (make_references.py beside it writes them), and any further
// folder of reference files that the environment names.
#include "models/reference.h"

#include "core/error.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace lacuna {
namespace {

std::vector<std::filesystem::path> reference_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

void check(const std::filesystem::path& path, const std::string& policy) {
  const ReferenceReport report = compare_with_reference(SafetensorsFile(path), policy);
  const ReferenceTensor& worst = report.worst();
  INFO(fmt::format("{} under {}: {} differs by {} of {}", path.filename().string(), policy, worst.name,
                   worst.difference, worst.magnitude));
  CHECK(worst.relative() < reference_tolerance);
}

}  // namespace

TEST_CASE("reference: every model agrees with timm, in gradients and after a step") {
  for (const std::filesystem::path& path : reference_files(LACUNA_SOURCE_DIR "/tests/models/references")) {
    check(path, "exact");
    check(path, "keep");
  }
}

TEST_CASE("reference: files of the folder LACUNA_REFERENCES, where it is set") {
  const char* const folder = std::getenv("LACUNA_REFERENCES");
  if (folder == nullptr) return;
  for (const std::filesystem::path& path : reference_files(folder)) {
    try {
      check(path, "exact");
    } catch (const Error& error) {
      MESSAGE(fmt::format("{}: {}", path.filename().string(), error.what()));
    }
  }
}

}  // namespace lacuna
