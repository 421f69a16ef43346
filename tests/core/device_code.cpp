// nvcc compiles .cu files: they reach no header of the host (fmt, Tensor), and stay quick to compile.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>

namespace {

const std::regex include_line(R"re(^\s*#\s*include\s*([<"])([^>"]*)[>"])re");
const std::set<std::string> host_headers{"core/error.h", "core/tensor.h", "core/kernel.h", "ops/operand.h"};
const std::set<std::string> host_libraries{"string", "vector", "functional", "memory", "iostream", "map", "algorithm"};

/// Calls `f(header, whether it is ours)` for what the file and the headers of ours that it reaches include. What only
/// the stand-in sees does not count.
template <class F>
void for_includes(const std::filesystem::path& file, std::set<std::string>& seen, const F& f) {
  std::ifstream text(file);
  REQUIRE_MESSAGE(text.good(), file.string());
  for (std::string line; std::getline(text, line);) {
    std::smatch match;
    if (!std::regex_search(line, match, include_line)) continue;
    const std::string header = match[2];
    const bool ours = match[1] == "\"";
    if (header == "core/stand_in/fibers.h" || !seen.insert(header).second) continue;
    f(header, ours);
    if (ours) for_includes(LACUNA_SOURCE_DIR "/" + header, seen, f);
  }
}

}  // namespace

TEST_CASE("device code includes no header of the host") {
  int files = 0;
  for (const std::string folder : {"core", "ops", "autograd", "optim"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(LACUNA_SOURCE_DIR "/" + folder)) {
      if (entry.path().extension() != ".cu") continue;
      ++files;
      std::set<std::string> seen;
      for_includes(entry.path(), seen, [&](const std::string& header, bool ours) {
        const bool of_host = ours ? host_headers.contains(header) : host_libraries.contains(header);
        CHECK_MESSAGE(!of_host, entry.path().string(), " reaches ", header);
        CHECK_MESSAGE(!header.starts_with("fmt/"), entry.path().string(), " reaches ", header);
      });
    }
  }
  CHECK(files > 0);
}
