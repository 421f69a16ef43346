// Own pictures with masks: what is refused before a run.
#include "tests/apps/commands/command_run.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

using namespace lacuna::test;
namespace fs = std::filesystem;

namespace {

const fs::path source = fs::path(LACUNA_SOURCE_DIR) / "tests/data/segmentation";

void put(const TemporaryFolder& folder, const std::string& from, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    fs::create_directories((folder / name).parent_path());
    fs::copy_file(source / from, folder / name);
  }
}

}  // namespace

TEST_CASE("masks: bad ones end the command with code 2 and one line that names the file") {
  struct Case {
    std::string mask, part;
    std::vector<std::string> more{};
  };
  for (const Case& one : {Case{"large.png", "14×10"}, Case{"rgb.png", "data.colors"}, Case{"grey.jpg", "JPEG"},
                          Case{"grey.png", "value 2", {"data.labels=a, b"}}, Case{"black_white.png", "data.map"}}) {
    const TemporaryFolder folder;
    put(folder, "image.png", {"p/images/a.png", "p/images/b.png"});
    const std::string extension = one.mask.substr(one.mask.rfind('.'));
    put(folder, one.mask, {"p/masks/a" + extension, "p/masks/b" + extension});
    std::vector<std::string> arguments{"train", "model=resnet20", "data=p", "output=r"};
    arguments.insert(arguments.end(), one.more.begin(), one.more.end());
    const CommandResult result = run_command(folder, arguments);
    CAPTURE(one.mask);
    CHECK(result.code == 2);
    check_says(result.error, "p/masks/");
    check_says(result.error, one.part);
  }
  const TemporaryFolder folder;
  put(folder, "image.png", {"p/images/a.png"});
  put(folder, "grey.png", {"p/masks/a.png", "p/masks/gone.png"});
  const CommandResult result = run_command(folder, {"train", "model=resnet20", "data=p", "output=r"});
  CHECK(result.code == 2);
  check_says(result.error, "gone.png");
}
