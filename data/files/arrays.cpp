#include "data/files/arrays.h"

#include "core/error.h"
#include "data/files/input_file.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>

namespace lacuna {
namespace {

std::string read_bytes(const std::filesystem::path& path) {
  const InputFile file(path);
  std::string bytes(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()});
  return bytes;
}

/// A little-endian number at `at`.
template <class T>
T number_at(std::string_view bytes, std::size_t at, const std::string& origin) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) reject("{}: the file ends too early", origin);
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// The text behind `key` in the dictionary of a header, up to `end`.
std::string_view value_of(std::string_view header, std::string_view key, std::string_view end,
                          const std::string& origin) {
  const std::size_t found = header.find(key);
  const std::size_t begin = found == header.npos ? found : header.find_first_not_of(": ", found + key.size());
  const std::size_t stop = begin == header.npos ? begin : header.find(end, begin + 1);
  if (stop == header.npos) reject("{}: expected the header of a .npy file, got {}", origin, header.substr(0, 80));
  return header.substr(begin, stop - begin + 1);
}

NumpyArray parse_npy(std::string bytes, const std::string& origin) {
  if (!bytes.starts_with("\x93NUMPY")) reject("{}: expected an array of NumPy (.npy)", origin);
  const bool is_first = number_at<std::uint8_t>(bytes, 6, origin) == 1;
  const std::size_t length = is_first ? number_at<std::uint16_t>(bytes, 8, origin)
                                      : number_at<std::uint32_t>(bytes, 8, origin),
                    begin = is_first ? 10 : 12;
  if (length > bytes.size() - begin) reject("{}: the file ends too early", origin);
  const std::string_view header(bytes.data() + begin, length);
  NumpyArray array{.origin = origin, .type = {}, .shape = {}, .bytes = {}};
  const std::string type(value_of(header, "'descr'", "'", origin));  // '<f4'
  std::int64_t size = 0;                                             // of an element
  const char* const type_end = type.data() + std::max<std::size_t>(1, type.size()) - 1;
  if (type.size() < 5 || type[1] == '>' || std::from_chars(type.data() + 3, type_end, size).ptr != type_end ||
      size > 1 << 16)
    reject("{}: expected numbers in little endian, got {}: numpy.save of `array.astype('<f4')`, say", origin, type);
  array.type = type.substr(2, type.size() - 3);
  if (array.type.front() == 'U') size *= 4;
  if (value_of(header, "'fortran_order'", "e", origin) != "False")
    reject("{}: expected C order: numpy.save of `numpy.ascontiguousarray(array)`", origin);
  std::string_view shape = value_of(header, "'shape'", ")", origin);
  std::int64_t count = 1;
  for (std::size_t at = shape.find_first_of("0123456789"); at != shape.npos; at = shape.find_first_of("0123456789")) {
    shape.remove_prefix(at);
    std::int64_t extent = 0;
    const auto [end, failed] = std::from_chars(shape.data(), shape.data() + shape.size(), extent);
    constexpr std::int64_t most = std::int64_t{1} << 40;
    if (failed != std::errc() || extent > most || (extent > 0 && count > most / extent))
      reject("{}: the array is too large", origin);
    count *= extent;
    array.shape.push_back(extent);
    shape.remove_prefix(static_cast<std::size_t>(end - shape.data()));
  }
  if (static_cast<std::int64_t>(bytes.size() - begin - length) != count * size)
    reject("{}: expected {} bytes of values, got {}", origin, count * size, bytes.size() - begin - length);
  array.bytes = bytes.substr(begin + length);
  return array;
}

/// Raw deflated data, whose size once inflated is known.
std::string inflated(std::string_view packed, std::size_t size, const std::string& origin) {
  // Deflate makes nothing smaller than about a thousandth.
  if (size / 1100 > packed.size()) reject("{}: {} bytes cannot hold {}", origin, packed.size(), size);
  std::string out(size, '\0');
  z_stream stream{};
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ends(&stream, inflateEnd);
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) reject("{}: zlib failed", origin);
  std::size_t read = 0, written = 0;
  constexpr std::size_t most = 1U << 30;
  for (int state = Z_OK; state == Z_OK;) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + read));
    stream.avail_in = static_cast<uInt>(std::min(most, packed.size() - read));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + written);
    stream.avail_out = static_cast<uInt>(std::min(most, size - written));
    const uInt in = stream.avail_in, room = stream.avail_out;
    state = inflate(&stream, Z_NO_FLUSH);
    read += in - stream.avail_in;
    written += room - stream.avail_out;
    if (state == Z_STREAM_END) break;
    if (state != Z_OK || (in == stream.avail_in && room == stream.avail_out))
      reject("{}: the compressed data is damaged", origin);
  }
  if (written != size) reject("{}: expected {} bytes, got {}", origin, size, written);
  return out;
}

template <class To>
std::vector<To> converted(const NumpyArray& array) {
  std::vector<To> out(static_cast<std::size_t>(array.count()));
  const auto from = [&]<class T>(T) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      T value{};
      std::memcpy(&value, array.bytes.data() + i * sizeof(T), sizeof(T));
      if constexpr (!std::is_integral_v<To>) {
        if (!std::isfinite(static_cast<float>(value)))
          reject("{}: value {}: expected a finite number, got {}", array.origin, i, value);
      } else if (!(static_cast<double>(value) >= static_cast<double>(std::numeric_limits<To>::min()) &&
                   static_cast<double>(value) <= static_cast<double>(std::numeric_limits<To>::max()))) {
        reject("{}: value {} is too large", array.origin, i);
      }
      out[i] = static_cast<To>(value);
    }
  };
  const std::string& type = array.type;
  if (type == "i4")
    from(std::int32_t{});
  else if (type == "i8")
    from(std::int64_t{});
  else if (type == "u1" || type == "b1")
    from(std::uint8_t{});
  else if (type == "i1")
    from(std::int8_t{});
  else if (type == "i2")
    from(std::int16_t{});
  else if (type == "u2")
    from(std::uint16_t{});
  else if (type == "u4")
    from(std::uint32_t{});
  else if (type == "u8")
    from(std::uint64_t{});
  else if (type == "f4" && std::is_floating_point_v<To>)
    from(float{});
  else if (type == "f8" && std::is_floating_point_v<To>)
    from(double{});
  else
    reject("{}: expected {}, got {}", array.origin, std::is_floating_point_v<To> ? "numbers" : "whole numbers", type);
  return out;
}

}  // namespace

std::int64_t NumpyArray::count() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}
std::vector<std::int64_t> NumpyArray::whole_numbers() const { return converted<std::int64_t>(*this); }
std::vector<std::int32_t> NumpyArray::node_numbers() const { return converted<std::int32_t>(*this); }
Tensor NumpyArray::floats() const {
  const std::vector<float> values = converted<float>(*this);
  Tensor tensor = Tensor::empty(Shape(shape), DType::f32, Device::cpu, Purpose::data);
  std::ranges::copy(values, tensor.data<float>());
  return tensor;
}

std::string read_gzip(const std::filesystem::path& path, std::int64_t most) {
  { const InputFile exists(path); }
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) reject("{}: cannot be read", path.string());
  std::string all;
  constexpr unsigned step = 1 << 20;
  for (int got = step; got == step;) {
    const std::size_t before = all.size();
    all.resize(before + step);
    got = gzread(file.get(), all.data() + before, step);
    if (got < 0) reject("{}: the compressed data is damaged", path.string());
    all.resize(before + static_cast<std::size_t>(got));
    if (static_cast<std::int64_t>(all.size()) > most) reject("{}: has more than {} bytes", path.string(), most);
  }
  if (int state = Z_OK; (gzerror(file.get(), &state), state != Z_OK))
    reject("{}: the compressed data is damaged", path.string());
  return all;
}

NumpyArray read_npy(const std::filesystem::path& path) { return parse_npy(read_bytes(path), path.string()); }

std::map<std::string, NumpyArray> read_npz(const std::filesystem::path& path) {
  const std::string origin = path.string(), bytes = read_bytes(path);
  const std::size_t end = bytes.rfind("PK\x05\x06");
  if (end == bytes.npos) reject("{}: expected an archive of NumPy (.npz)", origin);
  std::size_t at = number_at<std::uint32_t>(bytes, end + 16, origin);
  const auto entries = number_at<std::uint16_t>(bytes, end + 10, origin);
  std::map<std::string, NumpyArray> arrays;
  for (int i = 0; i < entries; ++i) {
    if (number_at<std::uint32_t>(bytes, at, origin) != 0x02014b50)
      reject("{}: the list of its files is damaged", origin);
    const auto method = number_at<std::uint16_t>(bytes, at + 10, origin);
    const auto checksum = number_at<std::uint32_t>(bytes, at + 16, origin);
    std::uint64_t packed = number_at<std::uint32_t>(bytes, at + 20, origin),
                  size = number_at<std::uint32_t>(bytes, at + 24, origin),
                  local = number_at<std::uint32_t>(bytes, at + 42, origin);
    const std::size_t name_length = number_at<std::uint16_t>(bytes, at + 28, origin),
                      extra = number_at<std::uint16_t>(bytes, at + 30, origin),
                      comment = number_at<std::uint16_t>(bytes, at + 32, origin), name_at = at + 46;
    if (name_at + name_length + extra > bytes.size()) reject("{}: the file ends too early", origin);
    std::string name = bytes.substr(name_at, name_length);
    // The 64-bit numbers of files of 4 GiB and more, in this order where the others are full.
    for (std::size_t field = name_at + name_length, stop = field + extra; field + 4 <= stop;) {
      const auto kind = number_at<std::uint16_t>(bytes, field, origin),
                 length = number_at<std::uint16_t>(bytes, field + 2, origin);
      std::size_t next = field + 4;
      for (std::uint64_t* const value : {&size, &packed, &local})
        if (kind == 1 && *value == 0xffffffff) {
          *value = number_at<std::uint64_t>(bytes, next, origin);
          next += 8;
        }
      field += 4 + length;
    }
    at = name_at + name_length + extra + comment;
    if (!name.ends_with(".npy")) continue;
    name.resize(name.size() - 4);
    const std::string place = fmt::format("{}: {}", origin, name);
    const std::uint64_t data = local + 30 + number_at<std::uint16_t>(bytes, local + 26, place) +
                               number_at<std::uint16_t>(bytes, local + 28, place);
    if (data > bytes.size() || packed > bytes.size() - data) reject("{}: the file ends too early", place);
    const std::string_view stored(bytes.data() + data, packed);
    if (method != 0 && method != 8) reject("{}: expected data stored or deflated, got method {}", place, method);
    std::string content = method == 0 ? std::string(stored) : inflated(stored, size, place);
    if (crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()) != checksum)
      reject("{}: the data is damaged: its checksum differs", place);
    arrays.emplace(name, parse_npy(std::move(content), place));
  }
  return arrays;
}

}  // namespace lacuna
