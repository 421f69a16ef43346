// Table rows as labelled texts or pairs of texts. A label is a class, several classes (multi-label), or a number.
#pragma once

#include "data/text/table.h"
#include "data/text/text_dataset.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lacuna {

enum class LabelKind : std::uint8_t { one_class, several_classes, number, none };

/// The columns of a file and how to read them.
struct TextColumns {
  TableOptions table{};
  std::string text, pair, label;      // column names; `pair` may be empty, and `label` for rows without one
  std::vector<std::string> labels{};  // in place of `label`: a column of 0 and 1 for each class
  bool irregular = false;             // skip rows that lack columns or a label, and allow empty texts
  bool separate = false;              // whether the pair is a separate sequence
  std::string label_separator{};      // separator of multiple labels in a row; empty: one label per row
};

/// A table with all rows checked.
struct LabelledTable {
  std::shared_ptr<const Table> table;
  TextColumns columns;
  LabelKind kind = LabelKind::one_class;
  std::vector<std::string> classes;                // names by class index
  std::vector<float> numbers;                      // [rows], for LabelKind::number
  std::vector<std::int32_t> labels;                // [rows], for LabelKind::one_class
  std::vector<std::vector<std::int32_t>> several;  // [rows], for LabelKind::several_classes
  bool multi_hot = false;                          // whether lists of labels had a 0 or 1 for each class
  std::optional<std::int64_t> first{};             // as in KnownClasses
};

/// The labels that the configuration gives.
struct KnownLabels {
  bool numbers = false;                // labels are regression targets
  std::vector<std::string> classes{};  // class names, in order; empty: taken from the file
  bool multi_hot = false;              // as in LabelledTable, of the rows to train on
  std::optional<std::int64_t> first{};
};

/// Reads a file once. Labels are those of classes (data/labels.h), numbers with fractions (regression targets), lists
/// of classes, or lists with a 0 or 1 for each class. Rejects malformed rows, empty texts and a class alone; the
/// message names file and line.
LabelledTable read_labelled_table(const std::filesystem::path& path, const TextColumns& columns,
                                  const KnownLabels& known);

/// The field `labels` of a kind: one class i64 [], several classes f32 [classes] (0 or 1), number f32 [].
SampleField label_field(LabelKind kind, std::int64_t classes);

class LabelledText final : public TextDataset {
 public:
  LabelledText(DatasetInfo info, std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const LabelledTable> table,
               std::int64_t max_length, std::vector<std::int32_t> rows = {});
  std::int64_t label(std::int64_t index) const override;
  /// The beginning of the sample's text, or texts, in quotation marks: a line for messages and lists.
  std::string origin(std::int64_t index) const;

 private:
  EncodedText encode(std::int64_t index) const override;
  void set_targets(const EncodedText& text, Sample& sample) const override;

  std::size_t row_of(std::int64_t index) const {
    const auto i = static_cast<std::size_t>(index);
    return rows_.empty() ? i : static_cast<std::size_t>(rows_[i]);
  }

  std::shared_ptr<const LabelledTable> table_;
  std::int64_t max_length_;
  std::vector<std::int32_t> rows_;  // [samples]: of the table; empty: all
};

}  // namespace lacuna
