// Inputs of `lacuna predict`: pictures and texts of files, folders, archives, tables and the command line.
#pragma once

#include "core/error.h"
#include "core/tree.h"
#include "data/text/text_columns.h"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lacuna::apps {

struct Input {
  std::string name, place;  // in results, and in messages
  std::function<std::string()> read;
  std::optional<std::string> pair{};  // a second text
  std::string row{};                  // of a table: an object of JSON
};
using TakeInput = std::function<void(Input)>;
/// Called with the reason that a row cannot be read.
using TakeUnread = std::function<void(const Error&)>;

/// JSON on one line; bytes that are no UTF-8 are replaced.
std::string to_line(const nlohmann::ordered_json& json);

/// Pictures of files, folders and tar archives.
void each_image(const std::vector<std::string>& paths, const TakeInput& take);
/// The pictures that a table names, relative to its folder or to that of the run's. `given`: their column; empty: the
/// run's, or the one that has names of pictures.
void each_picture_row(const std::string& file, std::string given, const Tree& run, const TakeInput& take,
                      const TakeUnread& unread);

/// Texts of the command line, or the lines of a file or of standard input.
void each_text(const std::vector<std::string>& texts, const std::string& input, const TakeInput& take);
/// The columns of texts: those of the command line, those that the run learned from, or usual ones.
TextColumns columns_to_read(const std::string& file, const std::vector<std::string>& given,
                            const std::vector<std::string>& learned);
void each_text_row(const std::string& file, const TextColumns& columns, const TakeInput& take,
                   const TakeUnread& unread);

}  // namespace lacuna::apps
