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

TEST_CASE("plugins: --load stands before the subcommand or behind it") {
  std::vector<std::string> words{"train", "-c", "c.yaml"};
  load_plugins(words);
  CHECK(words == std::vector<std::string>{"train", "-c", "c.yaml"});
  for (const std::vector<std::string>& given : std::vector<std::vector<std::string>>{
           {"--load"}, {"train", "--load"}, {"--load=missing.so", "train"}, {"train", "--load", "missing.so"}}) {
    words = given;
    CHECK_THROWS_AS(load_plugins(words), Error);
  }
  const char* const before[] = {"lacuna", "--load", "missing.so", "models"};
  CHECK(run_command_line(4, before) == wrong_input);
  const char* const behind[] = {"lacuna", "models", "--load=missing.so"};
  CHECK(run_command_line(3, behind) == wrong_input);
}
