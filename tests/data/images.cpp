#include "core/random.h"
#include "data/encoded_images.h"
#include "data/images/decoder_memory.h"
#include "data/images/image_reader.h"
#include "data/images/view.h"
#include "data/loader.h"
#include "data/pipeline.h"

#include "tests/refusal.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace lacuna {
namespace {

using Bytes = std::vector<std::uint8_t>;

const std::filesystem::path folder = std::filesystem::path(LACUNA_SOURCE_DIR) / "tests/data/images";

Bytes bytes_of(const std::string& name) {
  std::ifstream file(folder / name, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::uint32_t hash_of(const Tensor& image) {
  return random_site({reinterpret_cast<const char*>(image.raw()), static_cast<std::size_t>(image.count())});
}

// Lines of references.txt that begin with `kind`, without it.
std::vector<std::istringstream> references(const std::string& kind) {
  std::ifstream file(folder / "references.txt");
  REQUIRE(file);
  std::vector<std::istringstream> lines;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(kind + " ")) lines.emplace_back(line.substr(kind.size() + 1));
  REQUIRE(!lines.empty());
  return lines;
}

bool is_jpeg(const Bytes& file) { return file[0] == 0xff; }

// stb_image does not give Pillow's bits of a JPEG.
bool is_exact(const Bytes& file) { return !is_jpeg(file) || std::string(jpeg_library()) == "libjpeg-turbo"; }

void check_decoding(const std::string& kind, const DecodeOptions& options) {
  for (std::istringstream& line : references(kind)) {
    std::string name;
    std::int64_t height = 0, width = 0;
    std::uint32_t hash = 0;
    line >> name >> height >> width >> hash;
    CAPTURE(name);
    const Bytes file = bytes_of(name);
    const Tensor image = decode_image(file, options);
    CHECK(image.shape() == Shape{height, width, 3});
    if (is_exact(file)) CHECK(hash_of(image) == hash);
  }
}

TEST_CASE("images decode to Pillow's pixels") { check_decoding("decode", {}); }

TEST_CASE("images are turned as EXIF says where that is asked for") { check_decoding("exif", {.apply_exif = true}); }

class FixedView final : public ViewTransform {
 public:
  FixedView(const ViewOptions& options, const View& view) : ViewTransform(options), view_(view) {}
  View view(std::int64_t, std::int64_t, SampleRandom&) const override { return view_; }

 private:
  View view_;
};

Tensor seen(const ViewTransform& transform, const Tensor& value) {
  Sample sample;
  sample.begin(0);
  sample.set("images", value.clone());
  SampleRandom random(1, 0, 0);
  SampleImage image(sample, "images");
  transform.apply(image, random);
  return sample["images"].clone();
}

Tensor as_tensor(const Bytes& file) {
  Tensor tensor = Tensor::empty({std::ssize(file)}, DType::u8, Device::cpu);
  std::ranges::copy(file, tensor.data<std::uint8_t>());
  return tensor;
}

Interpolation interpolation(std::istringstream& line) {
  std::string name;
  line >> name;
  return from_name<Interpolation>(name).value();
}

// The view of a file, and of the same image that was decoded whole.
void check_view(const ViewTransform& transform, const Bytes& file, std::uint32_t hash) {
  const Tensor of_file = seen(transform, as_tensor(file));
  if (is_exact(file)) CHECK(hash_of(of_file) == hash);
  CHECK(hash_of(seen(transform, decode_image(file))) == hash_of(of_file));
}

TEST_CASE("a box is cut, resized and mirrored as Pillow does, from files and from pixels") {
  for (std::istringstream& line : references("view")) {
    CAPTURE(line.str());
    std::string name;
    View view{};
    ViewOptions options;
    std::int64_t side = 0;
    line >> name >> view.box.top >> view.box.left >> view.box.height >> view.box.width >> view.height >> view.width >>
        view.top >> view.left >> side >> view.flip;
    options.size = side;
    options.interpolation = interpolation(line);
    std::uint32_t hash = 0;
    line >> hash;
    check_view(FixedView(options, view), bytes_of(name), hash);
  }
}

TEST_CASE("evaluation sees the middle of an image as timm does, in each crop mode") {
  for (std::istringstream& line : references("center")) {
    CAPTURE(line.str());
    std::string name, mode;
    ViewOptions options;
    double crop_pct = 0;
    std::int64_t side = 0;
    line >> name >> side >> crop_pct >> mode;
    options.size = side;
    options.interpolation = interpolation(line);
    if (mode == "border") options.fill = {124, 116, 104};
    std::uint32_t hash = 0;
    line >> hash;
    check_view(CenterView(options, crop_pct, crop_mode_of(mode)), bytes_of(name), hash);
  }
}

TEST_CASE("any box of a JPEG has the pixels of the whole image") {
  for (const char* const name : {"rgb_444.jpg", "rgb_422.jpg", "rgb_420.jpg", "odd_420.jpg", "wide_420.jpg",
                                 "progressive.jpg", "grey.jpg", "cmyk.jpg", "restarts.jpg", "stored_as_rgb.jpg"}) {
    CAPTURE(name);
    const Bytes file = bytes_of(name);
    const Tensor whole = decode_image(file);
    const std::int64_t height = whole.shape()[0], width = whole.shape()[1];
    SampleRandom random(1, 0, 0);
    for (int i = 0; i < 100; ++i) {
      ImageBox box{.height = 1 + random.below(height), .width = 1 + random.below(width)};
      box.top = random.below(height - box.height + 1);
      box.left = random.below(width - box.width + 1);
      CAPTURE(box.top);
      CAPTURE(box.left);
      CAPTURE(box.height);
      CAPTURE(box.width);
      std::int64_t y = box.top, different = 0;
      open_image(file)->read(box, [&](const std::uint8_t* row) {
        const std::uint8_t* const expected = whole.data<const std::uint8_t>() + (y++ * width + box.left) * 3;
        for (std::int64_t x = 0; x < box.width; ++x)
          if (!std::equal(row + x * 4, row + x * 4 + 3, expected + x * 3)) ++different;
      });
      CHECK(different == 0);
      CHECK(y == box.top + box.height);
    }
  }
}

// The error message of decoding `file`; empty if it succeeds.
std::string refusal(const Bytes& file) {
  try {
    decode_image(file);
  } catch (const DamagedSample& error) {
    return error.what();
  }
  return {};
}

TEST_CASE("damaged, unknown and oversized images are refused") {
  const auto with = [](Bytes file, std::size_t at, std::initializer_list<std::uint8_t> bytes) {
    std::ranges::copy(bytes, file.begin() + static_cast<std::ptrdiff_t>(at));
    return file;
  };
  const auto cut = [](Bytes file, std::size_t bytes) {
    file.resize(file.size() - bytes);
    return file;
  };
  CHECK(refusal({}) != "");
  CHECK(refusal({'h', 'e', 'l', 'l', 'o'}) != "");
  for (const auto& [file, format] : {std::pair{Bytes{0, 0, 0, 24, 'f', 't', 'y', 'p', 'a', 'v', 'i', 'f'}, "AVIF"},
                                     std::pair{Bytes{'I', 'I', '*', 0, 8, 0, 0, 0}, "TIFF"},
                                     std::pair{Bytes{'M', 'M', 0, '*', 0, 0, 0, 8}, "TIFF"}}) {
    test::check_says(refusal(file), format);
    test::check_says(refusal(file), "mogrify -format png");
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") continue;
    const Bytes file = bytes_of(entry.path().filename());
    CAPTURE(entry.path().string());
    CHECK(refusal(file) == "");
    CHECK(refusal(cut(file, file.size() / 2)) != "");
    // A JPEG without its final marker has all pixels, so it decodes.
    if (!is_jpeg(file) && entry.path().extension() != ".gif") CHECK(refusal(cut(file, 1)) != "");
    for (std::size_t bytes = 0; bytes < std::min<std::size_t>(file.size(), 30); ++bytes)
      CHECK(refusal({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(bytes)}) != "");
  }
  const Bytes png = bytes_of("rgb.png");
  CHECK(refusal(with(png, png.size() / 2, {static_cast<std::uint8_t>(png[png.size() / 2] ^ 1)})) != "");
  // Sizes far beyond the data, which nothing may be allocated for.
  CHECK(refusal(with(png, 16, {0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff})) != "");
  Bytes jpeg = bytes_of("rgb_420.jpg");
  constexpr std::uint8_t start_of_frame[]{0xff, 0xc0};
  const auto frame = static_cast<std::size_t>(
      std::search(jpeg.begin(), jpeg.end(), std::begin(start_of_frame), std::end(start_of_frame)) - jpeg.begin());
  test::check_says(refusal(with(jpeg, frame + 5, {0xff, 0, 0xff, 0})), "65280");
  CHECK(refusal(with(jpeg, frame + 5, {0, 0, 0, 0})) != "");
  CHECK(refusal(with(jpeg, frame + 4, {12})) != "");    // bits of a value
  CHECK(refusal(with(jpeg, frame + 1, {0xc9})) != "");  // arithmetic coding
}

TEST_CASE("decoders that hold a whole image take turns") {
  for (const auto& [name, pixel_bytes] :
       {std::pair{"rgb.png", 0}, std::pair{"rgb_420.jpg", 0}, std::pair{"rgb.bmp", 0}, std::pair{"rgb.ppm", 0},
        std::pair{"interlaced.png", 4}, std::pair{"palette.gif", 9}, std::pair{"lossy.webp", 4},
        std::pair{"lossless.webp", 8}}) {
    CAPTURE(name);
    const Bytes file = bytes_of(name);
    const auto reader = open_image(file);
    const std::int64_t copies = std::string_view(name).ends_with(".gif") ? std::ssize(file) : 0;
    CHECK(reader->held_bytes() == pixel_bytes * reader->height() * reader->width() + copies);
  }
  const Bytes progressive = bytes_of("progressive.jpg");
  const auto reader = open_image(progressive);
  CHECK(reader->held_bytes() >= 3 * reader->height() * reader->width());
  const Bytes turned = bytes_of("exif_6.jpg");
  CHECK(open_image(turned, {.apply_exif = true})->held_bytes() == 17 * 26 * 4);

  constexpr std::int64_t mebibyte = 1 << 20;
  set_decoder_limit(10 * mebibyte);
  std::atomic<std::int64_t> held = 0, most = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&, i] {
        for (int round = 0; round < 20; ++round) {
          const std::int64_t bytes = (round == 7 && i == 3 ? 20 : 1 + i) * mebibyte;  // one is above the limit, alone
          const DecoderMemory memory(bytes);
          const std::int64_t now = held += bytes;
          if (bytes < 20 * mebibyte) most = std::max<std::int64_t>(most, now);
          std::this_thread::yield();
          held -= bytes;
        }
      });
  }
  CHECK(held == 0);
  CHECK(most <= 10 * mebibyte);
  CHECK(decoder_peak() == 20 * mebibyte);

  // A small one that comes later does not pass a large one that waits. The large thread may be slow to come.
  bool in_order = false;
  for (int attempt = 0; attempt < 10 && !in_order; ++attempt) {
    std::optional<DecoderMemory> first(std::in_place, 6 * mebibyte);
    std::atomic<bool> large = false;
    std::jthread waits([&] {
      const DecoderMemory memory(9 * mebibyte);
      large = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::jthread small([&] {
      const DecoderMemory memory(3 * mebibyte);
      in_order = large;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    first.reset();
  }
  CHECK(in_order);
  set_decoder_limit(0);
}

TEST_CASE("grey of 16 bits is clamped as Pillow does, or scaled") {
  const Bytes png = bytes_of("grey_16_bits.png"), pgm = bytes_of("grey_10_bits.pgm");
  const auto value = [](const Bytes& file, bool scale, std::int64_t place) {
    const auto reader = open_image(file, {.scale_grey = scale});
    std::vector<int> values;
    reader->read({.height = reader->height(), .width = reader->width()}, [&](const std::uint8_t* row) {
      for (std::int64_t x = 0; x < reader->width(); ++x) values.push_back(row[x * 4]);
    });
    return values[static_cast<std::size_t>(place)];
  };
  CHECK(value(png, false, 100) == 255);  // 700
  CHECK(value(png, true, 100) == 3);     // 700 / 257
  CHECK(value(pgm, false, 15) == 255);   // 7 of 1023
  CHECK(value(pgm, true, 15) == 2);      // 7 / 1023 · 255
}

TEST_CASE("a JPEG that is cut off is an error even where the part that is wanted is whole") {
  Bytes file = bytes_of("wide_420.jpg");
  file.resize(file.size() * 9 / 10);
  const auto reader = open_image(file);
  CHECK_THROWS_AS(reader->read({.height = 4, .width = 4}, [](const std::uint8_t*) {}), DamagedSample);
}

class Files final : public EncodedImages {
 public:
  explicit Files(std::vector<Bytes> files)
      : EncodedImages({.name = "files", .size = std::ssize(files), .fields = encoded_image_fields()}),
        files_(std::move(files)) {}
  std::string origin(std::int64_t index) const override { return "file " + std::to_string(index); }

 private:
  void read_file(std::int64_t index, Sample& sample) const override {
    sample.set("images", as_tensor(files_[static_cast<std::size_t>(index)]));
    Tensor label = sample.make("labels", {}, DType::i64);
    *label.data<std::int64_t>() = index % 2;
    sample.set("labels", std::move(label));
  }

  std::vector<Bytes> files_;
};

Batches views_of(DatasetPtr files, OnDamage on_damage, std::int64_t size, bool shuffled) {
  const Transforms view{std::make_shared<CenterView>(ViewOptions{.size = 8}, 1, CropMode::center)};
  DatasetPtr views = transform(std::move(files), view, 1, on_damage);
  return {shuffled ? shuffle(views, 1) : views, {.size = size}};
}

TEST_CASE("damaged files are named") {
  Bytes cut = bytes_of("wide_420.jpg");
  cut.resize(cut.size() / 2);
  const Batches batches = views_of(std::make_shared<Files>(std::vector<Bytes>{cut}), OnDamage::fail, 1, false);
  Sample sample;
  CHECK_THROWS_WITH_AS(batches.read(0, 0, batches.allocate(), sample), doctest::Contains("file 0"), DamagedSample);
}

TEST_CASE("damaged files are left out: the batch has the others, in order") {
  Bytes whole = bytes_of("wide_420.jpg"), cut = whole, other = bytes_of("rgb.png");
  cut.resize(cut.size() / 2);
  const auto files = std::make_shared<Files>(std::vector<Bytes>{whole, cut, other, {}, whole, cut, {}});
  for (const int workers : {1, 3}) {
    Loader loader(views_of(files, OnDamage::leave_out, 5, false), {.end_epoch = 1, .workers = workers});
    const std::optional<Batch> batch = loader.next();
    REQUIRE(batch);
    CHECK(batch->samples == 3);
    CHECK((*batch)["labels"].to_vector() == std::vector<double>{0, 0, 0});
    const std::vector<double> pixels = (*batch)["images"].to_vector();
    REQUIRE(pixels.size() == 3 * 8 * 8 * 3);
    CHECK(std::equal(pixels.begin(), pixels.begin() + 192, pixels.begin() + 384));
    CHECK(!std::equal(pixels.begin(), pixels.begin() + 192, pixels.begin() + 192));
    REQUIRE(batch->damaged.size() == 2);
    CHECK(batch->damaged[0].file == "file 1");
    CHECK(batch->damaged[1].index == 3);
    CHECK(batch->damaged[1].instead.empty());
    const std::optional<Batch> none = loader.next();
    REQUIRE(none);
    CHECK(none->samples == 0);
    CHECK(none->damaged.size() == 2);
    CHECK(!loader.next());
  }
}

TEST_CASE("another file of the class takes a damaged one's place: by seed, epoch and sample alone, and named") {
  Bytes whole = bytes_of("wide_420.jpg"), cut = whole;
  cut.resize(cut.size() / 2);
  std::vector<Bytes> contents;
  for (int i = 0; i < 24; ++i) contents.push_back(i == 5 || i == 7 || i == 10 ? cut : whole);
  const auto files = std::make_shared<Files>(contents);
  const auto seen = [&](const LoaderOptions& options, std::int64_t size) {
    Loader loader(views_of(files, OnDamage::replace, size, true), options);
    std::map<std::pair<std::int64_t, std::int64_t>, std::string> instead;  // by epoch and damaged sample
    while (const std::optional<Batch> batch = loader.next()) {
      CHECK(batch->samples == size);
      for (const DamagedFile& one : batch->damaged) {
        CHECK(one.file == fmt::format("file {}", one.index));
        CHECK(!one.why.empty());
        const int other = std::stoi(one.instead.substr(5));
        CHECK(other % 2 == one.index % 2);
        CHECK((other != 5 && other != 7 && other != 10));
        instead[{batch->epoch, one.index}] = one.instead;
      }
    }
    return instead;
  };
  const auto all = seen({.end_epoch = 4}, 6);
  CHECK(all.size() == 12);
  std::set<std::string> different;
  for (const auto& entry : all) different.insert(entry.second);
  CHECK(different.size() > 3);
  CHECK(seen({.end_epoch = 4, .workers = 3}, 6) == all);
  CHECK(seen({.end_epoch = 4}, 8) == all);
  auto resumed = seen({.first_epoch = 2, .first_sample = 12, .end_epoch = 4}, 6);
  for (const auto& [place, file] : resumed) CHECK(all.at(place) == file);
  CHECK(resumed.size() >= 3);

  const auto hopeless = std::make_shared<Files>(std::vector<Bytes>{whole, cut, whole, cut});
  Sample sample;
  const Batches batches = views_of(hopeless, OnDamage::replace, 2, false);
  CHECK_THROWS_WITH_AS(batches.read(0, 0, batches.allocate(), sample), doctest::Contains("of its class"), Error);
}

TEST_CASE("random resized crops keep to their ranges and are whole where none fits") {
  const RandomResizedCrop crop({.size = 32}, {.least_scale = 0.2, .most_scale = 0.5, .flip = 0.25});
  int flips = 0;
  for (std::int64_t i = 0; i < 2000; ++i) {
    SampleRandom random(1, 0, i);
    const View view = crop.view(300, 400, random);
    const ImageBox& box = view.box;
    const double area = static_cast<double>(box.height * box.width) / (300 * 400);
    const double ratio = static_cast<double>(box.width) / static_cast<double>(box.height);
    CHECK(area == doctest::Approx(0.35).epsilon(0.45));
    CHECK(ratio == doctest::Approx(1.04).epsilon(0.3));
    CHECK(0 <= box.top);
    CHECK(box.top + box.height <= 300);
    CHECK(0 <= box.left);
    CHECK(box.left + box.width <= 400);
    CHECK(view.height == 32);
    flips += view.flip ? 1 : 0;
  }
  CHECK(flips == doctest::Approx(500).epsilon(0.15));
  // timm's fallback: the middle, as wide as the widest ratio allows.
  SampleRandom random(1, 0, 0);
  const View view = RandomResizedCrop({.size = 32}, {.least_scale = 1}).view(10, 1000, random);
  CHECK(view.box.height == 10);
  CHECK(view.box.width == 13);
  CHECK(view.box.left == 493);
}

TEST_CASE("fast decoding gives nearly the same view") {
  const Bytes file = bytes_of("wide_420.jpg");
  const View view{.box = {.top = 2, .left = 3, .height = 64, .width = 140}, .height = 8, .width = 8};
  const Tensor exact = seen(FixedView({.size = 8}, view), as_tensor(file));
  const Tensor fast = seen(FixedView({.size = 8, .fast = true}, view), as_tensor(file));
  const std::vector<double> a = exact.to_vector(), b = fast.to_vector();
  double difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference += std::abs(a[i] - b[i]) / static_cast<double>(a.size());
  CHECK(difference < 15);
}

}  // namespace
}  // namespace lacuna
