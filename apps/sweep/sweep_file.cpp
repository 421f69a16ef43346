#include "apps/sweep/sweep_file.h"

#include "apps/command.h"
#include "apps/config/assignment.h"
#include "apps/config/paths.h"
#include "apps/config/schema.h"
#include "apps/config/yaml.h"
#include "apps/sweep/random_search.h"
#include "core/error.h"

#include <fmt/ranges.h>

#include <xxhash.h>
#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <system_error>
#include <utility>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_cases = 10'000;

struct SweepOutput {
  fs::path dir;

  static Fields fields() { return {field("dir", &SweepOutput::dir, required, "folder of the sweep's results")}; }
};

/// The keys of a sweep file.
struct SweepFile {
  std::string command;
  Tree config, arguments, random, cases, output;
  std::vector<TreeEntry> overrides, grid;
  std::vector<std::int64_t> seeds;

  static Fields fields() {
    using F = SweepFile;
    return {field("command", &F::command, one_of({"plan", "bench", "train"}), required, "command of each case"),
            field("config", &F::config, "a configuration file, or a list of files that are merged"),
            field("arguments", &F::arguments, "options of the command"),
            field("overrides", &F::overrides, "keys of the configuration with a value for all cases"),
            field("random", &F::random, "keys with distributions to draw values from"),
            field("grid", &F::grid, "keys with lists of values to combine"),
            field("cases", &F::cases, "a list of cases, each with keys and values"),
            field("seeds", &F::seeds, "values of train.seed"),
            field("output", &F::output, "the results' folder")};
  }
};

/// Keys of the configuration with values; `config` is one, too.
using Row = std::vector<TreeEntry>;

/// The files of a `config`: one, or a list.
std::span<const Tree> files_in(const Tree& node) {
  return node.kind == Tree::Kind::list ? std::span(node.items) : std::span(&node, 1);
}

/// Replaces the entry of the same key, or adds one.
void put(Row& row, const TreeEntry& entry) {
  const auto found = std::ranges::find(row, entry.key, &TreeEntry::key);
  if (found == row.end())
    row.push_back(entry);
  else
    *found = entry;
}

SweepOverride override_of(const TreeEntry& entry) {
  const std::string yaml = to_yaml(entry.value);
  return {entry.key, yaml, entry.value.kind == Tree::Kind::scalar ? entry.value.text : yaml, number_in(entry.value)};
}

class SweepReader {
 public:
  SweepReader(const fs::path& path, const Tree& root, Problems& problems)
      : path_(path), root_(root), problems_(problems) {}

  Sweep read(const std::vector<std::string>& overrides) {
    if (root_.find("command") == nullptr && root_.find("model") != nullptr)
      reject(
          "{0}: this is a configuration, not a sweep, which has a command and cases: `lacuna train -c {0}` trains with "
          "it",
          path_.string());
    read_map(root_, SweepFile::fields(), &file_, "a sweep", problems_);
    sweep_.command = file_.command;
    SweepOutput output{.dir = fs::path("runs") / "sweeps" / path_.stem()};
    if (file_.output.kind != Tree::Kind::null)
      read_map(file_.output, SweepOutput::fields(), &output, "output", problems_);
    sweep_.folder = expand_home(output.dir);
    read_arguments();
    read_common();
    std::vector<Row> rows = read_random();
    for (const std::vector<Row>& inner : {read_grid(), read_cases(), read_seeds()}) rows = product(rows, inner);
    for (const std::string& override : overrides)
      if (const std::optional<TreeEntry> entry = parse_assignment(override, problems_)) set_for_all(rows, *entry);
    problems_.refuse_if_any();
    for (const Row& row : rows) add_case(row);
    problems_.refuse_if_any();
    return std::move(sweep_);
  }

 private:
  void read_arguments() {
    const Tree& node = file_.arguments;
    if (node.kind == Tree::Kind::null) return;
    if (node.kind != Tree::Kind::list) return problems_.add_expected(node, "arguments", "a list, as [--steps, 20]");
    for (const Tree& item : node.items) {
      // Options that the sweep sets itself, or that give several results per case.
      for (const std::string_view own : {"--json", "-c", "--config", "--policies", "--resume", "--overwrite"})
        if (item.text == own || item.text.starts_with(std::string(own) + "=") ||
            (own == "-c" && item.text.starts_with(own)))  // -cFILE is -c FILE
          problems_.add(item.where, fmt::format("arguments: {} cannot be given here; configurations belong under "
                                                "`config`, values under `overrides`, `grid` or `cases`",
                                                own));
      if (item.kind != Tree::Kind::scalar)
        problems_.add_expected(item, "arguments", "text");
      else if (!item.text.starts_with("-") && item.text.find('=') != std::string::npos)
        problems_.add(item.where, fmt::format("arguments: {} is a value of the configuration, which belongs under "
                                              "`overrides`, `grid` or `cases`",
                                              item.text));
      sweep_.arguments.push_back(item.text);
    }
    if (sweep_.command.empty()) return;
    std::vector<std::string> words{sweep_.command, "-c", "CONFIG"};
    words.insert(words.end(), sweep_.arguments.begin(), sweep_.arguments.end());
    if (const std::string problem = command_line_problem(std::move(words)); !problem.empty())
      problems_.add(node.where, fmt::format("arguments: {}", problem));
  }

  /// Checks that `entry` names a key of a section, or a section with keys and values (a list of them in a grid).
  bool check_key(const TreeEntry& entry) {
    if (entry.key == "config") return true;
    const std::size_t dot = entry.key.find('.');
    const Section* const section = find_section(entry.key.substr(0, dot));
    const std::size_t before = problems_.count();
    if (section == nullptr)
      problems_.add_unknown(entry.where, "section", entry.key.substr(0, dot), section_names());
    else if (dot != std::string::npos)
      check_name(*section, entry.key.substr(dot + 1), entry.where);
    else
      for (const Tree& item : files_in(entry.value)) {
        if (item.kind != Tree::Kind::map)
          problems_.add(item.where, fmt::format("expected keys and values of the section {0}, as {{NAME: ...}}, or one "
                                                "key as {0}.NAME, got {1}",
                                                section->name, describe(item)));
        for (const TreeEntry& key : item.entries) check_name(*section, key.key, key.where);
      }
    return problems_.count() == before;
  }

  void check_name(const Section& section, const std::string& name, const Location& where) {
    const Names known = section.known_keys();
    if (section.name == "output" && name == "dir")
      problems_.add(where,
                    "output.dir: a case that trains has a run folder of its own inside the sweep's, which `output: "
                    "{dir: FOLDER}` of the sweep sets, or output.dir=FOLDER on the command line");
    else if (std::ranges::find(known, name.substr(0, name.find('.'))) == known.end())
      problems_.add_unknown(where, fmt::format("key in section {}:", section.name), name, known);
  }

  void add(Row& row, const TreeEntry& entry, const Tree& value) {
    if (value.kind == Tree::Kind::invalid) return;
    if (entry.key == "config") check_files(value);
    row.push_back({entry.key, entry.where, value});
  }

  void check_files(const Tree& node) {
    const std::span<const Tree> files = files_in(node);
    if (files.empty() || !std::ranges::all_of(files, [](const Tree& item) { return item.kind == Tree::Kind::scalar; }))
      return problems_.add_expected(node, "config",
                                    "a file, or a list of files of which each is laid over those before it");
    std::error_code ignored;  // as of a name that is too long
    for (const Tree& item : files)
      if (const fs::path file = path_.parent_path() / item.text; !fs::is_regular_file(file, ignored))
        problems_.add(item.where, fmt::format("config: there is no file {}", file.string()));
  }

  void read_common() {
    if (const TreeEntry* const config = root_.find("config")) add(common_, *config, config->value);
    for (const TreeEntry& entry : file_.overrides)
      if (entry.key == "config")
        problems_.add(entry.where, "overrides: `config` stands beside `overrides`, not in it");
      else if (check_key(entry))
        add(common_, entry, entry.value);
  }

  /// Sets a key for all cases, which must not set it themselves.
  void set_for_all(const std::vector<Row>& rows, const TreeEntry& entry) {
    if (entry.key == "output.dir") {
      SweepOutput output;
      read_field(SweepOutput::fields().front(), entry.key, entry.value, &output, problems_);
      sweep_.folder = expand_home(output.dir);
      return;
    }
    const auto overlaps = [&](const TreeEntry& set) {
      return set.key == entry.key || set.key.starts_with(entry.key + ".") || entry.key.starts_with(set.key + ".");
    };
    if (std::ranges::any_of(rows, [&](const Row& row) { return std::ranges::any_of(row, overlaps); }))
      problems_.add(entry.where, fmt::format("{} cannot be set: cases of the sweep set it themselves", entry.key));
    else if (check_key(entry))
      add(common_, entry, entry.value);
  }

  /// Checks a key that `part` varies, which no other part may vary.
  bool claim(const TreeEntry& entry, const std::string& part) {
    if (!check_key(entry)) return false;
    const auto& [owner, line] = varied_.try_emplace(entry.key, part, entry.where.line).first->second;
    if (owner != part)
      problems_.add(entry.where,
                    fmt::format("the key \"{}\" stands under `{}` already, in line {}", entry.key, owner, line));
    return owner == part;
  }

  /// A row for each value of a list.
  std::vector<Row> column(const TreeEntry& entry, const std::string& part) {
    std::vector<Row> rows;
    if (claim(entry, part))
      for (const Tree& item :
           items_of(entry.value, fmt::format("{}.{}", part, entry.key), "a list of values", problems_))
        add(rows.emplace_back(), entry, item);
    return rows.empty() ? std::vector<Row>{{}} : rows;
  }

  std::vector<Row> read_grid() {
    std::vector<Row> rows{{}};
    for (const TreeEntry& entry : file_.grid) rows = product(rows, column(entry, "grid"));
    return rows;
  }

  std::vector<Row> read_seeds() {
    const TreeEntry* const seeds = root_.find("seeds");
    if (seeds == nullptr || seeds->value.kind != Tree::Kind::list) return {{}};
    if (sweep_.command == "plan") problems_.add(seeds->where, "seeds: a plan does not depend on the seed");
    return column({"train.seed", seeds->where, seeds->value}, "seeds");
  }

  std::vector<Row> read_cases() {
    if (root_.find("cases") == nullptr) return {{}};
    std::vector<Row> rows;
    for (const Tree& item : items_of(file_.cases, "cases", "a list of cases, each with keys and values", problems_)) {
      Row& row = rows.emplace_back();
      if (item.kind != Tree::Kind::map) problems_.add_expected(item, "cases", "keys with values");
      for (const TreeEntry& entry : item.entries)
        if (claim(entry, "cases")) add(row, entry, entry.value);
    }
    return rows;
  }

  /// A row for each trial; trials that repeat an earlier one's values are left out.
  std::vector<Row> read_random() {
    if (root_.find("random") == nullptr) return {{}};
    const RandomSearch search = read_random_search(file_.random, problems_);
    std::vector<Row> rows(static_cast<std::size_t>(std::max<std::int64_t>(1, search.trials)));
    for (const RandomSearch::Value& value : search.values) {
      Tree choices(value.distribution.choices);
      choices.where = value.entry.where;
      if (!claim({value.entry.key, value.entry.where, choices}, "random")) continue;
      for (std::size_t trial = 0; trial < rows.size(); ++trial)
        add(rows[trial], value.entry, search.draw(value, static_cast<std::int64_t>(trial)));
    }
    std::set<std::string> drawn;
    sweep_.repeated_trials = std::erase_if(rows, [&](const Row& row) {
      std::string values;
      for (const TreeEntry& entry : row) values += to_yaml(entry.value) + "\n";
      return !drawn.insert(values).second;
    });
    return rows;
  }

  std::vector<Row> product(const std::vector<Row>& outer, const std::vector<Row>& inner) {
    if (std::ssize(outer) * std::ssize(inner) > most_cases) {
      problems_.add(root_.where, fmt::format("more than {} cases", most_cases));
      return outer;
    }
    std::vector<Row> rows;
    for (const Row& one : outer)
      for (const Row& other : inner) {
        rows.push_back(one);
        rows.back().insert(rows.back().end(), other.begin(), other.end());
      }
    return rows;
  }

  /// Refuses a whole section after a key of it, which it would drop.
  void refuse_drop(const TreeEntry& section, std::span<const TreeEntry> before) {
    if (section.value.kind != Tree::Kind::map) return;
    for (const TreeEntry& one : before) {
      if (!one.key.starts_with(section.key + ".")) continue;
      const std::string message = fmt::format(
          "{0}: given whole, the section replaces all that is set of it, and {1} of {2} is dropped; set the keys of "
          "{0} one by one",
          section.key, one.key, one.where.line == 0 ? "the command line" : fmt::format("line {}", one.where.line));
      if (dropped_.insert(to_string(section.value.where) + message).second) problems_.add(section.value.where, message);
    }
  }

  void add_case(const Row& row) {
    Row all, settings;
    for (const Row* const part : {&std::as_const(common_), &row})
      for (const TreeEntry& entry : *part) put(all, entry);
    SweepCase one;
    for (const TreeEntry& entry : all) {
      if (entry.key == "config") {
        for (const Tree& file : files_in(entry.value))
          one.configurations.push_back((path_.parent_path() / file.text).lexically_normal().string());
        continue;
      }
      refuse_drop(entry, std::span(all.data(), &entry));
      one.overrides.push_back(override_of(entry));
      if (entry.value.kind != Tree::Kind::map || entry.key.find('.') != std::string::npos) {
        put(settings, entry);
        continue;
      }
      std::erase_if(settings, [&](const TreeEntry& setting) { return setting.key.starts_with(entry.key + "."); });
      for (const TreeEntry& key : entry.value.entries) put(settings, {entry.key + "." + key.key, key.where, key.value});
    }
    for (const TreeEntry& setting : settings) one.settings.push_back(override_of(setting));
    if (one.configurations.empty()) {
      problems_.add(root_.where,
                    "expected the key \"config\": a configuration file, several that go together as a list, or a list "
                    "of such under `grid`");
      problems_.refuse_if_any();
    }
    one.id = id_of(sweep_, one);
    if (!ids_.insert(one.id).second) {
      std::vector<std::string> words;
      for (const SweepOverride& override : one.overrides) words.push_back(override.key + "=" + override.value);
      problems_.add(root_.where, fmt::format("the case {} {} is there twice", fmt::join(one.configurations, " "),
                                             fmt::join(words, " ")));
    }
    sweep_.cases.push_back(std::move(one));
  }

  fs::path path_;
  const Tree& root_;
  Problems& problems_;
  SweepFile file_;
  Sweep sweep_;
  Row common_;
  std::set<std::string> ids_;
  std::map<std::string, std::pair<std::string, int>> varied_;  // the part that varies a key, and its line
  std::set<std::string> dropped_;                              // messages
};

}  // namespace

std::string id_of(const Sweep& sweep, const SweepCase& one) {
  std::vector<std::string> parts{sweep.command, std::to_string(sweep.arguments.size())};
  parts.insert(parts.end(), sweep.arguments.begin(), sweep.arguments.end());
  parts.push_back(std::to_string(one.configurations.size()));
  for (const std::string& file : one.configurations)
    parts.insert(parts.end(), {fs::path(file).filename().string(), read_text(file)});
  for (const SweepOverride& override : one.overrides) parts.push_back(override.key + "=" + override.value);
  // With the length before each part and the counts among them no two cases give one text.
  std::string text;
  for (const std::string& part : parts) text += fmt::format("{}:{}", part.size(), part);
  return fmt::format("{:016x}", XXH64(text.data(), text.size(), 0));
}

Sweep read_sweep(const fs::path& path, const std::vector<std::string>& overrides) {
  Problems problems;
  const Tree root = parse_yaml(read_text(path), {path.string(), 1, 1}, problems);
  return SweepReader(path, root, problems).read(overrides);
}

}  // namespace lacuna::apps
