// The columns of a table of texts: by name, by number, or found by usual names and by content.
#pragma once

#include "data/text/labelled_text.h"

#include <filesystem>
#include <optional>

namespace lacuna {

/// The format that a file's name says; nothing: it is no table of texts.
std::optional<TableFormat> table_format(const std::filesystem::path& file);
/// The same; a file `.txt` is read as TSV, and other files are refused.
TableFormat format_of_table(const std::filesystem::path& file);

/// Contents of a row: a text or a pair with a label, texts alone, pairs alone.
enum class RowsOf : std::uint8_t { labelled, texts, pairs };

/// Completes the columns that are given, by name or by number from 1. The first row is a header if it contains their
/// names or a usual one. Labelled rows may have a second text, and may be two texts without a label; a label of other
/// rows is not looked for.
TextColumns text_columns(const std::filesystem::path& file, TextColumns given, RowsOf rows);

/// The columns that make one sequence, for DatasetInfo.
std::vector<std::string> sequence_columns(const TextColumns& columns);

/// Refuses a first row that is read as a sample and looks like a header.
void refuse_hidden_header(const std::filesystem::path& file, const TextColumns& columns);

}  // namespace lacuna
