// The data set of images listed in a table: CSV, TSV or JSON lines with a path column and a label column.
#include "core/text.h"
#include "data/class_names.h"
#include "data/encoded_images.h"
#include "data/files/input_file.h"
#include "data/files/picture_names.h"
#include "data/hold_out.h"
#include "data/labels.h"
#include "data/text/labelled_text.h"

#include "core/error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

namespace lacuna {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> table_extensions{"csv", "tsv", "jsonl"};
const std::vector<std::string> training_tables{"train", "training", "metadata", "labels"};
const std::vector<std::string> validation_tables{"val", "valid", "validation", "dev", "test"};
const std::vector<std::string> image_names{"image",    "file_name",  "filename",   "file",     "path",
                                           "filepath", "file_path",  "image_path", "img_path", "img",
                                           "image_id", "image_name", "id"};
const std::vector<std::string> label_columns{"label",  "labels", "class", "class_name", "category",
                                             "target", "tags",   "score", "rating",     "y"};

struct ImageTableOptions {
  std::string image, label, labels, separator, images, extension, validation;
  double val_fraction = usual_fraction;

  static Fields fields() {
    using O = ImageTableOptions;
    return {
        field("image", &O::image, "column of the image's path, by name or by number from 1; empty: detected"),
        field("label", &O::label, "column of the label; empty: detected"),
        field("labels", &O::labels, PathKind::if_text_file,
              "names of the classes in their order, or a file `.txt` of them; `numbers`: labels are numbers to "
              "predict; empty: detected"),
        field("separator", &O::separator,
              "separator between the labels of an image that may have several, as `;`; empty: it has one, or a "
              "list of JSON"),
        field("images", &O::images, is_path, "folder that paths are relative to; empty: that of the table"),
        field("extension", &O::extension, "extension to append to paths, as `.jpg`"),
        field("validation", &O::validation, is_path,
              "table to evaluate on; empty: `val` or the like beside the training table"),
        field(
            "val_fraction", &O::val_fraction, val_fractions,
            "fraction of each class held out for evaluation, by the paths and data.seed, if there is no table for it")};
  }
};

TableFormat image_table_format(const fs::path& file) {
  const std::string extension = lower_case(file.extension().string());
  if (extension == ".csv") return TableFormat::csv;
  if (extension == ".jsonl") return TableFormat::json_lines;
  if (extension == ".tsv" || extension == ".txt") return TableFormat::tsv;
  reject("{}: expected a table .csv, .tsv or .jsonl", file.native());
}

std::optional<fs::path> table_in(const fs::path& folder, const std::vector<std::string>& names) {
  std::error_code ignored;
  for (const std::string& name : names)
    for (const std::string& extension : table_extensions)
      if (fs::path file = folder / (name + "." + extension); fs::is_regular_file(file, ignored)) return file;
  return std::nullopt;
}

bool is_number(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

TextColumns columns_of(const fs::path& file, const ImageTableOptions& own) {
  TextColumns columns;
  columns.table.format = image_table_format(file);
  columns.text = own.image;
  columns.label = own.label;
  columns.label_separator = own.separator;
  const std::vector<std::string> names = Table(file, columns.table).columns();
  const bool lines = columns.table.format == TableFormat::json_lines;
  // The table has no header if the first row contains an image path.
  const auto image = std::ranges::find_if(names, [](const std::string& cell) { return is_image_name(cell); });
  columns.table.header = lines || (image == names.end() && !is_number(columns.text));
  if (columns.table.header) {
    if (columns.text.empty()) columns.text = usual_column(names, image_names);
    if (columns.label.empty()) columns.label = usual_column(names, label_columns);
  } else {
    const auto place = image == names.end() ? 0 : image - names.begin();
    if (columns.text.empty()) columns.text = std::to_string(place + 1);
    if (columns.label.empty() && names.size() == 2) columns.label = std::to_string(2 - place);
  }
  if (columns.text.empty() || columns.label.empty())
    reject("{}: expected data.{}, the name of a column{}: there are {}", file.native(),
           columns.text.empty() ? "image" : "label", columns.table.header ? "" : " (its number from 1)",
           columns.table.header ? fmt::format("{}", fmt::join(names, ", ")) : fmt::format("{} columns", names.size()));
  return columns;
}

/// The rows of a table; all their images exist.
struct Rows : LabelledTable {
  fs::path images;
  std::string extension;

  fs::path path(std::int64_t row) const { return images / (table->row(row)[1].text + extension); }
};

std::shared_ptr<const Rows> read_rows(const fs::path& file, const ImageTableOptions& own, const KnownLabels& known,
                                      OpenedFiles& files) {
  const TextColumns columns = columns_of(file, own);
  const fs::path images = own.images.empty() ? file.parent_path() : fs::path(own.images);
  const std::string name = fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{} {}\n{}", file.native(), columns.text, columns.label,
                                       columns.label_separator, images.native(), own.extension, known.numbers,
                                       known.first.value_or(-1), fmt::join(known.classes, "\n"));
  return files.get<Rows>(name, [&] {
    auto rows = std::make_shared<Rows>();
    static_cast<LabelledTable&>(*rows) = read_labelled_table(file, columns, known);
    rows->images = images;
    rows->extension = own.extension;
    for (std::int64_t i = 0; i < rows->table->size(); ++i) {
      const fs::path image = rows->path(i);
      std::error_code ignored;
      if (const std::string_view format = unread_format(image.native()); !format.empty())
        reject("{}: the image {} is {}, which is not read: convert it to PNG, as by ImageMagick's `mogrify`",
               rows->table->where(i), image.native(), format);
      if (!fs::is_regular_file(image, ignored))
        reject(
            "{}: expected the image {}, and there is no such file: data.images names the folder that paths begin in, "
            "data.extension what they lack",
            rows->table->where(i), image.native());
    }
    return rows;
  });
}

struct TableSplit {
  std::shared_ptr<const Rows> rows;
  std::vector<std::int32_t> places;  // [samples]: rows of the split
  std::string description;
  std::shared_ptr<const HeldOut> held_out;  // null if another table is evaluated on
};

TableSplit split_of(const DatasetOptions& options) {
  const auto own = read_options<ImageTableOptions>("data set image_table", options.settings);
  if (options.path.empty()) reject("data.path: expected a table of images, or a folder with train.csv");
  std::error_code ignored;
  const bool is_folder = fs::is_directory(options.path, ignored);
  const std::optional<fs::path> file = is_folder ? table_in(options.path, training_tables) : options.path;
  if (!file)
    reject("{}: expected a table {}, where the extension is one of {}", options.path.native(),
           fmt::join(training_tables, ", "), fmt::join(table_extensions, ", "));
  const KnownLabels known = own.labels == "numbers" ? KnownLabels{.numbers = true}
                                                    : KnownLabels{.numbers = false, .classes = class_names(own.labels)};
  const auto training = read_rows(*file, own, known, *options.files);
  if (training->kind != LabelKind::number && training->classes.size() < 2)
    reject("{}: expected two classes at least, got {}", file->native(), fmt::join(training->classes, ", "));

  std::optional<fs::path> validation;
  if (!own.validation.empty()) validation = own.validation;
  if (!validation && (is_folder || file->stem() == "train"))
    validation = table_in(file->parent_path(), validation_tables);
  const double fraction = own.val_fraction;
  if (validation && fraction != usual_fraction)
    reject("data.val_fraction is {}, but {} has images to evaluate on", fraction, validation->native());
  std::vector<bool> held(static_cast<std::size_t>(training->table->size()));
  auto sides = std::make_shared<HeldOut>();
  const bool is_training = options.split == Split::train;
  if (!validation && options.hold_out == HoldOut::none) {
    held.assign(held.size(), !is_training);
  } else if (!validation) {
    std::vector<std::int32_t> strata = training->labels;
    strata.resize(held.size());  // other kinds of labels count as one class
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < training->table->size(); ++i) names.push_back(training->table->row(i)[1].text);
    held = held_out(names, names, strata, {options.hold_out, fraction, options.seed, options.held_out_before});
    for (std::size_t i = 0; i < held.size(); ++i)
      if (held[i]) sides->names.push_back(names[i]);
    sides->trained_on = std::ssize(held) - std::ssize(sides->names);
    if (std::ranges::count(held, true) == 0)
      reject("{}: no image can be held out for evaluation, since each class has one: data.validation names a table",
             file->native());
  }
  TableSplit split{training, {}, {}, {}};
  if (!sides->names.empty()) split.held_out = std::move(sides);
  if (!is_training && validation) {
    split.rows = read_rows(
        *validation, own,
        {.numbers = training->kind == LabelKind::number, .classes = training->classes, .first = training->first},
        *options.files);
    held.assign(static_cast<std::size_t>(split.rows->table->size()), true);
  }
  for (std::size_t i = 0; i < held.size(); ++i)
    if (held[i] != is_training) split.places.push_back(static_cast<std::int32_t>(i));
  if (is_training)
    split.description = fmt::format(
        "image_table {}: images in `{}`, labels in `{}`: {}; {}", file->native(), training->columns.text,
        training->columns.label,
        training->kind == LabelKind::number
            ? "numbers to predict"
            : fmt::format("{} classes{}: {}", training->classes.size(),
                          training->kind == LabelKind::several_classes ? ", any number of them an image" : "",
                          some_names(training->classes)),
        validation       ? fmt::format("evaluated on {}", validation->native())
        : split.held_out ? fmt::format("{} to evaluate on, {}", split.held_out->names.size(),
                                       describe_held_out(*split.held_out, fraction))
                         : "evaluated on all");
  return split;
}

DatasetInfo info_of(const DatasetOptions& options, const TableSplit& split) {
  DatasetInfo info = encoded_images_info("image_table", options, std::ssize(split.places));
  info.fields = encoded_image_fields(label_field(split.rows->kind, std::ssize(split.rows->classes)));
  info.classes = split.rows->classes;
  info.description = split.description;
  info.held_out = split.held_out;
  return info;
}

class ImageTable final : public EncodedImages {
 public:
  ImageTable(const DatasetOptions& options, TableSplit split)
      : EncodedImages(info_of(options, split), std::ssize(split.places), options.seed),
        rows_(std::move(split.rows)),
        places_(std::move(split.places)) {}
  std::string origin(std::int64_t index) const override { return rows_->path(row_of(index)).native(); }
  std::int64_t label(std::int64_t index) const override {
    if (rows_->kind != LabelKind::one_class) return EncodedImages::label(index);
    return rows_->labels[static_cast<std::size_t>(row_of(index))];
  }

 private:
  std::int64_t row_of(std::int64_t index) const { return places_[place_of(index)]; }
  void read_file(std::int64_t index, Sample& sample) const override {
    const std::int64_t row = row_of(index);
    const InputFile file(rows_->path(row));
    Tensor encoded = sample.make("images", {file.size()}, DType::u8);
    file.read(0, std::span(encoded.data<std::uint8_t>(), static_cast<std::size_t>(file.size())));
    sample.set("images", std::move(encoded));
    const auto i = static_cast<std::size_t>(row);
    const bool several = rows_->kind == LabelKind::several_classes;
    Tensor label = sample.make("labels", several ? Shape{std::ssize(rows_->classes)} : Shape{},
                               rows_->kind == LabelKind::one_class ? DType::i64 : DType::f32);
    if (rows_->kind == LabelKind::one_class) {
      *label.data<std::int64_t>() = rows_->labels[i];
    } else if (several) {
      label.fill(0);
      for (const std::int32_t one : rows_->several[i]) label.data<float>()[one] = 1;
    } else {
      *label.data<float>() = rows_->numbers[i];
    }
    sample.set("labels", std::move(label));
  }

  std::shared_ptr<const Rows> rows_;
  std::vector<std::int32_t> places_;
};

/// Recognises a table with an image name in its first two rows, the first of which may be a header.
Recognition recognize_table(const fs::path& path, OpenedFiles&) {
  std::error_code ignored;
  const std::optional<fs::path> file = fs::is_directory(path, ignored) ? table_in(path, training_tables) : path;
  if (!file || std::ranges::find(table_extensions,
                                 lower_case(file->extension().string()).substr(file->has_extension() ? 1 : 0)) ==
                   table_extensions.end())
    return {};
  const TableFormat format = image_table_format(*file);
  const auto rows = first_rows(*file, format, 2);
  const auto has_image = [](const std::vector<std::string>& row) {
    return std::ranges::any_of(row, [](const std::string& cell) { return is_image_name(cell); });
  };
  return {.certainty = std::ranges::any_of(rows, has_image) ? 2 : 0};
}

const RegisterDataset image_table(
    "image_table", {.describe = [](const DatasetOptions& options) { return info_of(options, split_of(options)); },
                    .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
                      return std::make_unique<ImageTable>(options, split_of(options));
                    },
                    .options = ImageTableOptions{},
                    .recognize = recognize_table});

}  // namespace
}  // namespace lacuna
