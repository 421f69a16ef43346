#include "apps/sweep/sweep_file.h"

#include "apps/command.h"
#include "apps/config/paths.h"
#include "apps/config/schema.h"
#include "apps/config/yaml.h"
#include "apps/sweep/random_search.h"
#include "core/error.h"

#include <fmt/ranges.h>

#include <xxhash.h>
#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <utility>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_cases = 10'000;

const std::vector<std::string> file_keys{"command", "config", "arguments", "overrides", "random",
                                         "grid",    "cases",  "seeds",     "output"};
const std::vector<std::string> commands{"plan", "bench", "train"};

/// A value for one key; `config` is a key like any other.
struct Choice {
  const TreeEntry* key;
  const Tree* value;
};
using Row = std::vector<Choice>;

class SweepReader {
 public:
  SweepReader(const fs::path& path, const Tree& root, const std::vector<std::string>& overrides, Problems& problems)
      : path_(path), root_(root), problems_(problems) {
    for (const std::string& override : overrides)
      if (std::optional<TreeEntry> entry = parse_assignment(override, problems)) given_.push_back(std::move(*entry));
  }

  Sweep read() {
    if (root_.kind != Tree::Kind::map) {
      problems_.add(root_.where, fmt::format("expected the keys of a sweep, got {}", describe(root_)));
      problems_.refuse_if_any();
    }
    if (root_.find("command") == nullptr && root_.find("model") != nullptr)
      reject(
          "{0}: this is a configuration, not a sweep, which has a command and the cases that it is run on: `lacuna "
          "train -c {0}` trains by it",
          path_.string());
    for (const TreeEntry& entry : root_.entries)
      if (std::ranges::find(file_keys, entry.key) == file_keys.end())
        problems_.add_unknown(entry.where, "key of a sweep", entry.key, file_keys);
    read_command();
    read_arguments();
    read_output();
    read_common();
    std::vector<Row> rows = read_random();
    for (const std::vector<Row>& inner : {read_grid(), read_cases(), read_seeds()}) rows = product(rows, inner);
    read_given(rows);
    problems_.refuse_if_any();
    for (const Row& row : rows) add_case(row);
    problems_.refuse_if_any();
    return std::move(sweep_);
  }

 private:
  const Tree* value_of(std::string_view key) const {
    const TreeEntry* const entry = root_.find(key);
    return entry == nullptr ? nullptr : &entry->value;
  }

  void read_command() {
    const Tree* const node = value_of("command");
    if (node == nullptr) {
      problems_.add(root_.where, fmt::format("expected the key \"command\": one of {}", fmt::join(commands, ", ")));
    } else if (node->kind != Tree::Kind::scalar) {
      problems_.add_expected(*node, "command", fmt::format("one of {}", fmt::join(commands, ", ")));
    } else if (std::ranges::find(commands, node->text) == commands.end()) {
      problems_.add_unknown(node->where, "command of a sweep", node->text, commands);
    } else {
      sweep_.command = node->text;
    }
  }

  void read_arguments() {
    const Tree* const node = value_of("arguments");
    if (node == nullptr) return;
    if (node->kind != Tree::Kind::list) return problems_.add_expected(*node, "arguments", "a list, as [--steps, 20]");
    for (const Tree& item : node->items) {
      if (item.kind != Tree::Kind::scalar) {
        problems_.add_expected(item, "arguments", "text");
        continue;
      }
      // What the sweep gives itself, or what would make several results of one case.
      for (const std::string_view own : {"--json", "-c", "--config", "--policies", "--resume", "--overwrite"})
        if (item.text == own || item.text.starts_with(std::string(own) + "=") ||
            (own == "-c" && item.text.starts_with(own)))  // -cFILE is -c FILE
          problems_.add(item.where, fmt::format("arguments: {} cannot be given here; configurations belong under "
                                                "`config`, values under `overrides`, `grid` or `cases`",
                                                own));
      if (!item.text.starts_with("-") && item.text.find('=') != std::string::npos)
        problems_.add(item.where, fmt::format("arguments: {} is a value of the configuration, which belongs under "
                                              "`overrides`, `grid` or `cases`",
                                              item.text));
      sweep_.arguments.push_back(item.text);
    }
    if (sweep_.command.empty()) return;
    std::vector<std::string> words{sweep_.command, "-c", "CONFIG"};
    words.insert(words.end(), sweep_.arguments.begin(), sweep_.arguments.end());
    if (const std::string problem = command_line_problem(std::move(words)); !problem.empty())
      problems_.add(node->where, fmt::format("arguments: {}", problem));
  }

  void read_output() {
    sweep_.folder = fs::path("runs") / "sweeps" / path_.stem();
    const Tree* const node = value_of("output");
    if (node == nullptr) return;
    if (node->kind != Tree::Kind::map) return problems_.add_expected(*node, "output", "a section, as {dir: FOLDER}");
    for (const TreeEntry& entry : node->entries) {
      if (entry.key != "dir") {
        problems_.add_unknown(entry.where, "key in section output of a sweep:", entry.key, {"dir"});
      } else {
        read_folder(entry.value);
      }
    }
  }

  void read_folder(const Tree& node) {
    if (node.kind != Tree::Kind::scalar || node.text.empty())
      return problems_.add_expected(node, "output.dir", "a folder");
    sweep_.folder = expand_home(node.text);
  }

  /// Whether `entry` names something that a case can set: a key of a section, or a section with keys and values, of
  /// which a grid has a list.
  bool check_key(const TreeEntry& entry) {
    if (entry.key == "config") return true;
    const std::size_t dot = entry.key.find('.');
    const std::string section = entry.key.substr(0, dot);
    const std::size_t before = problems_.count();
    if (find_section(section) == nullptr)
      problems_.add_unknown(entry.where, "section", section, section_names());
    else if (dot != std::string::npos)
      check_name(section, entry.key.substr(dot + 1), entry.where);
    else if (entry.value.kind == Tree::Kind::list)
      for (const Tree& item : entry.value.items) check_section(section, item);
    else
      check_section(section, entry.value);
    return problems_.count() == before;
  }

  void check_section(const std::string& section, const Tree& values) {
    if (values.kind != Tree::Kind::map) {
      problems_.add(values.where,
                    fmt::format("expected keys and values of the section {0}, as {{NAME: ...}}, or one key "
                                "as {0}.NAME, got {1}",
                                section, describe(values)));
      return;
    }
    for (const TreeEntry& entry : values.entries) check_name(section, entry.key, entry.where);
  }

  void check_name(const std::string& section, const std::string& name, const Location& where) {
    if (section == "output" && name == "dir") {
      problems_.add(where,
                    "output.dir: a case that trains has a run folder of its own inside the sweep's, which `output: "
                    "{dir: FOLDER}` of the sweep sets, or output.dir=FOLDER on the command line");
    } else {
      const Names known = find_section(section)->known_keys();
      if (std::ranges::find(known, name.substr(0, name.find('.'))) == known.end())
        problems_.add_unknown(where, fmt::format("key in section {}:", section), name, known);
    }
  }

  /// Of a `config`: one file, or several of which each is laid over those before it.
  static std::span<const Tree> files_in(const Tree& node) {
    return node.kind == Tree::Kind::list ? std::span(node.items) : std::span(&node, 1);
  }

  void check_configuration(const Tree& node) {
    const std::span<const Tree> files = files_in(node);
    const auto is_file = [](const Tree& item) { return item.kind == Tree::Kind::scalar; };
    if (files.empty() || !std::ranges::all_of(files, is_file))
      return problems_.add_expected(node, "config",
                                    "a file, or a list of files of which each is laid over those before it");
    for (const Tree& item : files) {
      const fs::path file = path_.parent_path() / item.text;
      std::error_code failed;
      if (!fs::is_regular_file(file, failed))
        problems_.add(item.where, fmt::format("config: there is no file {}", file.string()));
    }
  }

  void add_choice(Row& row, const TreeEntry& key, const Tree& value) {
    if (value.kind == Tree::Kind::invalid) return;
    if (key.key == "config") check_configuration(value);
    row.push_back({&key, &value});
  }

  void read_common() {
    if (const TreeEntry* const config = root_.find("config")) add_choice(common_, *config, config->value);
    const Tree* const node = value_of("overrides");
    if (node == nullptr) return;
    if (node->kind != Tree::Kind::map) return problems_.add_expected(*node, "overrides", "keys with values");
    for (const TreeEntry& entry : node->entries) {
      if (entry.key == "config")
        problems_.add(entry.where, "overrides: `config` stands beside `overrides`, not in it");
      else if (check_key(entry))
        add_choice(common_, entry, entry.value);
    }
  }

  /// What the command line sets for all `rows`, none of which may set it itself.
  void read_given(const std::vector<Row>& rows) {
    for (const TreeEntry& entry : given_) {
      if (entry.key == "output.dir") {
        read_folder(entry.value);
        continue;
      }
      const auto lies_in = [](const std::string& key, const std::string& section) {
        return key == section || key.starts_with(section + ".");
      };
      const auto sets = [&](const Choice& choice) {
        return lies_in(choice.key->key, entry.key) || lies_in(entry.key, choice.key->key);
      };
      const auto set = [&](const Row& row) { return std::ranges::any_of(row, sets); };
      if (std::ranges::any_of(rows, set))
        problems_.add(entry.where, fmt::format("{} cannot be set: cases of the sweep set it themselves", entry.key));
      else if (check_key(entry))
        add_choice(common_, entry, entry.value);
    }
  }

  /// Whether no other part of the sweep varies the key.
  bool claim(const TreeEntry& entry, const std::string& part) {
    const auto [earlier, is_first] = varied_.try_emplace(entry.key, part, entry.where.line);
    if (!is_first && earlier->second.first != part)
      problems_.add(entry.where, fmt::format("the key \"{}\" stands under `{}` already, in line {}", entry.key,
                                             earlier->second.first, earlier->second.second));
    return is_first || earlier->second.first == part;
  }

  /// The entries of the section `key`, which may be absent.
  const std::vector<TreeEntry>& entries_of(std::string_view key, std::string_view wanted) {
    static const std::vector<TreeEntry> none;
    const Tree* const node = value_of(key);
    if (node == nullptr) return none;
    if (node->kind != Tree::Kind::map) problems_.add_expected(*node, key, wanted);
    return node->entries;
  }

  std::vector<Row> read_grid() {
    std::vector<Row> rows{{}};
    for (const TreeEntry& entry : entries_of("grid", "keys with lists of values")) {
      if (!check_key(entry) || !claim(entry, "grid")) continue;
      std::vector<Row> values;
      for (const Tree& item : items_of(entry.value, "grid." + entry.key, "a list of values", problems_))
        add_choice(values.emplace_back(), entry, item);
      if (!values.empty()) rows = product(rows, values);
    }
    return rows;
  }

  std::vector<Row> read_cases() {
    const Tree* const node = value_of("cases");
    if (node == nullptr) return {{}};
    std::vector<Row> rows;
    for (const Tree& item : items_of(*node, "cases", "a list of cases, each with keys and values", problems_)) {
      Row& row = rows.emplace_back();
      if (item.kind != Tree::Kind::map) problems_.add_expected(item, "cases", "keys with values");
      for (const TreeEntry& entry : item.entries)
        if (claim(entry, "cases") && check_key(entry)) add_choice(row, entry, entry.value);
    }
    return rows;
  }

  std::vector<Row> read_seeds() {
    const Tree* const node = value_of("seeds");
    if (node == nullptr) return {{}};
    if (sweep_.command == "plan") problems_.add(node->where, "seeds: a plan does not depend on the seed");
    const TreeEntry& key = made_.emplace_back(TreeEntry{"train.seed", node->where, *node});
    if (!claim(key, "seeds")) return {{}};
    std::vector<Row> rows;
    for (const Tree& item : items_of(*node, "seeds", "a list of whole numbers", problems_)) {
      if (const auto seed = number_in(item); !seed || *seed < 0 || *seed != std::floor(*seed))
        problems_.add_expected(item, "seeds", "a whole number");
      add_choice(rows.emplace_back(), key, item);
    }
    return rows;
  }

  std::vector<Row> read_random() {
    const Tree* const node = value_of("random");
    if (node == nullptr) return {{}};
    const RandomSearch search = read_random_search(*node, most_cases, problems_);
    std::vector<Row> rows(static_cast<std::size_t>(std::max<std::int64_t>(1, search.trials)));
    for (const RandomSearch::Value& value : search.values) {
      const TreeEntry& entry = *value.entry;
      TreeEntry in_grid = entry;  // as if a grid had it
      in_grid.value = value.distribution.choices;
      in_grid.value.where = entry.where;
      if (!check_key(in_grid) || !claim(entry, "random")) continue;
      for (std::size_t trial = 0; trial < rows.size(); ++trial) {
        const Tree drawn = search.draw(value, static_cast<std::int64_t>(trial));
        add_choice(rows[trial], entry, made_.emplace_back(TreeEntry{entry.key, entry.where, drawn}).value);
      }
    }
    leave_repeated(rows);
    return rows;
  }

  /// Leaves out trials that draw the values of one before them, as trials of few choices do.
  void leave_repeated(std::vector<Row>& rows) {
    std::set<std::string> drawn;
    sweep_.repeated_trials = std::erase_if(rows, [&](const Row& row) {
      std::string values;
      for (const Choice& choice : row) values += to_yaml(*choice.value) + "\n";
      return !drawn.insert(values).second;
    });
  }

  std::vector<Row> product(const std::vector<Row>& outer, const std::vector<Row>& inner) {
    std::vector<Row> rows;
    if (std::ssize(outer) * std::ssize(inner) > most_cases) {
      problems_.add(root_.where, fmt::format("more than {} cases", most_cases));
      return outer;
    }
    for (const Row& one : outer) {
      for (const Row& other : inner) {
        rows.push_back(one);
        rows.back().insert(rows.back().end(), other.begin(), other.end());
      }
    }
    return rows;
  }

  static void set_override(std::vector<SweepOverride>& overrides, const std::string& key, const Tree& value) {
    const std::string yaml = to_yaml(value);
    const SweepOverride made{key, yaml, value.kind == Tree::Kind::scalar ? value.text : yaml, number_in(value)};
    const auto found = std::ranges::find(overrides, key, &SweepOverride::key);
    if (found == overrides.end())
      overrides.push_back(made);
    else
      *found = made;
  }

  /// A section given whole replaces what was set of it.
  static void add_settings(std::vector<SweepOverride>& settings, const std::string& key, const Tree& value) {
    if (value.kind != Tree::Kind::map || key.find('.') != std::string::npos) return set_override(settings, key, value);
    std::erase_if(settings, [&](const SweepOverride& setting) { return setting.key.starts_with(key + "."); });
    for (const TreeEntry& entry : value.entries) set_override(settings, key + "." + entry.key, entry.value);
  }

  /// The choices of a case: one given again takes the place of the one before it.
  Row merged(const Row& row) const {
    Row all;
    for (const Row* const choices : {&std::as_const(common_), &row})
      for (const Choice& choice : *choices) {
        const auto found = std::ranges::find(all, choice.key->key, [](const Choice& one) { return one.key->key; });
        if (found == all.end())
          all.push_back(choice);
        else
          *found = choice;
      }
    return all;
  }

  /// A section given whole after a key of it would drop the key.
  void refuse_drop(const Choice& section, std::span<const Choice> before) {
    if (section.value->kind != Tree::Kind::map) return;
    for (const Choice& one : before) {
      if (!one.key->key.starts_with(section.key->key + ".")) continue;
      const std::string message = fmt::format(
          "{0}: given whole, the section replaces all that is set of it, and {1} of {2} is dropped; set the keys of "
          "{0} "
          "one by one",
          section.key->key, one.key->key,
          one.key->where.line == 0 ? "the command line" : fmt::format("line {}", one.key->where.line));
      if (dropped_.insert(to_string(section.value->where) + message).second)
        problems_.add(section.value->where, message);
    }
  }

  void add_case(const Row& row) {
    SweepCase one;
    const Row all = merged(row);
    for (const Choice& choice : all) {
      if (choice.key->key == "config") {
        for (const Tree& file : files_in(*choice.value))
          one.configurations.push_back((path_.parent_path() / file.text).lexically_normal().string());
        continue;
      }
      refuse_drop(choice, std::span(all.data(), &choice));
      set_override(one.overrides, choice.key->key, *choice.value);
      add_settings(one.settings, choice.key->key, *choice.value);
    }
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
  Sweep sweep_;
  std::vector<TreeEntry> given_;  // on the command line
  Row common_;
  std::set<std::string> ids_;
  std::map<std::string, std::pair<std::string, int>> varied_;  // keys: the part that varies them, and its line
  std::deque<TreeEntry> made_;                                 // values that the file does not hold as such
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
  return SweepReader(path, root, overrides, problems).read();
}

}  // namespace lacuna::apps
