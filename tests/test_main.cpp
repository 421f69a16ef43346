#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

int main(int count, char** arguments) {
  // Machine measurements are cached beside the tests, not in the user's home.
  const std::filesystem::path cache = std::filesystem::absolute(arguments[0]).parent_path() / "cache";
  ::setenv("XDG_CACHE_HOME", cache.c_str(), 1);
  return doctest::Context(count, arguments).run();
}
