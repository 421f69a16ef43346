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

const ordered_json* find(const NamedCells& fields, std::string_view key) {
  const auto found = std::ranges::find(fields, key, &NamedCells::value_type::first);
  return found == fields.end() ? nullptr : &found->second;
}

std::string text_of(const ordered_json* value) {
  if (value == nullptr || value->is_null()) return {};
  return value->is_string() ? value->get<std::string>()
                            : value->dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void add_keys(std::vector<std::string>& keys, const NamedCells& fields) {
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

void flatten(const std::string& prefix, const ordered_json& value, NamedCells& out) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items())
      if (key != "saved_by_path" && key != "timeline")
        flatten(prefix.empty() ? key : fmt::format("{}.{}", prefix, key), inner, out);
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
NamedCells cells_of(const Result& result) {
  NamedCells cells{{"id", result.id}, {"status", name_of(result.state)}};
  if (result.state != Result::State::unfinished) cells.emplace_back("exit_code", result.exit_code);
  cells.insert(cells.end(), result.settings.begin(), result.settings.end());
  const NamedCells figures = flat_figures(result.figures);
  cells.insert(cells.end(), figures.begin(), figures.end());
  return cells;
}

struct Column {
  std::string key, title;
  std::string (*format)(double);
  std::optional<std::string> metric{};  // whose figures alone the column has; none: all
};

const ordered_json* figure_in(const NamedCells& figures, const Column& column) {
  if (column.metric && text_of(find(figures, "best.metric")) != *column.metric) return nullptr;
  return find(figures, column.key);
}

std::string bytes(double value) {
  constexpr double countable = 0x1p62;  // another program may have written the file
  return std::abs(value) < countable ? format_bytes(static_cast<std::int64_t>(value)) : fmt::format("{}", value);
}
std::string share(double value) { return fmt::format("{:.2f} %", 100 * value); }
std::string number(double value) { return fmt::format("{:.4f}", value); }
std::string rate(double value) { return fmt::format("{:.1f}", value); }
std::string milliseconds(double value) { return fmt::format("{:.1f} ms", 1e3 * value); }
std::string duration(double value) {
  constexpr double minute = 60, hour = 3600;
  return value < minute ? fmt::format("{:.1f} s", value)
         : value < hour ? fmt::format("{:.1f} min", value / minute)
                        : fmt::format("{:.1f} h", value / hour);
}

/// The best metric of a run first, then its last ones. Different metrics have a column each.
std::vector<Column> columns_of(const std::vector<NamedCells>& figures) {
  std::vector<std::string> keys, metrics;
  for (const NamedCells& all : figures) {
    add_keys(keys, all);
    if (find(all, "best.value") == nullptr) continue;
    const std::string metric = text_of(find(all, "best.metric"));
    if (std::ranges::find(metrics, metric) == metrics.end()) metrics.push_back(metric);
  }
  const auto format_of = [](const std::string& name) { return name.ends_with("accuracy") ? share : number; };
  std::vector<Column> columns;
  const auto add = [&](const std::string& key, std::string title, std::string (*format)(double)) {
    if (std::ranges::find(keys, key) != keys.end()) columns.push_back({key, std::move(title), format});
  };
  const auto words = [](std::string text) {
    std::ranges::replace(text, '_', ' ');
    return text;
  };
  for (const std::string& metric : metrics)
    columns.push_back({"best.value", words("best val " + metric), format_of(metric), metric});
  const auto is_main = [&](const std::string& key) {
    const auto has_name = [&](const std::string& metric) { return key == "val_" + metric; };
    return metrics.empty() || key == "val_loss" || std::ranges::any_of(metrics, has_name);
  };
  for (const std::string& key : keys)
    if (key.starts_with("val_") && is_main(key))
      add(key, metrics.empty() ? words(key) : "last " + words(key), format_of(key));
  add("train_loss", "train loss", number);
  add("memory.peak", "peak", bytes);
  add("memory.saved", "saved", bytes);
  add("process_peak", "process peak", bytes);
  add("samples_per_second", "samples/s", rate);
  add("step_seconds.median", "step", milliseconds);
  add("seconds", "time", duration);
  return columns;
}

struct Statistic {
  std::size_t count = 0;
  double mean = 0, deviation = 0;
};

Statistic statistic_of(const Group& group, const std::vector<NamedCells>& figures, const Column& column) {
  Statistic all;
  double squares = 0;
  for (const std::size_t member : group.members) {
    const ordered_json* const value = figure_in(figures[member], column);
    if (value == nullptr || !value->is_number()) continue;
    const double before = value->get<double>() - all.mean;
    all.mean += before / static_cast<double>(++all.count);
    squares += before * (value->get<double>() - all.mean);  // Welford
  }
  if (all.count > 1) all.deviation = std::sqrt(squares / static_cast<double>(all.count - 1));
  return all;
}

std::string cell_of(const Group& group, const std::vector<NamedCells>& figures, const std::vector<Result>& results,
                    const Column& column) {
  const Statistic all = statistic_of(group, figures, column);
  if (all.count > 1 && all.deviation > 0)
    return fmt::format("{} ± {}", column.format(all.mean), column.format(all.deviation));
  if (all.count > 0) return column.format(all.mean);
  const Result& result = results[group.members.front()];
  const ordered_json* const value = figure_in(figures[group.members.front()], column);
  if (value != nullptr) return text_of(value);  // another program wrote it
  return result.state == Result::State::failed ? "failed" : "";
}

/// Sets the best row: by the metric of the run's task, else by the loss, the speed, or the peak; of equal ones, that
/// with the lower peak. None where the runs have different metrics.
void choose_best(Table& table, const std::vector<NamedCells>& figures, const std::vector<Column>& columns) {
  auto column = columns.end();
  for (const char* const key : {"best.value", "val_loss", "samples_per_second", "memory.peak"})
    if (column == columns.end()) column = std::ranges::find(columns, key, &Column::key);
  if (column == columns.end() || std::ranges::count(columns, "best.value", &Column::key) > 1) return;
  table.goal = column->key;
  bool higher = table.goal == "samples_per_second";
  for (const NamedCells& all : figures)
    if (const ordered_json* const given = find(all, "best.higher_is_better"); given && table.goal == "best.value")
      higher = given->is_boolean() && given->get<bool>();
  const auto peak = std::ranges::find(columns, "memory.peak", &Column::key);
  const auto peak_of = [&](std::size_t group) {
    return peak == columns.end() ? 0 : statistic_of(table.groups[group], figures, *peak).mean;
  };
  double best = 0;
  bool is_one_better = false;
  for (std::size_t i = 0; i < table.groups.size(); ++i) {
    const Statistic all = statistic_of(table.groups[i], figures, *column);
    if (all.count == 0) continue;
    if (table.best) is_one_better |= all.mean != best;
    const bool is_better = higher ? all.mean > best : all.mean < best;
    if (table.best && !is_better && !(all.mean == best && peak_of(i) < peak_of(*table.best))) continue;
    table.best = i;
    best = all.mean;
  }
  if (!is_one_better) return table.best.reset();
  const auto at = static_cast<std::size_t>(column - columns.begin()) + table.texts;
  table.best_text =
      fmt::format("{}: {} {}", table.groups[*table.best].label, column->title, table.rows[*table.best + 1][at]);
}

/// Characters of UTF-8, as a terminal counts them.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
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
  std::string last = key.substr(key.rfind('.') + 1);
  // A name needs no key in front of it, nor does a whole section.
  const bool is_section = text.front() == '{';
  const bool is_name = last == "name" || key == "memory.policy" || key == "config";
  std::ranges::replace(last, '_', ' ');
  return is_name || is_section ? text : last + " " + text;
}

void set_labels(std::vector<Result>& results) {
  if (results.empty()) return;
  std::vector<std::string> keys = varying_keys(results);
  constexpr std::size_t few = 4;
  if (keys.size() > few) {
    std::vector<std::string> candidates = keys, chosen;
    std::stable_partition(candidates.begin(), candidates.end(),
                          [](const std::string& key) { return key.starts_with("memory."); });
    std::stable_partition(candidates.begin(), candidates.end(),
                          [&](const std::string& key) { return !is_long(results, key); });
    std::size_t told_apart = 1;
    for (const std::string& key : candidates) {
      chosen.push_back(key);
      std::set<std::string> labels;
      for (const Result& result : results) labels.insert(label_of(result, chosen));
      if (labels.size() > told_apart)
        told_apart = labels.size();
      else
        chosen.pop_back();
    }
    std::erase_if(keys, [&](const std::string& key) { return std::ranges::find(chosen, key) == chosen.end(); });
  }
  for (Result& result : results) {
    result.label = label_of(result, keys);
    if (result.label.empty()) result.label = text_of(find(result.settings, "config"));
  }
}

std::vector<Group> groups_of(const std::vector<Result>& results) {
  constexpr std::string_view seed = "train.seed";
  std::vector<Result> firsts;  // of each group, without the seed
  std::vector<Group> groups;
  std::vector<std::set<std::string>> seeds;
  std::map<std::string, std::size_t> open;  // the group that takes further results with these settings
  for (std::size_t i = 0; i < results.size(); ++i) {
    Result one = results[i];
    const std::string own = text_of(find(one.settings, seed));
    std::erase_if(one.settings, [&](const auto& setting) { return setting.first == seed; });
    std::string settings;
    for (const auto& [key, value] : one.settings) settings += fmt::format("{}={}\n", key, text_of(&value));
    const bool is_done = one.state == Result::State::done;
    const auto found = open.find(settings);
    if (is_done && found != open.end() && seeds[found->second].insert(own).second) {
      groups[found->second].members.push_back(i);
      continue;
    }
    if (is_done) open[settings] = groups.size();
    groups.push_back({one.label, {i}});
    seeds.push_back({own});
    firsts.push_back(std::move(one));
  }
  set_labels(firsts);
  for (std::size_t i = 0; i < groups.size(); ++i)
    if (const std::size_t count = groups[i].members.size(); count > 1)
      groups[i].label = fmt::format("{}{}{} seeds", firsts[i].label, firsts[i].label.empty() ? "" : " · ", count);
  return groups;
}

std::string name_of(Result::State state) {
  return state == Result::State::done ? "done" : state == Result::State::failed ? "failed" : "unfinished";
}

NamedCells flat_figures(const ordered_json& figures) {
  NamedCells out;
  flatten({}, figures, out);
  return out;
}

std::string to_csv(const std::vector<Result>& results) {
  std::vector<NamedCells> rows;
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
  for (const NamedCells& row : rows) write_row([&](const std::string& key) { return text_of(find(row, key)); });
  return text;
}

Table table_of(const std::vector<Result>& results, const std::string& names) {
  Table table;
  table.groups = groups_of(results);
  if (results.empty()) return table;
  const bool has_seeds = table.groups.size() < results.size();
  std::vector<std::string> keys = varying_keys(results);
  if (has_seeds) std::erase(keys, "train.seed");
  std::vector<NamedCells> figures;
  for (const Result& result : results) figures.push_back(flat_figures(result.figures));
  const std::vector<Column> columns = columns_of(figures);
  std::vector<std::string>& titles = table.rows.emplace_back(keys);
  const bool has_names = !names.empty() || keys.empty();
  if (has_names) titles.insert(titles.begin(), names.empty() ? "case" : names);
  if (has_seeds) titles.emplace_back("seeds");
  table.texts = titles.size();
  for (const Column& column : columns) titles.push_back(column.title);
  for (const Group& group : table.groups) {
    const Result& first = results[group.members.front()];
    std::vector<std::string>& row = table.rows.emplace_back();
    if (has_names) row.push_back(group.label);
    for (const std::string& key : keys) row.push_back(text_of(find(first.settings, key)));
    if (has_seeds) row.push_back(std::to_string(group.members.size()));
    for (const Column& column : columns) row.push_back(cell_of(group, figures, results, column));
  }
  choose_best(table, figures, columns);
  return table;
}

std::string to_text(const Table& table) {
  if (table.rows.empty()) return {};
  std::vector<std::size_t> widths(table.rows.front().size());
  for (const auto& row : table.rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  std::string text;
  for (const auto& row : table.rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - width_of(row[i]), ' ');
      line += i < table.texts ? row[i] + space + "  " : space + row[i] + "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return table.best ? text + "best: " + table.best_text + "\n" : text;
}

}  // namespace lacuna::apps
