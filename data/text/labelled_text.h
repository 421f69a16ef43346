// Table rows as labelled texts or pairs of texts. A label is a class, several classes (multi-label), or a number.
#pragma once

#include "data/text/table.h"
#include "data/text/text_dataset.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
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
};

/// The labels that the configuration gives.
struct KnownLabels {
  bool numbers = false;                // labels are regression targets
  std::vector<std::string> classes{};  // class names, in order; empty: taken from the file
  bool multi_hot = false;              // as in LabelledTable, of the rows to train on
};

/// Maps labels as written in a file to class indices: class names and, if no name is a number, the indices themselves.
std::map<std::string, std::int32_t, std::less<>> class_numbers(const std::vector<std::string>& classes);

/// Reads a file once. Labels are class names, whole numbers (1.0 is 1), other numbers (regression targets), lists of
/// names, or lists with a 0 or 1 for each class. Unknown classes are sorted by number, or else by the bytes of their
/// names; those between the least and the greatest number belong to them. Rejects malformed rows, empty texts, labels
/// that stand for a missing one (nan), a class alone, and labels outside the known classes; the message names file and
/// line.
LabelledTable read_labelled_table(const std::filesystem::path& path, const TextColumns& columns,
                                  const KnownLabels& known);

/// A label as whole number without a fraction, as 1 for 1.0; others as they are.
std::string whole_label(const std::string& label);

/// The field `labels` of a kind: one class i64 [], several classes f32 [classes] (0 or 1), number f32 [].
SampleField label_field(LabelKind kind, std::int64_t classes);

class LabelledText final : public TextDataset {
 public:
  LabelledText(DatasetInfo info, std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const LabelledTable> table,
               std::int64_t max_length, std::vector<std::int32_t> rows = {});
  std::int64_t label(std::int64_t index) const override;

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
