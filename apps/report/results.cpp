#include "apps/report/results.h"

#include "core/ledger.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

namespace lacuna::apps {
namespace {

using nlohmann::ordered_json;
using Fields = std::vector<std::pair<std::string, ordered_json>>;

const ordered_json* find(const Fields& fields, std::string_view key) {
  const auto found = std::ranges::find(fields, key, &Fields::value_type::first);
  return found == fields.end() ? nullptr : &found->second;
}

std::string text_of(const ordered_json* value) {
  if (value == nullptr || value->is_null()) return {};
  return value->is_string() ? value->get<std::string>()
                            : value->dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void add_keys(std::vector<std::string>& keys, const Fields& fields) {
  for (const auto& [key, value] : fields)
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
}

std::vector<std::string> setting_keys(const std::vector<Result>& results) {
  std::vector<std::string> keys;
  for (const Result& result : results) add_keys(keys, result.settings);
  return keys;
}

std::vector<std::string> varying_keys(const std::vector<Result>& results) {
  std::vector<std::string> keys = setting_keys(results);
  std::erase_if(keys, [&](const std::string& key) {
    const std::string first = text_of(find(results.front().settings, key));
    return std::ranges::all_of(results, [&](const Result& r) { return text_of(find(r.settings, key)) == first; });
  });
  return keys;
}

std::string label_of(const Result& result, const std::vector<std::string>& keys) {
  std::string label;
  for (const std::string& key : keys) {
    const ordered_json* const value = find(result.settings, key);
    if (value == nullptr) continue;
    if (const std::string phrase = phrase_of(key, *value); !phrase.empty())
      label += (label.empty() ? "" : " · ") + phrase;
  }
  return label;
}

/// Whether it takes much of a line in any of them, as a list of patterns does.
bool is_long(const std::vector<Result>& results, const std::string& key) {
  constexpr std::size_t long_phrase = 24;
  return std::ranges::any_of(results, [&](const Result& r) { return label_of(r, {key}).size() > long_phrase; });
}

void flatten(const std::string& prefix, const ordered_json& value, Fields& out) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items())
      if (key != "saved_by_path") flatten(prefix.empty() ? key : fmt::format("{}.{}", prefix, key), inner, out);
  } else if (!value.is_array() && !value.is_null()) {
    out.emplace_back(prefix, value);
  }
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

/// A row of `to_csv`, cells by key.
Fields cells_of(const Result& result) {
  Fields cells{{"id", result.id}, {"status", result.failed ? "failed" : "done"}, {"exit_code", result.exit_code}};
  cells.insert(cells.end(), result.settings.begin(), result.settings.end());
  const Fields figures = flat_figures(result.figures);
  cells.insert(cells.end(), figures.begin(), figures.end());
  return cells;
}

struct Figure {
  std::string_view key, title;
  std::string (*format)(double);
};

std::string bytes(double value) {
  constexpr double countable = 0x1p62;  // whoever wrote the file may have meant anything
  return std::abs(value) < countable ? format_bytes(static_cast<std::int64_t>(value)) : fmt::format("{}", value);
}

const Figure main_figures[] = {
    {"memory.saved", "saved", bytes},
    {"memory.peak", "peak", bytes},
    {"process_peak", "process peak", bytes},
    {"samples_per_second", "samples/s", [](double v) { return fmt::format("{:.1f}", v); }},
    {"step_seconds.median", "step", [](double v) { return fmt::format("{:.1f} ms", 1e3 * v); }},
    {"train_loss", "train loss", [](double v) { return fmt::format("{:.4f}", v); }},
    {"val_accuracy", "val accuracy", [](double v) { return fmt::format("{:.2f} %", 100 * v); }},
};

/// Columns with their titles on top; those from `right` on are aligned to the right.
std::string aligned(const std::vector<std::vector<std::string>>& rows, std::size_t right) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += i < right ? fmt::format("{:<{}}  ", row[i], widths[i]) : fmt::format("{:>{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::map<std::filesystem::path, std::string> shortest_names(const std::set<std::filesystem::path>& paths) {
  using Path = std::filesystem::path;
  const auto tail = [](const Path& path, std::ptrdiff_t parts) {
    Path end;
    for (auto part = std::prev(path.end(), std::min(parts, std::distance(path.begin(), path.end())));
         part != path.end(); ++part)
      end /= *part;
    return end;
  };
  std::map<Path, std::string> names;
  for (const Path& path : paths) {
    std::ptrdiff_t parts = 1;
    const auto alike = [&](const Path& other) { return tail(other, parts) == tail(path, parts); };
    while (tail(path, parts) != path && std::ranges::count_if(paths, alike) > 1) ++parts;
    names[path] = tail(path, parts).string();
  }
  return names;
}

void keep_varying_settings(std::vector<Result>& results) {
  if (results.empty()) return;
  const std::vector<std::string> keys = varying_keys(results);
  for (Result& result : results)
    std::erase_if(result.settings,
                  [&](const auto& setting) { return std::ranges::find(keys, setting.first) == keys.end(); });
}

std::string phrase_of(const std::string& key, const ordered_json& value) {
  const std::string text = text_of(&value);
  if (text.empty() || text == "[]" || text == "{}") return {};
  const std::string last = key.substr(key.rfind('.') + 1);
  // Names say what they are, and so does a section with its keys.
  const bool is_section = text.front() == '{';
  const bool is_name = last == "name" || key == "memory.policy" || key == "config" || key == "state";
  return is_name || is_section ? text : last + " " + text;
}

void set_labels(std::vector<Result>& results) {
  if (results.empty()) return;
  const std::vector<std::string> keys = varying_keys(results);
  for (Result& result : results) {
    result.label = label_of(result, keys);
    if (result.label.empty()) result.label = text_of(find(result.settings, "config"));
  }
}

void set_short_labels(std::vector<Result>& results) {
  if (results.empty()) return;
  std::vector<std::string> chosen, others;
  for (const std::string& key : varying_keys(results))
    (key == "memory.policy" || key == "memory.budget" || key == "memory.bits" ? chosen : others).push_back(key);
  const std::vector<std::string> in_order = others;
  // First what bytes follow from, and what is short.
  std::ranges::stable_partition(
      others, [](const std::string& key) { return key.starts_with("memory.") || key == "train.batch_size"; });
  std::ranges::stable_partition(others, [&](const std::string& key) { return !is_long(results, key); });
  const auto told_apart = [&](const std::vector<std::string>& keys) {
    std::set<std::string> labels;
    for (const Result& result : results) labels.insert(label_of(result, keys));
    return labels.size();
  };
  constexpr std::size_t most = 3;
  std::vector<std::string> more;
  const auto is_in_more = [&](const std::string& key) { return std::ranges::find(more, key) != more.end(); };
  std::vector<std::string> all = chosen;
  for (const std::string& key : others) {  // what tells apart which all before do not
    all.push_back(key);
    if (more.size() < most && told_apart(all) > told_apart({all.begin(), all.end() - 1}))
      more.push_back(key);
    else
      all.pop_back();
  }
  for (const std::string& key : others)
    if (more.size() < most && !is_in_more(key) && !is_long(results, key)) more.push_back(key);
  std::ranges::copy_if(in_order, std::back_inserter(chosen), is_in_more);
  for (Result& result : results) result.label = label_of(result, chosen);
}

Fields flat_figures(const ordered_json& figures) {
  Fields out;
  flatten({}, figures, out);
  return out;
}

std::string to_csv(const std::vector<Result>& results) {
  std::vector<Fields> rows;
  std::vector<std::string> keys{"id", "status", "exit_code"};
  for (const std::string& key : setting_keys(results)) keys.push_back(key);
  for (const Result& result : results) add_keys(keys, rows.emplace_back(cells_of(result)));
  keys.insert(keys.end(), {"error", "warnings"});
  for (std::size_t i = 0; i < results.size(); ++i) {
    rows[i].emplace_back("error", results[i].error);
    rows[i].emplace_back("warnings", results[i].warnings);
  }
  std::string text;
  const auto write_row = [&](auto&& cell) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (i > 0) text += ',';
      text += csv_field(cell(keys[i]));
    }
    text += "\r\n";
  };
  write_row([](const std::string& key) { return key; });
  for (const Fields& row : rows) write_row([&](const std::string& key) { return text_of(find(row, key)); });
  return text;
}

std::string to_table(const std::vector<Result>& results, const std::string& what_each_is) {
  if (results.empty()) return {};
  const std::vector<std::string> keys = varying_keys(results);
  std::vector<Fields> figures;
  for (const Result& result : results) figures.push_back(flat_figures(result.figures));
  std::vector<const Figure*> columns;
  for (const Figure& figure : main_figures)
    if (std::ranges::any_of(figures, [&](const Fields& f) { return find(f, figure.key) != nullptr; }))
      columns.push_back(&figure);

  std::vector<std::vector<std::string>> rows{keys};
  if (keys.empty()) rows.front().push_back(what_each_is);
  const std::size_t settings = rows.front().size();
  for (const Figure* const column : columns) rows.front().emplace_back(column->title);
  for (std::size_t i = 0; i < results.size(); ++i) {
    std::vector<std::string>& row = rows.emplace_back();
    for (const std::string& key : keys) row.push_back(text_of(find(results[i].settings, key)));
    if (keys.empty()) row.push_back(results[i].label);
    for (const Figure* const column : columns) {
      const ordered_json* const value = find(figures[i], column->key);
      // What is no number was not written by this program: it is shown as it is.
      row.push_back(value == nullptr     ? results[i].failed ? "failed" : ""
                    : value->is_number() ? column->format(value->get<double>())
                                         : text_of(value));
    }
  }
  return aligned(rows, settings);
}

}  // namespace lacuna::apps
