// Any bytes as a file of boxes (the first byte says of which format): it is refused with an Error, or every box has a
// class and lies in its image.
#include "core/error.h"
#include "data/dataset.h"
#include "tests/temporary_folder.h"

#include <array>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lacuna;
  namespace fs = std::filesystem;
  constexpr std::int64_t width = 4, height = 3;
  static constexpr std::array files{"coco/train/_annotations.coco.json", "voc/a.xml", "text/labels/a.txt",
                                    "names/data.yaml"};
  static const test::TemporaryFolder folder;
  static const bool is_ready = [] {
    const auto write = [](const std::string& name, const std::string& text) {
      fs::create_directories((folder / name).parent_path());
      test::write_file(folder / name, text);
    };
    for (const char* const image : {"coco/train/a.pgm", "voc/a.pgm", "text/images/a.pgm", "names/images/a.pgm"})
      write(image, "P5 4 3 255\n0123456789ab");
    write("text/classes.txt", "cat\ndog\n");
    write("names/labels/a.txt", "1 0.5 0.5 0.5 0.5\n");
    return true;
  }();
  if (size == 0 || !is_ready) return 0;
  const std::string name = files[bytes[0] % files.size()];
  test::write_file(folder / name, std::string_view(reinterpret_cast<const char*>(bytes) + 1, size - 1));
  try {
    const auto data = open_dataset(
        "box_folder",
        {.path = folder / name.substr(0, name.find('/')), .split = Split::train, .hold_out = HoldOut::none});
    for (std::int64_t i = 0; i < data->size(); ++i) {
      Sample sample;
      sample.begin(0);
      data->read(i, sample);
      for (const double label : sample["box_labels"].to_vector())
        if (label < 0 || label >= static_cast<double>(data->info().classes.size())) std::abort();
      const std::vector<double> boxes = sample["boxes"].to_vector();
      for (std::size_t k = 0; k < boxes.size(); k += 4)
        if (!(0 <= boxes[k] && boxes[k] <= boxes[k + 2] && boxes[k + 2] <= width && 0 <= boxes[k + 1] &&
              boxes[k + 1] <= boxes[k + 3] && boxes[k + 3] <= height))
          std::abort();
    }
  } catch (const Error& error) {
    if (error.fault() != Fault::input) std::abort();
  }
  return 0;
}
