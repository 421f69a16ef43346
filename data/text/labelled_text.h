// Rows of a table as labelled texts or pairs: classes, several classes at once, or a number.
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

enum class LabelKind : std::uint8_t { one_class, several_classes, number };

/// How the rows of a file are read.
struct TextColumns {
  TableOptions table{};
  std::string text, pair, label;  // names of columns; `pair` may be empty
  bool irregular = false;         // rows that lack columns or a label are left out, and texts may be empty
  bool separate = false;          // whether the pair is a sequence of its own
  std::string label_separator{};  // between the labels of a row, which are several then; empty: each row has one
};

/// A table whose rows were all checked.
struct LabelledTable {
  std::shared_ptr<const Table> table;
  TextColumns columns;
  LabelKind kind = LabelKind::one_class;
  std::vector<std::string> classes;                // names, by number
  std::vector<float> numbers;                      // [rows], of kind number
  std::vector<std::int32_t> labels;                // [rows], of one class
  std::vector<std::vector<std::int32_t>> several;  // [rows]
};

/// The labels that the configuration gives.
struct KnownLabels {
  bool numbers = false;                // they are numbers to be predicted
  std::vector<std::string> classes{};  // the names there are, in order; empty: those that the file has
};

/// Numbers of classes by what a file calls them: their names and, where no name is itself a number, their numbers.
std::map<std::string, std::int32_t, std::less<>> class_numbers(const std::vector<std::string>& classes);

/// Reads a file once. Labels are the names of classes, whole numbers from 0 that stand for classes, or other numbers,
/// which are to be predicted themselves; lists of names are several classes at once. Classes that are not known are in
/// the order of their numbers, or of the bytes of their names. Refuses broken rows, empty texts, and labels that are
/// none of the known ones, with file and line.
LabelledTable read_labelled_table(const std::filesystem::path& path, const TextColumns& columns,
                                  const KnownLabels& known);

/// `labels` of a kind: i64 [] of one class, f32 [classes] (0 or 1) of several, f32 [] of a number.
SampleField label_field(LabelKind kind, std::int64_t classes);

class LabelledText final : public TextDataset {
 public:
  LabelledText(DatasetInfo info, std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const LabelledTable> table,
               std::int64_t max_length);
  std::int64_t label(std::int64_t index) const override;

 private:
  EncodedText encode(std::int64_t index) const override;
  void set_targets(const EncodedText& text, Sample& sample) const override;

  std::shared_ptr<const LabelledTable> table_;
  std::int64_t max_length_;
};

}  // namespace lacuna
