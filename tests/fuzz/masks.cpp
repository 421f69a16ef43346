// Any bytes as a mask of a small image: it is refused with an Error, or all its values are classes or ignored.
#include "data/segmentation/mask_check.h"

#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lacuna;
  constexpr std::int64_t classes = 21;
  const std::span<const std::uint8_t> file(bytes, size);
  const std::string image = "P5 3 2 255\n012345";
  const Tree colors(std::vector<std::string>{"#000000", "#800000", "#ffffff"});
  for (const MaskColors& read : {MaskColors(), MaskColors(colors)}) try {
      const MaskReader header(file, read);
      if (header.height() * header.width() > 1 << 18) continue;  // a header is quickly said
      const MaskReading reading{
          .labels = MaskLabels({}, {}, false, classes), .colors = read, .classes = classes, .size = MaskSize::resize};
      const Tensor labels =
          read_mask(reading, {reinterpret_cast<const std::uint8_t*>(image.data()), image.size()}, file,
                    [](const Shape& shape, DType dtype) { return Tensor::empty(shape, dtype, Device::cpu); });
      if (labels.count() != 6) std::abort();
      for (const double label : labels.to_vector())
        if (label >= classes && label != ignored_pixel) std::abort();
    } catch (const Error& error) {
      if (error.fault() != Fault::input) std::abort();
    }
  return 0;
}
