// Benchmark of the loader in images per second: decode, random resized crop to 224, flip, normalise.
//
//     bench_images FOLDER [--workers 2] [--batch 64] [--images 4000] [--interpolation bilinear|bicubic|random]
//                  [--decode exact|fast] [--recipe plain|deit]
//
// FOLDER holds image files, which are first read into memory. The recipe `deit` adds RandAugment and random erasing.
// Prints images per second and CPU time per image.
#include "data/encoded_images.h"
#include "data/loader.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace {

using namespace lacuna;

/// A data set that cycles through the files of a folder.
class RepeatedFiles final : public EncodedImages {
 public:
  RepeatedFiles(const std::filesystem::path& folder, std::int64_t size)
      : EncodedImages({.name = "files",
                       .size = size,
                       .fields = encoded_image_fields(),
                       .mean = {0.485F, 0.456F, 0.406F},
                       .deviation = {0.229F, 0.224F, 0.225F}}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream stream(entry.path(), std::ios::binary);
      files_.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    }
    if (files_.empty()) reject("{}: no files", folder.native());
  }

  std::string origin(std::int64_t index) const override { return fmt::format("file {}", index); }

 private:
  void read_file(std::int64_t index, Sample& sample) const override {
    const std::string& file = files_[static_cast<std::size_t>(index) % files_.size()];
    Tensor bytes = sample.make("images", {std::ssize(file)}, DType::u8);
    std::ranges::copy(file, reinterpret_cast<char*>(bytes.raw()));
    sample.set("images", std::move(bytes));
    Tensor label = sample.make("labels", {}, DType::i64);
    *label.data<std::int64_t>() = 0;
    sample.set("labels", std::move(label));
  }

  std::vector<std::string> files_;
};

}  // namespace

int main(int count, char** arguments) try {
  std::map<std::string, std::string> options{{"--workers", "2"},    {"--batch", "64"},
                                             {"--images", "4000"},  {"--interpolation", "bilinear"},
                                             {"--decode", "exact"}, {"--recipe", "plain"}};
  if (count < 2) reject("expected a folder of images");
  for (int i = 2; i + 1 < count; i += 2) options[arguments[i]] = arguments[i + 1];
  const auto number = [&](const char* name) { return std::atoi(options[name].c_str()); };

  const auto files = std::make_shared<RepeatedFiles>(arguments[1], number("--images"));
  AugmentOptions pixels;
  if (options["--recipe"] == "deit") pixels = {.auto_augment = "rand-m9-mstd0.5-inc1", .erase_probability = 0.25};
  const auto [early, late] = split_at_f32(
      image_transforms(files->info(), {.image_size = 224,
                                       .augment = "random_resized_crop",
                                       .pixels = pixels,
                                       .interpolation = from_name<Interpolation>(options["--interpolation"]).value(),
                                       .decode = from_name<Decoding>(options["--decode"]).value()}),
      files->info().fields);
  Loader loader(
      Batches(shuffle(transform(files, early, 1), 1), {.size = number("--batch"), .drop_last = true, .late = late}),
      {.end_epoch = 2, .workers = number("--workers"), .depth = std::max(2, number("--workers"))});
  std::int64_t images = 0;
  auto begin = std::chrono::steady_clock::now();
  auto used = std::clock();
  while (const auto batch = loader.next()) {
    if (batch->epoch == 0) {  // epoch 0 is warm-up
      begin = std::chrono::steady_clock::now();
      used = std::clock();
    } else {
      images += batch->samples;
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double of_processor = static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC;
  const auto all = static_cast<double>(images);
  fmt::print("{:.0f} images/s, {:.0f} µs of processor time each\n", all / seconds, of_processor / all * 1e6);
} catch (const lacuna::Error& error) {
  fmt::print(stderr, "bench_images: {}\n", error.what());
  return 2;
}
