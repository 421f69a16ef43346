#include "core/system_memory.h"

#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <limits>
#include <sstream>

namespace lacuna {
namespace {

std::int64_t limit(const std::string& groups, const std::filesystem::path& root) {
  std::istringstream stream(groups);
  return control_group_limit(stream, root);
}

}  // namespace

TEST_CASE("system memory: the lowest limit of the control groups applies") {
  constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  const test::TemporaryFolder root;
  std::filesystem::create_directories(root / "a/b");
  std::filesystem::create_directories(root / "memory/c");
  CHECK(limit("0::/a/b\n", root.path()) == none);
  test::write_file(root / "a/memory.max", "3000\n");
  test::write_file(root / "a/b/memory.max", "max\n");
  test::write_file(root / "memory/c/memory.limit_in_bytes", "2000\n");
  CHECK(limit("0::/a/b\n", root.path()) == 3000);
  CHECK(limit("0::/\n", root.path()) == none);
  CHECK(limit("4:memory:/c\n1:cpu:/a\n0::/a\n", root.path()) == 2000);
  CHECK(limit("4:memory:/elsewhere/c\n", root.path()) == none);
  test::write_file(root / "memory/memory.limit_in_bytes", "1000\n");
  CHECK(limit("4:memory:/elsewhere/c\n", root.path()) == 1000);
  CHECK(limit("nonsense\n", root.path()) == none);
}

TEST_CASE("system memory: what other processes of a control group hold is not left") {
  const test::TemporaryFolder root;
  const auto left = [&](const std::string& groups) {
    std::istringstream stream(groups);
    return control_group_left(stream, root.path());
  };
  CHECK(left("0::/a/b\n") == std::numeric_limits<std::int64_t>::max());
  std::filesystem::create_directories(root / "a/b");
  std::filesystem::create_directories(root / "memory/c");
  test::write_file(root / "a/memory.max", "3000\n");
  test::write_file(root / "a/b/memory.max", "2500\n");
  CHECK(left("0::/a/b\n") == 2500);  // no usage is known
  test::write_file(root / "a/b/memory.current", "500\n");
  test::write_file(root / "a/memory.current", "1800\n");
  CHECK(left("0::/a/b\n") == 1200);  // the parent's other processes hold 1300
  test::write_file(root / "a/memory.stat", "anon 100\ninactive_file 400\nactive_file 50\n");
  CHECK(left("0::/a/b\n") == 1600);
  test::write_file(root / "a/memory.current", "4000\n");
  CHECK(left("0::/a/b\n") == 0);
  test::write_file(root / "memory/c/memory.limit_in_bytes", "1000\n");
  test::write_file(root / "memory/c/memory.usage_in_bytes", "700\n");
  test::write_file(root / "memory/c/memory.stat", "inactive_file 1\ntotal_inactive_file 200\n");
  CHECK(left("4:memory:/c\n") == 500);
}

TEST_CASE("system memory: available memory is at least the resident size and at most the physical memory") {
  CHECK(process_resident() > 0);
  // Linux counts pages in batches per processor: two readings may differ by some of them.
  constexpr std::int64_t batches = 1 << 20;
  CHECK(process_resident() <= process_peak() + batches);
  CHECK(available_memory() > 0);
  CHECK(available_memory() <= physical_memory());
}

TEST_CASE("memory: a system that does not overcommit has what its commit limit leaves") {
  const test::TemporaryFolder proc;
  std::filesystem::create_directories(proc / "sys/vm");
  test::write_file(proc / "meminfo", "MemTotal: 9 kB\nCommitLimit: 4096 kB\nCommitted_AS: 1024 kB\n");
  constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();
  for (const char* const heuristic : {"0\n", "1\n"}) {
    test::write_file(proc / "sys/vm/overcommit_memory", heuristic);
    CHECK(commit_left(proc.path()) == no_limit);
  }
  test::write_file(proc / "sys/vm/overcommit_memory", "2\n");
  CHECK(commit_left(proc.path()) == 3072 * 1024);
}

}  // namespace lacuna
