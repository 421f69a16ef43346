#include "data/files/tar.h"

#include "core/error.h"
#include "data/text/utf8.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

namespace lacuna {
namespace {

constexpr std::int64_t block = 512;
constexpr std::int64_t longest_extension = 1 << 20;  // maximum bytes of a long name or of pax records

/// A header block (POSIX.1-1988 ustar; GNU tar's manual, "Basic Tar Format").
class Header {
 public:
  std::array<std::uint8_t, block> bytes;

  bool is_zero() const {
    return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
  }
  /// A field's text up to its first zero byte.
  std::string_view text(std::size_t begin, std::size_t size) const {
    const std::string_view field(reinterpret_cast<const char*>(bytes.data()) + begin, size);
    return field.substr(0, field.find('\0'));
  }
  /// A number: octal digits, or big-endian binary after a first byte of 0x80 (GNU).
  std::optional<std::int64_t> number(std::size_t begin, std::size_t size) const {
    if (bytes[begin] == 0x80) {
      std::uint64_t value = 0;
      for (std::size_t i = begin + 1; i < begin + size; ++i) {
        if (value >> 54U != 0) return std::nullopt;
        value = value << 8U | bytes[i];
      }
      return static_cast<std::int64_t>(value);
    }
    std::string_view digits = text(begin, size);
    digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
    const bool ends_well = std::all_of(end, digits.data() + digits.size(), [](char c) { return c == ' '; });
    if (digits.empty()) return 0;
    return error == std::errc{} && ends_well && value >= 0 ? std::optional(value) : std::nullopt;
  }
  /// Checks the sum of all bytes, with the checksum field as spaces. Some old programs summed signed bytes.
  bool has_right_checksum() const {
    const std::optional<std::int64_t> stored = number(148, 8);
    std::int64_t sum = 0, signed_sum = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::uint8_t byte = i >= 148 && i < 156 ? ' ' : bytes[i];
      sum += byte;
      signed_sum += static_cast<std::int8_t>(byte);
    }
    return stored && (*stored == sum || *stored == signed_sum);
  }
  char type() const { return static_cast<char>(bytes[156]); }
  std::string path() const {
    const bool has_prefix = text(257, 6) == "ustar" && bytes[263] == '0';  // GNU uses these bytes for other fields
    const std::string_view prefix = has_prefix ? text(345, 155) : std::string_view();
    std::string path(prefix);
    if (!prefix.empty()) path += '/';
    return path += text(0, 100);
  }
};

std::string normalised(std::string_view path) {
  std::string result;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (!part.empty() && part != ".") (result += result.empty() ? "" : "/") += part;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return result;
}

std::string up_to_zero(const std::string& text) { return text.substr(0, text.find('\0')); }

std::string_view compression_of(const Header& header) {
  const std::string_view start(reinterpret_cast<const char*>(header.bytes.data()), 6);
  if (start.starts_with("\x1f\x8b")) return "gzip";
  if (start.starts_with("BZh")) return "bzip2";
  if (start.starts_with("\xfd"
                        "7zXZ"))
    return "xz";
  if (start.starts_with("\x28\xb5\x2f\xfd")) return "zstd";
  if (start.starts_with("PK\x03\x04")) return "zip";
  return {};
}

class TarReader {
 public:
  TarReader(const FileRange& range, const std::string& name, const std::function<void(TarMember)>& take)
      : range_(range), name_(name), take_(take) {}

  void read() {
    while (read_header()) {
      const std::optional<std::int64_t> size = header_.number(124, 12);
      if (!size) reject("{}: byte {}: expected a size in a member's header, got no number", name_, at_ - block);
      const char type = header_.type();
      if (type == 'L' || type == 'K')
        (type == 'L' ? long_path_ : long_link_) = up_to_zero(extension(*size));
      else if (type == 'x' || type == 'g')
        read_pax(extension(*size), type == 'g');
      else
        read_member(type, *size);
    }
  }

 private:
  /// Returns false at the end-of-archive marker.
  bool read_header() {
    if (range_.bytes - at_ < block)
      reject("{}: {} at byte {}: expected a further member or the end mark: fetch the archive again", name_,
             range_.bytes == 0 ? "is empty" : "is cut off", range_.bytes);
    range_.file.read(range_.begin + at_, header_.bytes);
    if (header_.is_zero()) return false;
    if (!header_.has_right_checksum()) {
      if (const std::string_view packed = compression_of(header_); at_ == 0 && !packed.empty())
        reject("{}: is compressed ({}), and members are read in place: unpack it first", name_, packed);
      reject("{}: byte {}: {}", name_, at_,
             at_ == 0 ? "is no tar archive" : "expected a member's header: the archive is damaged");
    }
    at_ += block;
    return true;
  }

  void skip(std::int64_t bytes) {
    if (bytes > range_.bytes - at_)
      reject("{}: is cut off: it has {} bytes, and the member `{}` ends at byte {}", name_, range_.bytes,
             header_.path(), at_ + bytes);
    at_ += std::min((bytes + block - 1) / block * block, range_.bytes - at_);
  }

  std::string extension(std::int64_t bytes) {
    if (bytes > longest_extension)
      reject("{}: byte {}: expected a name of at most {} bytes, got {}", name_, at_ - block, longest_extension, bytes);
    const std::int64_t begin = at_;
    skip(bytes);
    std::string content(static_cast<std::size_t>(bytes), '\0');
    range_.file.read(range_.begin + begin, {reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
    return content;
  }

  /// Parses pax records `length key=value\n`.
  void read_pax(std::string_view records, bool for_all) {
    while (!records.empty() && records.front() != '\0') {
      std::size_t length = 0;
      const auto [end, error] = std::from_chars(records.data(), records.data() + records.size(), length);
      const auto digits = static_cast<std::size_t>(end - records.data());
      if (error != std::errc{} || length > records.size() || length < digits + 2 || records[digits] != ' ')
        reject("{}: byte {}: expected pax records `length key=value`: the archive is damaged", name_, at_);
      const std::string_view record = records.substr(digits + 1, length - digits - 2);
      const std::size_t equals = std::min(record.find('='), record.size());
      const std::string_view key = record.substr(0, equals), value = record.substr(std::min(equals + 1, record.size()));
      if (key == "path" && !for_all) long_path_ = value;
      if (key == "linkpath" && !for_all) long_link_ = value;
      if (key == "size" && !for_all) {
        std::int64_t size = -1;
        std::from_chars(value.data(), value.data() + value.size(), size);
        if (size < 0) reject("{}: byte {}: expected a size, got `{}`", name_, at_, value);
        long_size_ = size;
      }
      if (key.starts_with("GNU.sparse")) is_sparse_ = true;
      records.remove_prefix(length);
    }
  }

  void read_member(char type, std::int64_t size) {
    const std::string written = long_path_.value_or(header_.path());
    std::string path = normalised(written);
    const bool is_file = type == '0' || type == '\0' || type == '7';
    const bool is_folder = type == '5' || (is_file && written.ends_with('/'));
    if (const std::size_t broken = find_broken_utf8(path); broken != std::string::npos)
      reject("{}: expected names in UTF-8, got byte 0x{:02x} in a name at byte {}", name_,
             static_cast<unsigned char>(path[broken]), at_ - block);
    if (path.find('\0') != std::string::npos) reject("{}: a name at byte {} has a zero byte", name_, at_ - block);
    if (type == 'S' || is_sparse_)
      reject("{}: the member `{}` is a sparse file: write the archive without -S", name_, path);
    if (type == '2')
      reject("{}: the member `{}` is a symbolic link: `tar -h` writes the file in its place", name_, path);
    const std::int64_t bytes = long_size_.value_or(size);
    if (is_folder && !path.empty()) take_({.path = path, .is_folder = true});
    const std::int64_t begin = range_.begin + at_;
    skip(type >= '1' && type <= '6' ? 0 : bytes);
    if (type == '1')
      take_({.path = std::move(path), .link_to = normalised(long_link_.value_or(std::string(header_.text(157, 100))))});
    else if (is_file && !is_folder && !path.empty())
      take_({.path = std::move(path), .offset = begin, .bytes = bytes});
    long_path_.reset();
    long_link_.reset();
    long_size_.reset();
    is_sparse_ = false;
  }

  const FileRange& range_;
  const std::string& name_;
  const std::function<void(TarMember)>& take_;
  std::int64_t at_ = 0;  // position in the range
  Header header_{};
  std::optional<std::string> long_path_, long_link_;  // for the next member
  std::optional<std::int64_t> long_size_;
  bool is_sparse_ = false;
};

}  // namespace

void list_tar(const FileRange& range, const std::string& name, const std::function<void(TarMember)>& take) {
  TarReader(range, name, take).read();
}

}  // namespace lacuna
