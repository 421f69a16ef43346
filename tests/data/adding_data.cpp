// The code of docs/adding-data.md, which the last test compares with the page.
#include "data/loader.h"
#include "data/pipeline.h"

#include "tests/refusal.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace lacuna {
namespace {

DatasetInfo describe_discs(const DatasetOptions& options) {
  constexpr std::int64_t default_size = 1000, side = 32, not_counted = 255;
  return {.name = "discs",
          .size = options.size() > 0 ? options.size() : default_size,
          .fields = {{.name = "images", .kind = FieldKind::pixels, .dtype = DType::u8, .shape = {side, side, 3}},
                     {.name = "labels",
                      .kind = FieldKind::mask,
                      .dtype = DType::u8,
                      .shape = {side, side},
                      .padding = not_counted}},
          .classes = {"ground", "disc"},
          .mean = {0.5F, 0.5F, 0.5F},
          .deviation = {0.25F, 0.25F, 0.25F}};
}

class Discs final : public Dataset {
 public:
  explicit Discs(const DatasetOptions& options) : Dataset(describe_discs(options)) {}

 private:
  void read_sample(std::int64_t index, Sample& sample) const override {
    const Shape& shape = field_of(info().fields, "images").shape;
    Tensor image = sample.make("images", shape, DType::u8);
    Tensor mask = sample.make("labels", {shape[0], shape[1]}, DType::u8);
    const std::int64_t centre = 8 + index % 16, radius = 4 + index % 5;
    for (std::int64_t y = 0; y < shape[0]; ++y)
      for (std::int64_t x = 0; x < shape[1]; ++x) {
        const std::int64_t across = x - centre, down = y - centre, i = y * shape[1] + x;
        const bool inside = across * across + down * down < radius * radius;
        mask.data<std::uint8_t>()[i] = inside ? 1 : 0;
        std::fill_n(image.data<std::uint8_t>() + 3 * i, 3, inside ? std::uint8_t{200} : std::uint8_t{40});
      }
    sample.set("images", std::move(image));
    sample.set("labels", std::move(mask));
  }
};

const RegisterDataset register_discs("discs",
                                     {.describe = describe_discs,
                                      .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
                                        return std::make_unique<Discs>(options);
                                      },
                                      .reads_files = false});

TEST_CASE("adding data: a mask follows crop and flip") {
  const std::shared_ptr<const Dataset> discs = open_dataset("discs", {.train_size = 100});
  const Transforms transforms = image_transforms(discs->info(), {.augment = "crop_flip"});
  Loader loader(Batches(transform(discs, transforms, 1), {.size = 10}), {.end_epoch = 1});
  while (const auto batch = loader.next()) {
    const std::vector<double> pixels = (*batch)["images"].to_vector(), mask = (*batch)["labels"].to_vector();
    for (std::size_t i = 0; i < mask.size(); ++i)
      if (mask[i] != 255) CHECK((mask[i] == 1) == (pixels[3 * i] > 0));
  }
}

TEST_CASE("adding data: the page has this file's code") {
  const auto read = [](const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(LACUNA_SOURCE_DIR "/" + path).rdbuf();
    return text.str();
  };
  const std::string page = read("docs/adding-data.md"), code = read("tests/data/adding_data.cpp"), fence = "```cpp\n";
  int blocks = 0;
  for (std::size_t at = page.find(fence); at != std::string::npos; at = page.find(fence, at), ++blocks) {
    at += fence.size();
    const std::string block = page.substr(at, page.find("```", at) - at);
    CAPTURE(block);
    test::check_says(code, block);
  }
  CHECK(blocks == 3);
}

}  // namespace
}  // namespace lacuna
