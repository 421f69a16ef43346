#include "apps/plugin.h"
#include "apps/command.h"
#include "core/error.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

// tests/package loads a plugin that is built outside the tree.

using namespace lacuna;
using namespace lacuna::apps;

namespace {

std::string refusal(const std::string& file) {
  try {
    load_plugin(file);
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::input);
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("plugins: a file that cannot be one is refused by name") {
  const test::TemporaryFolder folder;
  const std::string missing = (folder / "missing.so").string(), text = (folder / "text.so").string(),
                    broken = (folder / "broken.so").string();
  std::ofstream(text) << "not a shared object\n";
  std::ofstream(broken) << "\177ELF and nothing behind it";
  for (const std::string& file : {missing, text, broken}) CHECK(refusal(file).find(file) != std::string::npos);
  CHECK(loaded_plugins().empty());
}

TEST_CASE("plugins: a shared object that registers nothing is refused") {
  CHECK(refusal("/proc/self/exe").find("/proc/self/exe") != std::string::npos);  // an executable is no shared object
  CHECK(loaded_plugins().empty());
}

TEST_CASE("plugins: words before the subcommand alone are options to load") {
  std::vector<std::string> words{"train", "--load", "x.so"};
  load_leading_plugins(words);
  CHECK(words == std::vector<std::string>{"train", "--load", "x.so"});
  words = {"--load"};
  CHECK_THROWS_AS(load_leading_plugins(words), Error);
  words = {"--load=missing.so", "train"};
  CHECK_THROWS_AS(load_leading_plugins(words), Error);
  const char* const command[] = {"lacuna", "--load", "missing.so", "models"};
  CHECK(run_command_line(4, command) == wrong_input);
}
