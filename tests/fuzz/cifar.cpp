// Any bytes as a CIFAR file: it is refused with an Error, or every record reads with a label within its classes.
#include "data/sets/cifar.h"

#include "core/error.h"
#include "tests/temporary_folder.h"

#include <cstdlib>
#include <string_view>

namespace {

void read_all(const lacuna::CifarFormat& format, const std::filesystem::path& folder, std::size_t size) {
  using namespace lacuna;
  try {
    CifarFormat any_number = format;
    any_number.validation_images = static_cast<std::int64_t>(size) / format.record_bytes();
    const Cifar cifar(any_number, {.path = folder, .split = Split::validation});
    std::vector<std::uint8_t> image(static_cast<std::size_t>(cifar.image_bytes()));
    for (std::int64_t i = 0; i < cifar.size(); ++i) {
      const std::int64_t label = cifar.read_image(i, image.data());
      if (label < 0 || label >= static_cast<std::int64_t>(format.classes.size())) std::abort();
    }
  } catch (const Error& error) {
    if (error.fault() != Fault::input) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const lacuna::test::TemporaryFolder folder;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  lacuna::test::write_file(folder / "test_batch.bin", text);
  lacuna::test::write_file(folder / "test.bin", text);
  read_all(lacuna::cifar10_format(), folder.path(), size);
  read_all(lacuna::cifar100_format(), folder.path(), size);
  return 0;
}
