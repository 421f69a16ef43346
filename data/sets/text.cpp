// The data set of a user's labelled texts: TSV, CSV and JSON lines. Options that are not given are inferred from the
// file.
#include "core/text.h"
#include "data/class_names.h"
#include "data/text/labelled_text.h"
#include "data/text/split_rows.h"
#include "data/text/text_columns.h"

#include "core/error.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace lacuna {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> text_extensions{"tsv", "csv", "jsonl", "json", "txt"};

struct OwnTextOptions : TextOptions {
  std::string validation, text, pair;
  bool separate = false;
  std::string label, labels, separator;
  double val_fraction = usual_fraction;

  static Fields fields() {
    using O = OwnTextOptions;
    return Fields{field("validation", &O::validation, is_path, validation_file_help),
                  field("text", &O::text, "column of the text, by name or by number from 1; empty: detected"),
                  field("pair", &O::pair, "column of a second text; empty: none"),
                  field("separate", &O::separate,
                        "whether the second text is a sequence of its own, as for sentence embeddings"),
                  field("val_fraction", &O::val_fraction, val_fractions,
                        "fraction of each class held out for evaluation, by the texts and data.seed, if there is no "
                        "file for it"),
                  field("label", &O::label,
                        "column of the label, or several with commas, a 0 or 1 for each class; empty: detected"),
                  field("separator", &O::separator,
                        "separator between the labels of a text that may have several, as `;`; empty: it has one, or a "
                        "list"),
                  field("labels", &O::labels, PathKind::if_text_file,
                        "names of the classes in their order, as `negative, positive`; `numbers`: labels are numbers "
                        "to predict; empty: detected")} +
           rows_of_base<OwnTextOptions, TextOptions>();
  }
};

OwnTextOptions text_options(const DatasetOptions& options) {
  return read_options<OwnTextOptions>("data set text", options.settings);
}

/// The columns of a file, as the options say or as found.
TextColumns columns_of(const OwnTextOptions& own, const fs::path& file) {
  return text_columns(file,
                      {.text = own.text,
                       .pair = own.pair,
                       .label = own.label,
                       .separate = own.separate,
                       .label_separator = own.separator},
                      RowsOf::labelled);
}

KnownLabels labels_in(const std::string& labels) {
  if (labels.empty()) return {};
  if (labels == "numbers") return {.numbers = true};
  return {.classes = class_names(labels)};
}

std::shared_ptr<const LabelledTable> table_of(const OwnTextOptions& own, const DatasetOptions& options) {
  DatasetOptions training = options;  // the training labels define the classes
  training.split = Split::train;
  // Without a file to evaluate on, a part of the training file is held out.
  if (options.split == Split::validation && !validation_file(own.validation, options, text_extensions))
    return table_of(own, training);
  const fs::path file = split_file(own.validation, options, text_extensions);
  const auto read = [&](const KnownLabels& known, const TextColumns& columns) {
    const std::string name = fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{} {} {} {} {}\n{}", file.native(), columns.text,
                                         columns.pair, columns.label, fmt::join(columns.labels, ","),
                                         columns.label_separator, columns.separate, columns.table.header, known.numbers,
                                         known.multi_hot, known.first.value_or(-1), fmt::join(known.classes, "\n"));
    return options.files->get<LabelledTable>(
        name, [&] { return std::make_shared<const LabelledTable>(read_labelled_table(file, columns, known)); });
  };
  KnownLabels known = labels_in(own.labels);
  if (options.split == Split::train || known.numbers) {
    const TextColumns columns = columns_of(own, file);
    const bool guessed = own.text.empty() || own.label.empty();
    if (!columns.table.header && guessed && !known.numbers && known.classes.empty())
      refuse_hidden_header(file, columns);
    return read(known, columns);
  }
  const std::shared_ptr<const LabelledTable> trained = table_of(own, training);
  TextColumns columns = columns_of(own, file);
  if (columns.table.header == trained->columns.table.header) {
    const TableOptions table = columns.table;
    columns = trained->columns;
    columns.table = table;
  }
  return read({.numbers = trained->kind == LabelKind::number,
               .classes = trained->classes,
               .multi_hot = trained->multi_hot,
               .first = trained->first},
              columns);
}

std::string describe_table(const LabelledTable& table) {
  std::string text =
      fmt::format("{}: {}{}, text in `{}`", table.table->path().native(), name_of(table.columns.table.format),
                  table.columns.table.header ? "" : " without a header", table.columns.text);
  if (!table.columns.pair.empty()) text += fmt::format(", pair in `{}`", table.columns.pair);
  if (table.kind == LabelKind::none) return text + ", no labels";
  text += fmt::format(", labels in `{}`: ", table.columns.labels.empty()
                                                ? table.columns.label
                                                : fmt::format("{}", fmt::join(table.columns.labels, "`, `")));
  if (table.kind == LabelKind::number) return text + "numbers to predict";
  constexpr std::size_t shown = 8;
  const std::vector<std::string>& classes = table.classes;
  text += fmt::format(
      "{} classes{}: {}", classes.size(), table.kind == LabelKind::several_classes ? ", any number of them a text" : "",
      fmt::join(classes.begin(), classes.begin() + static_cast<std::ptrdiff_t>(std::min(shown, classes.size())), ", "));
  return text + (classes.size() > shown ? ", ..." : "");
}

std::string describe(const LabelledTable& table, const SplitRows& split) {
  const std::string text = describe_table(table) + (table.columns.table.header ? "" : "; the first row is a sample");
  const std::string held = split.description();
  return held.empty() ? text : text + "; " + held;
}

struct OpenedText {
  std::int64_t max_length;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const LabelledTable> table;
  std::vector<std::int32_t> rows;  // of the split
  DatasetInfo info;
};

SplitRows rows_of(const OwnTextOptions& own, const DatasetOptions& options, const LabelledTable& table) {
  const auto name_of = [&](std::int64_t row) {
    const std::vector<Cell> cells = table.table->row(row);
    return cells[1].text + (table.columns.pair.empty() ? "" : "\t" + cells[2].text);
  };
  return split_rows({.file = table.table->path(),
                     .evaluated = validation_file(own.validation, options, text_extensions).value_or(""),
                     .count = table.table->size(),
                     .labels = table.labels,
                     .name_of = name_of},
                    own.val_fraction, options);
}

OpenedText open_text(const DatasetOptions& options) {
  const OwnTextOptions own = text_options(options);
  OpenedText opened{own.max_length, tokenizer_of(own, options), table_of(own, options), {}, {}};
  SplitRows split = rows_of(own, options, *opened.table);
  opened.rows = std::move(split.rows);
  SampleFields fields = token_fields(own, opened.tokenizer->vocabulary());
  if (opened.table->columns.separate) {
    if (opened.table->columns.pair.empty()) reject("data.separate: expected data.pair, the column of a second text");
    const SampleFields pair = pair_fields(fields);
    fields.insert(fields.end(), pair.begin(), pair.end());
  }
  if (opened.table->kind != LabelKind::none)
    fields.push_back(label_field(opened.table->kind, std::ssize(opened.table->classes)));
  opened.info = {.name = "text",
                 .size = samples_to_use(options, std::ssize(opened.rows)),
                 .fields = std::move(fields),
                 .classes = opened.table->classes,
                 .description = describe(*opened.table, split),
                 .vocabulary = opened.tokenizer->vocabulary(),
                 .text_columns = sequence_columns(opened.table->columns),
                 .held_out = split.held_out};
  return opened;
}

/// Whether a file is a table: of JSON, rows of values, or one list of them, other than SQuAD's one object.
bool has_rows(const fs::path& file) {
  if (format_of_table(file) != TableFormat::json_lines || lower_case(file.extension().string()) != ".json") return true;
  try {
    return usual_column(Table(file, {.format = TableFormat::json_lines}).columns(), {"data"}).empty();
  } catch (const Error&) {  // an object over several lines
    return false;
  }
}

/// Recognises a table, or a folder with a training table.
Recognition recognize_text(const fs::path& path, OpenedFiles&) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  for (const char* const extension : {".tsv", ".csv", ".jsonl", ".json", ".ndjson"}) {
    const fs::path file = is_folder ? path / fmt::format("train{}", extension) : path;
    if (lower_case(file.extension().string()) == extension && fs::is_regular_file(file, ignored) && has_rows(file))
      return {.certainty = word_keys(file) ? 0 : 1};
  }
  return {};
}

const RegisterDataset text(
    "text", {.describe = [](const DatasetOptions& options) { return open_text(options).info; },
             .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
               const OpenedText opened = open_text(options);
               return std::make_unique<LabelledText>(opened.info, opened.tokenizer, opened.table, opened.max_length,
                                                     opened.rows);
             },
             .options = OwnTextOptions{},
             .inputs = [](const DatasetOptions& options) { return text_inputs(text_options(options), options); },
             .recognize = recognize_text});

}  // namespace
}  // namespace lacuna
