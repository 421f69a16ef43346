#include "apps/config/assignment.h"
#include "apps/config/experiment.h"
#include "apps/config/model_folder.h"
#include "apps/config/model_options.h"
#include "apps/config/paths.h"
#include "apps/config/resolve.h"
#include "apps/config/schema.h"
#include "apps/config/validate.h"
#include "apps/config/yaml.h"
#include "data/class_names.h"
#include "models/task.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace lacuna::apps {
namespace {

/// The choices of a section (optimizers, policies) that have an option `name`.
Names owners_of_option(const Section& section, std::string_view name) {
  Names owners = section.names == nullptr ? Names() : section.names();
  std::erase_if(owners, [&](const std::string& owner) { return section.options(owner).find(name) == nullptr; });
  return owners;
}

/// Reports a key that is neither in the section's table nor in that of `choice`.
void add_unknown_key(const Section& section, const std::string& choice, const TreeEntry& entry, Problems& problems) {
  if (const Names owners = owners_of_option(section, entry.key); !owners.empty()) {
    problems.add(entry.where,
                 fmt::format("{0}.{1} is a setting of {2}, and {3} has none of that name; set {0}.{4} to one that has "
                             "it, or give the whole section to replace all its settings: '{0}={{{4}: {3}}}'",
                             section.name, entry.key, fmt::join(owners, ", "), choice, section.choice));
    return;
  }
  for (const Section& other : sections())
    if (const Names known = other.known_keys(); std::ranges::find(known, entry.key) != known.end()) {
      problems.add(entry.where, fmt::format("unknown key in section {}: \"{}\", did you mean \"{}.{}\"?", section.name,
                                            entry.key, other.name, entry.key));
      return;
    }
  Names known;
  for (const Field& field : section.fields) known.emplace_back(field.name);
  for (const Field& field : section.options(choice).fields()) known.emplace_back(field.name);
  problems.add_unknown(entry.where,
                       section.names != nullptr ? fmt::format("key of the {} {}:", section.kind, choice)
                                                : fmt::format("key in section {}:", section.name),
                       entry.key, known);
}

std::string name_of(const Section& section, const TreeEntry& entry) {
  return fmt::format("{}.{}", section.name, entry.key);
}

/// Reads the keys that a section always has, and returns the others.
std::vector<const TreeEntry*> read_fields(const Section& section, const Tree& node, Configuration& configuration,
                                          Problems& problems) {
  std::vector<const TreeEntry*> others;
  for (const TreeEntry& entry : node.entries) {
    if (const Field* const field = section.find(entry.key))
      read_field(*field, name_of(section, entry), entry.value, &configuration, problems);
    else
      others.push_back(&entry);
  }
  return others;
}

/// Reads the options of what a section chooses.
void read_chosen(const Section& section, const std::vector<const TreeEntry*>& entries, Configuration& configuration,
                 Problems& problems) {
  const std::string choice = section.chosen(configuration);
  Options options = section.options(choice);
  for (const TreeEntry* const entry : entries) {
    const Field* const field = options.find(entry->key);
    if (field == nullptr) {
      add_unknown_key(section, choice, *entry, problems);
      continue;
    }
    const std::size_t before = problems.count();
    read_field(*field, name_of(section, *entry), entry->value, options.object(), problems);
    if (problems.count() == before) section.given(configuration).insert_or_assign(entry->key, options.write(*field));
  }
}

void refuse_sweep(const Tree& root) {
  if (root.find("command") == nullptr) return;
  const TreeEntry* const cases = root.find("cases");
  if (cases != nullptr && !cases->value.items.empty() && cases->value.items.front().find("status") != nullptr)
    reject("{0}: this is what a sweep has written, not a configuration; its page is sweep.html beside it",
           root.where.source);
  reject(
      "{0}: this is a sweep, a command and the cases that it is run on, not a configuration: `lacuna sweep -c {0}` "
      "runs it",
      root.where.source);
}

/// The sections of one file.
Tree read_tree(const std::string& text, const std::string& source, Problems& problems) {
  Tree root = parse_yaml(text, {source, 1, 1}, problems);
  if (root.kind != Tree::Kind::map) {
    problems.add(root.where, fmt::format("expected sections, got {}", describe(root)));
    problems.refuse_if_any();
  }
  refuse_sweep(root);
  return root;
}

/// Replaces the entry of the same key, or appends one.
void put(std::vector<TreeEntry>& entries, TreeEntry entry) {
  const auto found = std::ranges::find(entries, entry.key, &TreeEntry::key);
  if (found == entries.end())
    entries.push_back(std::move(entry));
  else
    *found = std::move(entry);
}

/// Whether a section names its choice (`optimizer.name`), so that keys of an earlier file belong to another choice.
bool names_its_choice(const TreeEntry& entry) {
  const Section* const section = find_section(entry.key);
  return section != nullptr && !section->choice.empty() && entry.value.find(section->choice) != nullptr;
}

/// Merges a further file into `root`.
void lay_over(Tree& root, Tree later) {
  for (TreeEntry& section : later.entries) {
    if (section.value.kind == Tree::Kind::null && root.find(section.key) != nullptr) continue;
    const auto before = std::ranges::find(root.entries, section.key, &TreeEntry::key);
    const bool both_have_keys =
        before != root.entries.end() && before->value.kind == Tree::Kind::map && section.value.kind == Tree::Kind::map;
    if (!both_have_keys || names_its_choice(section)) {
      put(root.entries, std::move(section));
    } else {
      for (TreeEntry& entry : section.value.entries) put(before->value.entries, std::move(entry));
    }
  }
}

/// The choice that the command line sets alone, as `optimizer.name=sgd`, if any.
std::optional<std::string> named_in(std::span<const std::string> overrides, const Section& section) {
  std::optional<std::string> choice;
  for (const std::string& assignment : overrides) {
    Problems reported_later;
    const std::optional<TreeEntry> given = parse_assignment(assignment, reported_later);
    if (given && given->key == fmt::format("{}.{}", section.name, section.choice)) choice = given->value.text;
  }
  return choice;
}

/// Whether a key has the default of `choice`. A run's configuration contains all defaults.
bool is_default(const Section& section, const std::string& choice, const TreeEntry& entry) {
  if (section.name == "model") {
    const std::vector<HyperParameter> defaults = defaults_of_model(choice);
    const Tree* const value = find_value(defaults, entry.key);
    return value != nullptr && *value == entry.value;
  }
  if (entry.key == "mean" || entry.key == "std") {
    try {
      const DatasetInfo info = describe_dataset(choice, {});
      return entry.value == Tree(as_written(entry.key == "mean" ? info.mean : info.deviation));
    } catch (const Error&) {  // no such data set, or one that nothing is known of without its files
      return false;
    }
  }
  Options read = section.options(choice);
  const Field* const field = read.find(entry.key);
  if (field == nullptr) return false;
  Problems none;
  read_field(*field, entry.key, entry.value, read.object(), none);
  return none.empty() && read.write(*field) == section.options(choice).write(*field);
}

/// Drops options of the choice that the command line replaces, or finds anew at another path. A new policy starts from
/// its own defaults, since options of the earlier one mean something else to it. A new optimizer or model keeps options
/// that are no defaults.
void leave_choice(const Section& section, Tree& root, std::span<const std::string> overrides) {
  const auto found = std::ranges::find(root.entries, section.name, &TreeEntry::key);
  const std::optional<std::string> after = named_in(overrides, section);
  const bool is_found_anew =
      section.name != "memory" &&
      std::ranges::any_of(overrides, [&](const std::string& assignment) { return names_path_of(section, assignment); });
  if ((!after && !is_found_anew) || found == root.entries.end() || found->value.kind != Tree::Kind::map) return;
  const TreeEntry* const named = found->value.find(section.choice);
  const std::string before = named == nullptr ? section.chosen(Configuration{}) : named->value.text;
  if (after == before) return;
  const auto is_own = [&](const TreeEntry& entry) {
    if (section.name != "memory") return is_default(section, before, entry);
    const Field* const field = section.find(entry.key);
    const bool of_before = field != nullptr && field->only_if.key == section.choice &&
                           std::ranges::find(field->only_if.values, before) != field->only_if.values.end();
    return of_before || section.options(before).find(entry.key) != nullptr;
  };
  std::erase_if(found->value.entries, is_own);
}

void apply_overrides(Tree& root, std::span<const std::string> overrides, Problems& problems) {
  for (const Section& section : sections())
    if (!section.choice.empty()) leave_choice(section, root, overrides);
  for (const std::string& assignment : overrides) apply_override(root, assignment, problems);
}

/// Adds the name and options of the data set that lies at `data.path` if `data.name` is not given.
void recognize_data(Tree& root, const std::shared_ptr<OpenedFiles>& files) {
  const auto data = std::ranges::find(root.entries, "data", &TreeEntry::key);
  if (data == root.entries.end() || data->value.kind != Tree::Kind::map || data->value.find("name") != nullptr) return;
  const TreeEntry* const path = data->value.find("path");
  if (path == nullptr || path->value.kind != Tree::Kind::scalar || path->value.text.empty()) return;
  const Location where = path->where;
  const RecognizedDataset found = recognize_dataset(expand_home(path->value.text), files);
  const auto add = [&](const std::string& key, const std::string& text) {
    if (data->value.find(key) != nullptr) return;
    Tree value;
    value.kind = Tree::Kind::scalar;
    value.where = where;
    value.text = text;
    data->value.entries.push_back({key, where, std::move(value)});
  };
  add("name", found.name);
  for (const auto& [key, value] : found.settings) add(key, value.text);
}

/// A budget or a plan without a policy is one for `auto`.
void imply_policy(Tree& root) {
  const auto memory = std::ranges::find(root.entries, "memory", &TreeEntry::key);
  if (memory == root.entries.end() || memory->value.kind != Tree::Kind::map) return;
  if (memory->value.find("policy") != nullptr) return;
  const TreeEntry* given = memory->value.find("budget");
  if (given == nullptr) given = memory->value.find("plan");
  if (given == nullptr || given->value.text.empty()) return;
  Tree policy("auto");
  policy.where = given->where;
  const Location where = given->where;
  memory->value.entries.push_back({"policy", where, std::move(policy)});
}

/// Refuses a path that is gone, unless it is a pattern.
void require_data(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!path.empty() && path.native().find_first_of("{}*?[") == std::string::npos &&
      !std::filesystem::exists(path, ignored))
    reject("data.path: {} does not exist; data.path=PATH names where it is now", path.native());
}

/// Puts the data's classes into the order of a model's where both are the same by name. Evaluations may see fewer;
/// others are refused there, while in training the head starts anew.
void take_classes(const std::vector<std::string>& labels, bool evaluates, Experiment& experiment) {
  const Field* const list = find_class_list(dataset_kinds().get(experiment.data.name).options);
  OptionValues& settings = experiment.data.source.settings;
  const auto given = list == nullptr ? settings.end() : settings.find(list->name);
  const bool is_open = list != nullptr && (given == settings.end() || given->second.text.empty());
  const auto describe = [&] {
    try {
      experiment.samples = describe_dataset(experiment.data.name, dataset_options(experiment, Split::train));
    } catch (const Error&) {
      require_data(experiment.data.source.path);
      throw;
    }
  };
  const auto set = [&](const std::vector<std::string>& names) {
    settings[std::string(list->name)] = class_setting(names);
    describe();
  };
  try {
    describe();
  } catch (const Error& error) {  // perhaps data of fewer classes than a data set of its own has
    if (!evaluates || !is_open || labels.empty() || error.fault() != Fault::input) throw;
    try {
      return set(labels);
    } catch (const Error&) {
      settings.erase(std::string(list->name));
    }
    throw;
  }
  if (is_open && tasks().contains(experiment.task.name) && tasks().get(experiment.task.name).learns_numbers &&
      find_class(experiment.samples.fields) != nullptr) {
    settings[std::string(list->name)] = "numbers";  // whole ones, which would be classes otherwise
    try {
      return describe();
    } catch (const Error&) {  // the data set has no numbers
      settings.erase(std::string(list->name));
      describe();
    }
  }
  const std::vector<std::string>& classes = experiment.samples.classes;
  if (labels.empty() || classes.empty()) return;
  const std::optional<JoinedClasses> joined = join_classes(labels, std::ssize(labels), classes);
  if (evaluates && !joined)
    reject("data: the model lacks classes of the data: {}; data.labels names those of the data, or their numbers",
           both_lists(labels, classes));
  if (!joined || !is_open || (!evaluates && classes.size() != labels.size())) return;
  const std::vector<std::string> names = in_order_of_model(*joined, labels, classes);
  if (names == classes) return;
  const bool is_same = joined->is_same(std::ssize(labels));
  const std::string lists = both_lists(labels, classes);
  try {
    set(names);
    if (joined->by_place)
      experiment.notes.push_back(
          fmt::format("classes are joined by number, since names are on one side alone: {}", lists));
  } catch (const Error&) {  // folders that are called by numbers
    if (!is_same) throw;
    settings.erase(std::string(list->name));
    describe();
  }
}

/// The task that a folder's model is for, where the data's labels are those of that task.
void take_task(const ModelFolder& folder, bool evaluates, Experiment& experiment) {
  const SampleField* const target = find_target(experiment.samples.fields);
  const std::string name = task_of(folder);
  const std::string_view problem = tasks().get(name).problem;
  if (problem != "multi_label_classification" && problem != "regression") return;
  const int rank = problem == "regression" ? 0 : 1;
  if (target != nullptr && target->dtype == DType::f32 && target->shape.rank() == rank)
    experiment.task.name = name;
  else if (evaluates)
    reject("{} is of a model for {}, and the data set {} has other labels; task.name says how to judge them",
           folder.config.string(), name, experiment.data.name);
}

/// Takes settings of the loss and of labels that the model's folder says, unless the configuration says others.
void take_settings(const ModelFolder& folder, Experiment& experiment) {
  const auto take = [&](std::string_view section, const OptionValues& said, const Options* known, OptionValues& to) {
    for (const auto& [key, value] : said) {
      const bool has_it = known != nullptr && known->find(key) != nullptr;
      if (has_it && !to.try_emplace(key, value).second) continue;
      experiment.notes.push_back(fmt::format("{} says {}.{} {}{}", folder.config.string(), section, key, value.text,
                                             has_it ? "" : ", which has no effect here"));
    }
  };
  const std::string &task = experiment.task.name, &data = experiment.data.name;
  take("task", folder.task, tasks().contains(task) ? &tasks().get(task).options : nullptr, experiment.task.options);
  take("data", folder.data, dataset_kinds().contains(data) ? &dataset_kinds().get(data).options : nullptr,
       experiment.data.source.settings);
}

/// Gives the model as many input channels as `data.channels` says, unless the model's section says how many.
void take_channels(const TreeEntry* model, Experiment& experiment) {
  const std::int64_t channels = experiment.data.images.channels;
  if (channels == 0 || (model != nullptr && model->value.find("in_channels") != nullptr)) return;
  std::vector<HyperParameter>& options = experiment.model.options;
  std::erase_if(options, [](const HyperParameter& option) { return option.key == "in_channels"; });
  options.push_back({"in_channels", channels});
}

/// A table whose pictures are not found is read as texts.
void refuse_texts_of_image_model(const Experiment& experiment) {
  const Configuration::Data& data = experiment.data;
  const bool reads_texts = dataset_kinds().get(data.name).options.find("tokenizer") != nullptr;
  if (reads_texts && channels_of(experiment.architecture) > 0)
    reject(
        "data: {} is read as {}, and model {} takes images: data.name=image_table reads a table of pictures, where "
        "data.image and data.label name its columns, data.images the folder of the files, data.extension what their "
        "names lack",
        data.source.path.empty() ? "the data set" : data.source.path.string(), data.name, experiment.model.name);
}

bool says(const Tree& root, std::string_view section, std::string_view key) {
  const TreeEntry* const found = root.find(section);
  return found != nullptr && found->value.find(key) != nullptr;
}

/// Takes data and task of the model's family, unless the configuration says them.
void take_usual(const Tree& root, Experiment& experiment) {
  const ModelFamily& family = model_families().get(experiment.architecture.family);
  Configuration::Data& data = experiment.data;
  if (!says(root, "task", "name") && experiment.task.name == Configuration::Task().name)
    experiment.task.name = family.task;
  if (!says(root, "data", "name") && data.source.path.empty()) data.name = family.samples;
  if (data.name != family.samples) return;
  if (!family.target.empty() && !says(root, "data", "target"))
    data.source.settings["target"] = std::string(family.target);
  const Tree* const rows = find_value(experiment.architecture.hyper_parameters, "vocab_size");
  if (rows != nullptr && data.source.vocabulary == 0)
    data.source.vocabulary = static_cast<std::int64_t>(number_in(*rows).value_or(0));
}

/// Sets the width of inputs that a model names as the data set names its own (`features`), where it is not given.
void take_widths(Experiment& experiment) {
  for (const SampleField& field : experiment.samples.fields) {
    const Tree* const width = find_value(experiment.architecture.hyper_parameters, field.name);
    if (width == nullptr || field.shape.rank() == 0) continue;
    const std::int64_t wanted = field.shape.back();
    if (const Tree* const given = find_value(experiment.model.options, field.name); given == nullptr)
      experiment.model.options.push_back({field.name, wanted});
    else if (number_in(*given) != static_cast<double>(wanted))
      reject("model.{}: expected {}, as many as the data set {} has, got {}", field.name, wanted, experiment.data.name,
             given->text);
  }
}

/// Describes the data set, and the model with as many outputs as the data set asks for.
/// `of_task`: the folder that says the task; null: the configuration does.
void open(Experiment& experiment, const std::vector<std::string>& labels, const ModelFolder* of_task, bool evaluates) {
  experiment.data.images.image_size = image_size_of(experiment.architecture);
  refuse_texts_of_image_model(experiment);
  take_classes(labels, evaluates, experiment);
  if (of_task != nullptr) take_task(*of_task, evaluates, experiment);
  const DatasetInfo& samples = experiment.samples;
  const SampleField* const target = find_target(samples.fields);
  std::int64_t& outputs = experiment.model.num_classes;
  const bool is_open =
      outputs == 0 && find_section("model")->options(experiment.model.name).find("num_classes") != nullptr;
  if (is_open && !samples.classes.empty())
    outputs = std::ssize(samples.classes);
  else if (is_open && target != nullptr)
    outputs = target->below > 0 ? target->below : target->shape.count();
  // The usual task learns one class of a sample, and tokens have metrics of their own.
  const bool fits = target == nullptr || target->collation == Collation::stacked ||
                    experiment.task.name != Configuration::Task().name;
  if (fits && !samples.metrics.empty() && tasks().get(experiment.task.name).options.find("metrics") != nullptr)
    if (Tree& metrics = experiment.task.options["metrics"]; metrics.text.empty())
      metrics = fmt::format("{}", fmt::join(samples.metrics, ", "));
  take_widths(experiment);
  experiment.architecture = describe_model(experiment.model.name, hyper_parameters_of(experiment));
}

/// Why `model.from` alone does not say what the model is.
std::string no_model_in(const std::string& from) {
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::path(from) / "config.yaml", ignored))
    return fmt::format("model.from: {0} is a run; its weights are those of {0}/best or {0}/last", from);
  if (from.ends_with(".gguf"))
    return fmt::format("model.from: {} is of llama.cpp: expected the folder of transformers that it was made from",
                       from);
  if (std::filesystem::exists(from, ignored))
    return fmt::format("model.from: {} has no config.json, so expected model.name", from);
  return fmt::format("model.from: {}", missing_text(from));
}

Experiment from_tree(Tree root, Problems& problems, const Evaluated* evaluated,
                     std::shared_ptr<OpenedFiles> opened = std::make_shared<OpenedFiles>()) {
  Experiment experiment;
  experiment.data.source.files = std::move(opened);
  recognize_data(root, experiment.data.source.files);
  imply_policy(root);
  std::vector<const TreeEntry*> of_the_task;  // the model says which one it is, unless task.name does
  for (const TreeEntry& entry : root.entries) {
    const Section* const section = find_section(entry.key);
    if (section == nullptr) {
      problems.add_unknown(entry.where, "section", entry.key, section_names());
    } else if (entry.value.kind == Tree::Kind::map) {
      const std::vector<const TreeEntry*> others = read_fields(*section, entry.value, experiment, problems);
      if (section->name == "model") {
        read_model_name(experiment, entry.value, problems);
        experiment.model.options = read_model_options(others, problems);
      } else if (section->name == "task") {
        of_the_task = others;
      } else {
        read_chosen(*section, others, experiment, problems);
      }
    } else if (entry.value.kind != Tree::Kind::null && entry.value.kind != Tree::Kind::invalid) {
      const bool is_choice = section->find("name") != nullptr && entry.value.kind == Tree::Kind::scalar;
      problems.add(entry.value.where,
                   fmt::format("expected keys with values in section {}, got {}{}", entry.key, describe(entry.value),
                               is_choice ? fmt::format("; a name is {}.name={}", entry.key, entry.value.text) : ""));
    }
  }
  const auto expand = [](const std::string& path) { return expand_home(path).string(); };
  change_paths(experiment, expand);
  experiment.weights = experiment.model.from;
  const std::size_t others = problems.count();
  const std::optional<ModelFolder> folder = take_model(experiment, root, problems);
  const ModelFolder* const of_task = folder && !says(root, "task", "name") ? &*folder : nullptr;
  if (evaluated != nullptr && of_task != nullptr) experiment.task.name = task_of(*of_task);
  const TreeEntry* const model = root.find("model");
  const TreeEntry* const named = model == nullptr ? nullptr : model->value.find("name");
  if (experiment.model.name.empty() && problems.count() == others && (named == nullptr || named->value.text.empty()))
    problems.add(model == nullptr ? root.where : model->where,
                 experiment.model.from.empty() ? "expected model.name: `lacuna models` lists the names"
                                               : no_model_in(experiment.model.from));
  if (!experiment.model.name.empty()) {
    take_channels(model, experiment);
    experiment.architecture = describe_model(experiment.model.name, hyper_parameters_of(experiment));
    take_usual(root, experiment);
  }
  read_chosen(*find_section("task"), of_the_task, experiment, problems);
  if (folder) take_settings(*folder, experiment);
  change_paths(experiment, expand);  // the task's
  const bool readable = problems.empty();
  if (!experiment.model.name.empty()) {
    take_images(experiment, root, folder ? folder->images : ImagePreparation(), channels_of(experiment.architecture));
    check_model(experiment, root, problems);
    if (folder) {
      try {
        require_head(*folder, experiment.architecture.hyper_parameters);
      } catch (const Error& error) {
        problems.add(place_of(root, "model", "from"), error.what());
      }
    }
  }
  if (readable) {
    try {
      std::vector<std::string> classes = folder ? folder->labels : std::vector<std::string>();
      if (evaluated != nullptr && !evaluated->classes.empty()) classes = evaluated->classes;
      open(experiment, classes, of_task, evaluated != nullptr);
      // A graph is one sample.
      if (find_field(experiment.samples.fields, FieldKind::edges) != nullptr && !says(root, "train", "batch_size"))
        experiment.train.batch_size = std::min(experiment.train.batch_size, experiment.samples.size);
      validate(experiment, root, problems);
    } catch (const Error& error) {
      if (error.fault() != Fault::input || problems.empty()) throw;
      const TreeEntry* const data = root.find("data");
      problems.add(data == nullptr ? root.where : data->where, error.what());
    }
  }
  problems.refuse_if_any();
  return experiment;
}

}  // namespace

Experiment parse_configuration(const std::string& text, const std::string& source,
                               std::span<const std::string> overrides, const Evaluated* evaluated) {
  Problems problems;
  Tree root = read_tree(text, source, problems);
  apply_overrides(root, overrides, problems);
  return from_tree(std::move(root), problems, evaluated);
}

Experiment read_configuration(const std::filesystem::path& path, std::span<const std::string> overrides) {
  return parse_configuration(read_text(path), path.string(), overrides);
}

Experiment read_configuration(std::span<const std::string> files, std::span<const std::string> overrides,
                              std::shared_ptr<OpenedFiles> opened, const Evaluated* evaluated) {
  Problems problems;
  Tree root = read_tree(read_text(files.front()), files.front(), problems);
  for (const std::string& file : files.subspan(1)) lay_over(root, read_tree(read_text(file), file, problems));
  apply_overrides(root, overrides, problems);
  return from_tree(std::move(root), problems, evaluated, std::move(opened));
}

std::string to_yaml(const Configuration& configuration) {
  Configuration copy = configuration;
  std::string text;
  for (const Section& section : sections()) {
    Names lines;
    for (const Field& field : section.fields)
      if (section.has_effect(field, configuration))
        lines.push_back(fmt::format("{}: {}", field.name, to_yaml(field.write(&configuration))));
    if (section.name == "model")
      for (const HyperParameter& option : configuration.model.options)
        lines.push_back(fmt::format("{}: {}", option.key, to_yaml(option.value)));
    if (section.given != nullptr)
      for (const auto& [name, value] : section.given(copy))
        lines.push_back(fmt::format("{}: {}", name, to_yaml(value)));
    text += fmt::format("{}:\n  {}\n", section.name, fmt::join(lines, "\n  "));
  }
  return text;
}

}  // namespace lacuna::apps
