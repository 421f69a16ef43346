#include "apps/config/schema.h"

#include "autograd/policy.h"
#include "data/dataset.h"
#include "models/registry.h"
#include "models/task.h"
#include "nn/adapter.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace lacuna::apps {
namespace {

template <auto registry>
const Options* options_of(std::string_view name) {
  return registry().contains(name) ? &registry().get(name).options : nullptr;
}

/// The hyper-parameters of a family or a preset.
const Options* options_of_model(std::string_view name) {
  const std::string_view untagged = name.substr(0, name.find('.'));
  if (model_presets().contains(untagged)) return options_of<model_families>(model_presets().get(untagged).family);
  return options_of<model_families>(name);
}

template <auto registry, class Part>
Section choosing(std::string_view name, std::string_view kind, Part Configuration::*part,
                 OptionValues& (*given)(Configuration&), Use use, std::string_view choice = "name") {
  return {.name = name,
          .fields = rows_of(part),
          .use = use,
          .choice = choice,
          .kind = kind,
          .names = []() { return registry().names(); },
          .options_of = options_of<registry>,
          .given = given};
}

const std::vector<Section>& section_table() {
  using C = Configuration;
  static const std::vector<Section> table{
      {.name = "model",
       .fields = rows_of(&C::model),
       .choice = "name",
       .kind = "model",
       .names = []() { return model_families().names(); },
       .options_of = options_of_model},
      choosing<dataset_kinds>(
          "data", "data set", &C::data, [](C& c) -> OptionValues& { return c.data.source.settings; }, Use::any),
      choosing<tasks>(
          "task", "task", &C::task, [](C& c) -> OptionValues& { return c.task.options; }, Use::any),
      {.name = "train", .fields = rows_of(&C::train)},
      choosing<optimizers>(
          "optimizer", "optimizer", &C::optimizer, [](C& c) -> OptionValues& { return c.optimizer.options; },
          training_only),
      choosing<schedules>(
          "schedule", "schedule", &C::schedule, [](C& c) -> OptionValues& { return c.schedule.options; },
          training_only),
      {.name = "freeze", .fields = rows_of(&C::freeze)},
      choosing<nn::adapters>(
          "adapter", "adapter", &C::adapter, [](C& c) -> OptionValues& { return c.adapter.options; }, Use::any),
      choosing<memory_policies>(
          "memory", "memory policy", &C::memory, [](C& c) -> OptionValues& { return c.memory.options; }, training_only,
          "policy"),
      {.name = "ranks", .fields = rows_of(&C::ranks), .use = training_only},
      {.name = "output", .fields = rows_of(&C::output), .use = training_only},
  };
  return table;
}

std::string in_backquotes(const Names& names) { return fmt::format("`{}`", fmt::join(names, "`, `")); }

KeyHelp help_of(const Section& section, const Field& field, const Tree& initial) {
  KeyHelp row{fmt::format("{}.{}", section.name, field.name), field.type(), to_yaml(initial), std::string(field.help)};
  if (row.initial == "\"\"" || row.initial == "[]") row.initial.clear();
  if (row.type == "text" && !row.initial.empty()) row.initial = in_backquotes({row.initial});
  if (const auto& [key, values] = field.only_if; !values.empty())
    row.help = fmt::format("`{}{}`: {}", key == section.choice ? "" : fmt::format("{}: ", key), fmt::join(values, ", "),
                           row.help);
  else if (!key.empty())
    row.help = fmt::format("with `{}`: {}", key, row.help);
  if (field.limits.names != nullptr) row.help += fmt::format(": {}", in_backquotes(field.limits.names()));
  return row;
}

/// The options of all that a section can choose, with those that have them. Equal rows are one.
void add_options(std::vector<KeyHelp>& rows, const Section& section) {
  std::vector<std::pair<KeyHelp, Names>> found;
  for (const std::string& owner : section.names()) {
    const Options& options = section.options(owner);
    for (const Field& field : options.fields()) {
      if (section.find(field.name) != nullptr) continue;  // model.num_classes
      const KeyHelp row = help_of(section, field, options.write(field));
      const auto same = std::ranges::find(found, row, &std::pair<KeyHelp, Names>::first);
      if (same == found.end())
        found.push_back({row, {owner}});
      else
        same->second.push_back(owner);
    }
  }
  for (auto& [row, owners] : found) {
    row.help = fmt::format("{}: {}", in_backquotes(owners), row.help);
    rows.push_back(row);
  }
}

}  // namespace

std::string Section::chosen(const Configuration& configuration) const {
  const Field* const field = find(choice);
  return field == nullptr ? std::string() : field->write(&configuration).text;
}

bool Section::has_effect(const Field& field, const Configuration& configuration) const {
  static const Configuration defaults;
  const Field* const other = find(field.only_if.key);
  if (other == nullptr) return true;
  const Tree value = other->write(&configuration);
  const std::vector<std::string_view>& values = field.only_if.values;
  return values.empty() ? value != other->write(&defaults) : std::ranges::find(values, value.text) != values.end();
}

const Options& Section::options(std::string_view chosen_name) const {
  static const Options none;
  const Options* const found = options_of == nullptr ? nullptr : options_of(chosen_name);
  return found == nullptr ? none : *found;
}

Names Section::known_keys() const {
  Names all;
  for (const Field& field : fields) all.emplace_back(field.name);
  if (names == nullptr) return all;
  for (const std::string& owner : names())
    for (const Field& field : options(owner).fields()) all.emplace_back(field.name);
  return all;
}

std::span<const Section> sections() { return section_table(); }

Names section_names() {
  Names names;
  for (const Section& section : sections()) names.emplace_back(section.name);
  return names;
}

const Section* find_section(std::string_view name) {
  const auto found = std::ranges::find(sections(), name, &Section::name);
  return found == sections().end() ? nullptr : &*found;
}

Use use_of(std::string_view section_name, std::string_view key) {
  const Section* const section = find_section(section_name);
  if (section == nullptr || section->use != Use::any) return training_only;
  if (const Field* const field = section->find(key)) return field->use;
  if (section->names == nullptr) return Use::any;
  for (const std::string& owner : section->names())
    if (const Field* const field = section->options(owner).find(key)) return field->use;
  return Use::any;
}

std::vector<KeyHelp> key_help() {
  const Configuration defaults;
  std::vector<KeyHelp> rows;
  for (const Section& section : sections()) {
    for (const Field& field : section.fields) rows.push_back(help_of(section, field, field.write(&defaults)));
    if (section.names != nullptr) add_options(rows, section);
  }
  return rows;
}

std::string keys_as_markdown() {
  std::string text =
      "# Configuration keys\n\n"
      "    lacuna train -c configs/quickstart.yaml train.steps=20 optimizer.lr=1e-3 output.dir=runs/steps\n\n"
      "[train.md](train.md#a-configuration) shows a configuration and how files and `key=value` combine.\n"
      "`lacuna keys [SECTION]` prints this table with the keys of loaded plugins; `lacuna keys --markdown` writes "
      "this\n"
      "page. The meaning of an option begins with the models, optimizers, schedules, tasks, data sets, adapters or\n"
      "policies that have it. Keys that are left out have their defaults; a run's `config.yaml` holds all values.\n\n"
      "| key | type | default | meaning |\n| --- | --- | --- | --- |\n";
  for (const KeyHelp& row : key_help())
    text += fmt::format("| `{}` | {} | {} | {} |\n", row.name, row.type, row.initial, row.help);
  return text;
}

}  // namespace lacuna::apps
