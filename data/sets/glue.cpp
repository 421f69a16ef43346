// The nine GLUE tasks from their original TSV files (gluebenchmark.com), with each task's labels, columns and metrics.
#include "data/class_names.h"
#include "data/text/text_columns.h"

#include "core/error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>

namespace lacuna {
namespace {

namespace fs = std::filesystem;

struct GlueTask {
  std::string name, folder;  // as in the published archive
  std::string text, pair, label;
  std::vector<std::string> classes;  // empty: scores
  std::vector<std::string> metrics;
  std::int64_t train_size, validation_size;  // as published
  std::string validation_file = "dev.tsv";
  bool header = true;
  bool irregular = false;   // the published files have rows broken by a line break, and empty texts
  std::string trains_as{};  // the task whose training file is used; empty: its own
};

const std::vector<GlueTask>& glue_tasks() {
  const std::vector<std::string> yes_no{"0", "1"}, entailment{"entailment", "not_entailment"},
      inference{"entailment", "neutral", "contradiction"};
  static const std::vector<GlueTask> tasks{
      {"cola",
       "CoLA",
       "4",
       "",
       "2",
       {"unacceptable", "acceptable"},
       {"matthews", "accuracy"},
       8551,
       1043,
       "dev.tsv",
       false},
      {"sst2", "SST-2", "sentence", "", "label", {"negative", "positive"}, {"accuracy"}, 67349, 872},
      {"mrpc",
       "MRPC",
       "#1 String",
       "#2 String",
       "Quality",
       {"not_equivalent", "equivalent"},
       {"accuracy", "f1"},
       3668,
       408},
      {"stsb", "STS-B", "sentence1", "sentence2", "score", {}, {"pearson", "spearman"}, 5749, 1500},
      {"qqp",
       "QQP",
       "question1",
       "question2",
       "is_duplicate",
       {"not_duplicate", "duplicate"},
       {"accuracy", "f1"},
       363846,
       40430,
       "dev.tsv",
       true,
       true},
      {"mnli",
       "MNLI",
       "sentence1",
       "sentence2",
       "gold_label",
       inference,
       {"accuracy"},
       392702,
       9815,
       "dev_matched.tsv",
       true,
       true},
      {"mnli_mismatched",
       "MNLI",
       "sentence1",
       "sentence2",
       "gold_label",
       inference,
       {"accuracy"},
       392702,
       9832,
       "dev_mismatched.tsv",
       true,
       true,
       "mnli"},
      {"ax",
       "MNLI",
       "Premise",
       "Hypothesis",
       "Label",
       inference,
       {"matthews", "accuracy"},
       392702,
       1104,
       "diagnostic/diagnostic-full.tsv",
       true,
       false,
       "mnli"},
      {"qnli", "QNLI", "question", "sentence", "label", entailment, {"accuracy"}, 104743, 5463},
      {"rte", "RTE", "sentence1", "sentence2", "label", entailment, {"accuracy"}, 2490, 277},
      {"wnli", "WNLI", "sentence1", "sentence2", "label", {"not_entailment", "entailment"}, {"accuracy"}, 635, 71},
  };
  return tasks;
}

const GlueTask& task_of(const std::string& name) {
  const auto found = std::ranges::find(glue_tasks(), name, &GlueTask::name);
  if (found != glue_tasks().end()) return *found;
  std::vector<std::string> names;
  for (const GlueTask& task : glue_tasks()) names.push_back(task.name);
  reject("data.task: expected one of {}, got {}", fmt::join(names, ", "), name.empty() ? "none" : name);
}

struct GlueOptions : TextOptions {
  std::string task, labels;

  static Fields fields() {
    return Fields{field("task", &GlueOptions::task,
                        "`cola`, `sst2`, `mrpc`, `stsb`, `qqp`, `mnli`, `mnli_mismatched` (evaluates on the "
                        "mismatched genres), `ax` (on the diagnostic set), `qnli`, `rte` or `wnli`"),
                  field("labels", &GlueOptions::labels, PathKind::if_text_file,
                        "names of the task's classes in another order, as `contradiction, entailment, neutral`")} +
           rows_of_base<GlueOptions, TextOptions>();
  }
};

GlueOptions glue_options(const DatasetOptions& options) {
  return read_options<GlueOptions>("data set glue", options.settings);
}

/// The task's classes in the order given by the settings.
std::vector<std::string> classes_of(const GlueTask& task, const GlueOptions& own) {
  std::vector<std::string> names = class_names(own.labels);
  if (names.empty()) return task.classes;
  if (!std::ranges::is_permutation(names, task.classes))
    reject("data.labels: expected the classes of {} in some order ({}), got {}", task.name,
           task.classes.empty() ? "none: it has scores" : fmt::format("{}", fmt::join(task.classes, ", ")),
           fmt::join(names, ", "));
  return names;
}

fs::path file_of(const GlueTask& task, const DatasetOptions& options) {
  const std::string name = options.split == Split::train ? "train.tsv" : task.validation_file;
  if (options.path.empty())
    reject("data.path: expected the folder of {} with train.tsv and {}, or the one above it", task.folder,
           task.validation_file);
  std::error_code ignored;
  for (const fs::path& folder : {options.path, options.path / task.folder})
    if (fs::exists(folder / name, ignored)) return folder / name;
  reject("{}: expected a folder with {}, or with {}/{}", options.path.native(), name, task.folder, name);
}

std::shared_ptr<const LabelledTable> table_of(const GlueTask& task, const std::vector<std::string>& classes,
                                              const DatasetOptions& options) {
  if (options.split == Split::train && !task.trains_as.empty())
    return table_of(task_of(task.trains_as), classes, options);
  const fs::path file = file_of(task, options);
  const std::string name = fmt::format("{}\n{} {}", file.native(), task.name, fmt::join(classes, "\n"));
  return options.files->get<LabelledTable>(name, [&] {
    const TextColumns columns{.table = {.format = TableFormat::tsv, .header = task.header, .ragged = task.irregular},
                              .text = task.text,
                              .pair = task.pair,
                              .label = task.label,
                              .irregular = task.irregular};
    // Numbers in the file are indices in the task's original order.
    LabelledTable table =
        read_labelled_table(file, columns, {.numbers = task.classes.empty(), .classes = task.classes, .first = 0});
    for (std::int32_t& label : table.labels)
      label = static_cast<std::int32_t>(std::ranges::find(classes, task.classes[static_cast<std::size_t>(label)]) -
                                        classes.begin());
    table.classes = classes;
    return std::make_shared<const LabelledTable>(std::move(table));
  });
}

struct OpenedGlue {
  std::int64_t max_length;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const LabelledTable> table;
  DatasetInfo info;
};

OpenedGlue open_glue(const DatasetOptions& options) {
  const GlueOptions own = glue_options(options);
  const GlueTask& task = task_of(own.task);
  const std::vector<std::string> classes = classes_of(task, own);
  OpenedGlue opened{own.max_length, tokenizer_of(own, options), table_of(task, classes, options), {}};
  SampleFields fields = token_fields(own, opened.tokenizer->vocabulary());
  fields.push_back(label_field(opened.table->kind, std::ssize(task.classes)));
  opened.info = {.name = "glue",
                 .size = samples_to_use(options, opened.table->table->size()),
                 .fields = std::move(fields),
                 .classes = classes,
                 .metrics = task.metrics,
                 .vocabulary = opened.tokenizer->vocabulary(),
                 .text_columns = sequence_columns(opened.table->columns)};
  return opened;
}

/// Describes the published task without its files, which suffices for planning.
DatasetInfo describe_glue(const DatasetOptions& options) {
  if (!options.path.empty()) return open_glue(options).info;
  const GlueOptions own = glue_options(options);
  const GlueTask& task = task_of(own.task);
  SampleFields fields = token_fields(own, Vocabulary{});
  fields.push_back(
      label_field(task.classes.empty() ? LabelKind::number : LabelKind::one_class, std::ssize(task.classes)));
  const std::int64_t published = options.split == Split::train ? task.train_size : task.validation_size;
  return {.name = "glue",
          .size = options.size() > 0 ? options.size() : published,
          .fields = std::move(fields),
          .classes = classes_of(task, own),
          .metrics = task.metrics};
}

/// Recognises a folder with the published name of a task.
Recognition recognize_glue(const fs::path& path, OpenedFiles&) {
  std::error_code ignored;
  const fs::path folder = fs::absolute(path, ignored).lexically_normal();
  const std::string name = (folder.has_filename() ? folder : folder.parent_path()).filename().native();
  for (const GlueTask& task : glue_tasks())
    if (task.folder == name && fs::is_regular_file(folder / "train.tsv", ignored))
      return {.certainty = 2, .settings = {{"task", task.name}}};
  return {};
}

const RegisterDataset glue(
    "glue", {.describe = describe_glue,
             .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
               const OpenedGlue opened = open_glue(options);
               return std::make_unique<LabelledText>(opened.info, opened.tokenizer, opened.table, opened.max_length);
             },
             .options = GlueOptions{},
             .inputs = [](const DatasetOptions& options) { return text_inputs(glue_options(options), options); },
             .recognize = recognize_glue});

}  // namespace
}  // namespace lacuna
