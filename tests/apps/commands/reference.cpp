// Whole models against timm: tests/models/references/ (make_references.py beside it writes them), and any further
// folder of reference files that the environment names.
#include "apps/commands/reference.h"

#include "core/error.h"
#include "models/registry.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
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

std::string family_of(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  return nlohmann::json::parse(file.metadata().at("model")).at("family").get<std::string>();
}

/// The tensor of a file that differs most.
ReferenceTensor worst_of(const std::filesystem::path& path, const std::string& policy) {
  const bool in_f64 = path.stem().string().ends_with("-f64");
  return compare_with_reference(SafetensorsFile(path), policy, in_f64 ? DType::f64 : DType::f32).worst();
}

}  // namespace

TEST_CASE("reference: every model agrees with timm, in gradients and after a step") {
  const std::vector<std::filesystem::path> files = reference_files(LACUNA_SOURCE_DIR "/tests/models/references");
  REQUIRE(!files.empty());
  for (const std::filesystem::path& path : files) {
    for (const char* const policy : {"exact", "keep"}) {
      const ReferenceTensor worst = worst_of(path, policy);
      INFO(path.filename().string(), " under ", policy, ": ", worst.name);
      CHECK(worst.relative() < reference_tolerance);
    }
  }
}

TEST_CASE("reference: a file that compares too little, or the wrong names, is refused") {
  const SafetensorsFile whole(LACUNA_SOURCE_DIR "/tests/models/references/vit-token.safetensors");
  const test::TemporaryFolder folder;
  using Change = std::function<void(std::vector<NamedTensor>&, std::map<std::string, std::string>&)>;
  const auto refusal = [&](const Change& change) -> std::string {
    std::vector<NamedTensor> tensors;
    for (const SafetensorsEntry& entry : whole.entries()) tensors.emplace_back(entry.name, whole.load(entry.name));
    std::map<std::string, std::string> metadata = whole.metadata();
    change(tensors, metadata);
    write_safetensors(folder / "changed.safetensors", tensors, metadata);
    try {
      compare_with_reference(SafetensorsFile(folder / "changed.safetensors"), "exact");
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::input);
      return error.what();
    }
    return "";
  };
  const auto without = [&](const std::string& name) {
    return refusal([&](auto& tensors, auto&) {
      std::erase_if(tensors, [&](const NamedTensor& tensor) { return tensor.first == name; });
    });
  };
  for (const std::string name : {"grad/head.weight", "after/norm.bias", "output/loss", "output/logits"})
    CHECK(without(name).ends_with("has no `" + name + "` to compare with"));
  const std::string unseen = refusal([](auto& tensors, auto&) {
    tensors.emplace_back("grad/head.wieght", Tensor::zeros({1}, DType::f32, Device::cpu));
  });
  CHECK(unseen.ends_with("has nothing to compare with grad/head.wieght"));
  const std::string nested = R"({"family": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  CHECK(refusal([&](auto&, auto& metadata) { metadata["model"] = nested; }).find("nested more than") !=
        std::string::npos);
}

TEST_CASE("reference: files of the folder LACUNA_REFERENCES, where it is set") {
  const char* const folder = std::getenv("LACUNA_REFERENCES");
  if (folder == nullptr) {
    MESSAGE("skipped: LACUNA_REFERENCES names no folder");
    return;
  }
  for (const std::filesystem::path& path : reference_files(folder)) {
    const std::string family = family_of(path);
    if (family != "preset" && !model_families().contains(family)) {
      MESSAGE(fmt::format("{} skipped: no family {} yet", path.filename().string(), family));
      continue;
    }
    const ReferenceTensor worst = worst_of(path, "exact");
    INFO(path.filename().string(), ": ", worst.name);
    CHECK(worst.relative() < reference_tolerance);
  }
}

}  // namespace lacuna
