#include "data/images/png_file.h"

#include "core/error.h"

#include <cerrno>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include <png.h>

namespace lacuna {
namespace {

struct Form {
  std::int64_t height, width, row_bytes;
  int depth, type;
};

/// On an error, longjmp returns here; libpng's frames hold no C++ objects.
void write(const std::filesystem::path& path, const Form& form, std::span<const Rgb> palette,
           const std::vector<png_bytep>& rows) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
  if (!file) reject("{}: cannot be written: {}", path.native(), std::strerror(errno));
  struct Handle {
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
    png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
    ~Handle() { png_destroy_write_struct(&png, &info); }
  } handle;
  std::vector<png_color> colors;
  for (const Rgb& color : palette) colors.push_back({color[0], color[1], color[2]});
  expect(handle.info != nullptr, "libpng {} cannot be used", png_get_libpng_ver(nullptr));
  if (setjmp(png_jmpbuf(handle.png)) != 0) reject("{}: cannot be written", path.native());
  png_init_io(handle.png, file.get());
  png_set_IHDR(handle.png, handle.info, static_cast<png_uint_32>(form.width), static_cast<png_uint_32>(form.height),
               form.depth, form.type, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!colors.empty()) png_set_PLTE(handle.png, handle.info, colors.data(), static_cast<int>(colors.size()));
  png_write_info(handle.png, handle.info);
  png_write_image(handle.png, const_cast<png_bytepp>(rows.data()));
  png_write_end(handle.png, nullptr);
}

void write(const std::filesystem::path& path, const Form& form, std::span<const Rgb> palette, std::uint8_t* pixels) {
  std::vector<png_bytep> rows;
  for (std::int64_t y = 0; y < form.height; ++y) rows.push_back(pixels + y * form.row_bytes);
  write(path, form, palette, rows);
}

void expect_colors(const Tensor& image) {
  expect(image.dtype() == DType::u8 && image.shape().rank() == 3 && image.shape()[2] == 3,
         "expected an image u8 [H, W, 3], got {} {}", name_of(image.dtype()), image.shape());
}

}  // namespace

std::string to_png(const Tensor& image) {
  expect_colors(image);
  png_image form{};
  form.version = PNG_IMAGE_VERSION;
  form.height = static_cast<png_uint_32>(image.shape()[0]);
  form.width = static_cast<png_uint_32>(image.shape()[1]);
  form.format = PNG_FORMAT_RGB;
  std::string bytes;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(form);
  bytes.resize(size);
  if (png_image_write_to_memory(&form, bytes.data(), &size, 0, image.data<const std::uint8_t>(), 0, nullptr) == 0)
    fail("libpng: {}", static_cast<const char*>(form.message));
  bytes.resize(size);
  return bytes;
}

void write_png(const std::filesystem::path& path, const Tensor& image) {
  expect_colors(image);
  const Shape& shape = image.shape();
  write(path, {shape[0], shape[1], shape[1] * 3, 8, PNG_COLOR_TYPE_RGB}, {}, image.data<std::uint8_t>());
}

void write_png(const std::filesystem::path& path, const Tensor& numbers, std::span<const Rgb> palette) {
  const Shape& shape = numbers.shape();
  expect(shape.rank() == 2 && numbers.dtype() == (palette.empty() ? DType::i32 : DType::u8),
         "expected numbers u8 [H, W] with a palette, or i32, got {} {}", name_of(numbers.dtype()), shape);
  if (!palette.empty())
    return write(path, {shape[0], shape[1], shape[1], 8, PNG_COLOR_TYPE_PALETTE}, palette,
                 numbers.data<std::uint8_t>());
  std::vector<std::uint8_t> bytes;  // high byte first
  for (std::int64_t i = 0; i < numbers.count(); ++i) {
    const std::int32_t number = numbers.data<const std::int32_t>()[i];
    bytes.push_back(static_cast<std::uint8_t>(number >> 8));
    bytes.push_back(static_cast<std::uint8_t>(number));
  }
  write(path, {shape[0], shape[1], shape[1] * 2, 16, PNG_COLOR_TYPE_GRAY}, {}, bytes.data());
}

}  // namespace lacuna
