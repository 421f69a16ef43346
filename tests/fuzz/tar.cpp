// Any bytes as a tar archive of class folders: it is refused with an Error, or every file in it reads.
#include "core/error.h"
#include "data/sets/image_folder_layout.h"
#include "tests/temporary_folder.h"

#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lacuna;
  static const test::TemporaryFolder folder;
  const std::filesystem::path file = folder / "images.tar";
  test::write_file(file, std::string_view(reinterpret_cast<const char*>(bytes), size));
  try {
    const auto tree = FileTree::of_archives({file});
    for (std::int64_t i = 0; i < tree->size(); ++i)
      if (tree->find(tree->path(i)) != i || tree->read_text(i, 1 << 30).size() > size) std::abort();
    const ImageFolderLayout layout = find_images({.path = file});
    for (const std::int32_t label : layout.train.labels)
      if (label < 0 || label >= std::ssize(layout.classes)) std::abort();
  } catch (const Error& error) {
    if (error.fault() != Fault::input) std::abort();
  }
  return 0;
}
