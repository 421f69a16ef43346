// Tar archives for tests.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace lacuna::test {

/// A header and the content, up to whole blocks.
inline std::string tar_member(std::string_view name, std::string_view content, char type = '0',
                              std::string_view link = {}) {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, std::string_view text) { header.replace(at, text.size(), text); };
  char number[16];
  put(0, name.substr(0, 100));
  put(100, "0000644");
  std::snprintf(number, sizeof number, "%011zo", type == '1' ? std::size_t{0} : content.size());
  put(124, number);
  put(148, "        ");
  header[156] = type;
  put(157, link);
  put(257, std::string_view("ustar\00000", 8));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(number, sizeof number, "%06o", sum);
  put(148, std::string_view(number, 7));
  std::string member = header + std::string(content);
  member.resize((member.size() + 511) / 512 * 512, '\0');
  return member;
}

inline std::string tar_end() { return std::string(1024, '\0'); }

}  // namespace lacuna::test
