#include "data/text/tokenizers/unicode_versions.h"

#include "data/text/utf8.h"

#include <algorithm>
#include <span>

namespace lacuna {
namespace {

struct CodeRange {
  std::int32_t first, last;
};

bool is_in(std::span<const CodeRange> sorted, std::int32_t code) {
  const auto after = std::ranges::upper_bound(sorted, code, {}, &CodeRange::first);
  return after != sorted.begin() && code <= std::prev(after)->last;
}

constexpr CodeRange newer_punctuation[] = {
    {0x61d, 0x61d},     {0x9fd, 0x9fd},     {0xa76, 0xa76},     {0xc77, 0xc77},     {0xc84, 0xc84},
    {0x1b4e, 0x1b4f},   {0x1b7d, 0x1b7f},   {0x2e43, 0x2e4f},   {0x2e52, 0x2e5d},   {0x10d6e, 0x10d6e},
    {0x10ead, 0x10ead}, {0x10f55, 0x10f59}, {0x10f86, 0x10f89}, {0x113d4, 0x113d5}, {0x113d7, 0x113d8},
    {0x1144b, 0x1144f}, {0x1145a, 0x1145b}, {0x1145d, 0x1145d}, {0x11660, 0x1166c}, {0x116b9, 0x116b9},
    {0x1183b, 0x1183b}, {0x11944, 0x11946}, {0x119e2, 0x119e2}, {0x11a3f, 0x11a46}, {0x11a9a, 0x11a9c},
    {0x11a9e, 0x11aa2}, {0x11b00, 0x11b09}, {0x11be1, 0x11be1}, {0x11c41, 0x11c45}, {0x11c70, 0x11c71},
    {0x11ef7, 0x11ef8}, {0x11f43, 0x11f4f}, {0x11fff, 0x11fff}, {0x12ff1, 0x12ff2}, {0x16d6d, 0x16d6f},
    {0x16e97, 0x16e9a}, {0x16fe2, 0x16fe2}, {0x1e5ff, 0x1e5ff}, {0x1e95e, 0x1e95f}};

// Marks with a combining class, and characters with a decomposition.
constexpr CodeRange newer_forms[] = {
    {0x7fd, 0x7fd},     {0x897, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xc3c, 0xc3c},
    {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0xece, 0xece},     {0x1715, 0x1715},   {0x1abf, 0x1ace},
    {0x1df6, 0x1dfa},   {0x32ff, 0x32ff},   {0xa7f2, 0xa7f4},   {0xa82c, 0xa82c},   {0xab69, 0xab69},
    {0x10781, 0x10785}, {0x10787, 0x107b0}, {0x107b2, 0x107ba}, {0x10d24, 0x10d27}, {0x10d69, 0x10d6d},
    {0x10eab, 0x10eac}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070},
    {0x1133b, 0x1133b}, {0x11383, 0x113d3}, {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11930, 0x11930},
    {0x11938, 0x11938}, {0x1193d, 0x1193e}, {0x11943, 0x11943}, {0x119e0, 0x119e0}, {0x11a34, 0x11a34},
    {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d42}, {0x11d44, 0x11d45}, {0x11d97, 0x11d97},
    {0x11f41, 0x11f42}, {0x1611e, 0x1612f}, {0x16d63, 0x16d6a}, {0x16ff0, 0x16ff1}, {0x1ccd6, 0x1ccf9},
    {0x1e030, 0x1e06d}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef},
    {0x1e4ec, 0x1e4ef}, {0x1e5ee, 0x1e5ef}, {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9}};

// Numbers since Unicode 16, which are in the library's Digits.
constexpr CodeRange newer_numbers[] = {{0x10d40, 0x10d49}, {0x116d0, 0x116e3}, {0x11bf0, 0x11bf9},
                                       {0x11de0, 0x11de9}, {0x16130, 0x16139}, {0x16d70, 0x16d79},
                                       {0x16ff4, 0x16ff6}, {0x1ccf0, 0x1ccf9}, {0x1e5f1, 0x1e5fa}};

struct Members {
  std::string_view category, codes;  // hexadecimal
};
constexpr Members members_since_14[] = {
    {"Lu", "1c89 a7cb-a7cc a7da a7dc 10d50-10d65"},
    {"Ll", "1c8a a7cd a7db 10d70-10d85 1df25-1df2a"},
    {"Lm", "10d4e 10d6f 16d40-16d42 16d6b-16d6c 1e030-1e06d 1e4eb"},
    {"Lo",
     "105c0-105f3 10d4a-10d4d 10d4f 10ec2-10ec4 1123f-11240 11380-11389 1138b 1138e 11390-113b5 113b7 113d1 113d3 "
     "11bc0-11be0 11f02 11f04-11f10 11f12-11f33 1342f 13441-13446 13460-143fa 16100-1611d 16d43-16d6a 18cff 1b132 "
     "1b155 "
     "1e4d0-1e4ea 1e5d0-1e5ed 1e5f0 2b739 2ebf0-2ee5d 31350-323af"},
    {"M",
     "897 cf3 ece 10d69-10d6d 10efc-10eff 11241 113b8-113c0 113c2 113c5 113c7-113ca 113cc-113d0 113d2 113e1-113e2 "
     "11f00-11f01 11f03 11f34-11f3a 11f3e-11f42 11f5a 13440 13447-13455 1611e-1612f 1e08f 1e4ec-1e4ef 1e5ee-1e5ef"},
    {"Nd",
     "10d40-10d49 116d0-116e3 11bf0-11bf9 11f50-11f59 16130-16139 16d70-16d79 1ccf0-1ccf9 1e4f0-1e4f9 1e5f1-1e5fa"},
    {"No", "1d2c0-1d2d3"},
    {"P", "1b4e-1b4f 1b7f 10d6e 113d4-113d5 113d7-113d8 11b00-11b09 11be1 11f43-11f4f 16d6d-16d6f 1e5ff"}};

}  // namespace

bool is_library_punctuation(std::int32_t code) {
  constexpr std::int32_t no_longer[] = {0x166d, 0x111c9};
  if (code < newer_punctuation[0].first) return is_punctuation(code);
  return (is_punctuation(code) && !is_in(newer_punctuation, code)) || code == no_longer[0] || code == no_longer[1];
}

bool is_library_number(std::int32_t code) { return is_number(code) || is_in(newer_numbers, code); }

std::int32_t as_in_graphemes(std::int32_t code) {
  constexpr std::int32_t mark = 0x300;
  // Others make graphemes of 6 bytes or more, whose characters are replaced one by one.
  const bool is_newer = code == 0x897 || (code >= 0x1acf && code <= 0x1add) || (code >= 0x1ae0 && code <= 0x1aeb);
  return is_newer ? mark : code;
}

bool is_newer_than_forms(std::int32_t code) { return code >= newer_forms[0].first && is_in(newer_forms, code); }

std::string newer_members(std::string_view category) {
  std::string all;
  for (const Members& members : members_since_14) {
    if (category != members.category && category != members.category.substr(0, 1)) continue;
    std::string_view codes = members.codes;
    while (!codes.empty()) {
      const std::size_t end = std::min(codes.find(' '), codes.size());
      const std::string_view range = codes.substr(0, end);
      const std::size_t dash = std::min(range.find('-'), range.size());
      all.append("\\x{").append(range.substr(0, dash)).append("}");
      if (dash < range.size()) all.append("-\\x{").append(range.substr(dash + 1)).append("}");
      codes.remove_prefix(std::min(end + 1, codes.size()));
    }
  }
  return all;
}

}  // namespace lacuna
