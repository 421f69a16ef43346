#include "autograd/block_range.h"

#include <fmt/format.h>

#include <charconv>

namespace lacuna {

std::string BlockRange::path() const {
  return first == last ? fmt::format("{}.{}", sequence, first) : fmt::format("{}.{}-{}", sequence, first, last);
}

std::optional<BlockRange> parse_block_range(std::string_view text) {
  const std::size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) return {};
  BlockRange range{.sequence = std::string(text.substr(0, dot))};
  const char* const end = text.data() + text.size();
  const auto [dash, first_error] = std::from_chars(text.data() + dot + 1, end, range.first);
  if (first_error != std::errc() || dash == end || *dash != '-') return {};
  const auto [rest, last_error] = std::from_chars(dash + 1, end, range.last);
  const bool is_valid = last_error == std::errc() && rest == end && range.first >= 0 && range.last > range.first;
  if (!is_valid || range.path() != text) return {};  // rejects leading zeros
  return range;
}

bool lies_in(std::string_view path, std::string_view region) {
  const auto is_below = [path](std::string_view module) {
    return path.starts_with(module) && (path.size() == module.size() || path[module.size()] == '.');
  };
  if (is_below(region)) return true;
  const std::optional<BlockRange> range = parse_block_range(region);
  if (!range || !is_below(range->sequence) || path.size() == range->sequence.size()) return false;
  std::int64_t block = -1;
  const char* const end = path.data() + path.size();
  const auto [rest, failed] = std::from_chars(path.data() + range->sequence.size() + 1, end, block);
  return failed == std::errc() && (rest == end || *rest == '.') && block >= range->first && block <= range->last;
}

}  // namespace lacuna
