// Folders of sentence-transformers: how one vector is made of a text's tokens.
#pragma once

#include "models/folders/folder.h"

#include <cstdint>

namespace lacuna {

/// Reads modules.json, the files that it names, and the maximal length of a text. Modules that Lacuna does not compute
/// are refused for the head `embedding`.
void read_sentence_modules(const std::filesystem::path& folder, ModelFolder& description);

/// The same files of a model with the head `embedding` of `width` numbers.
std::map<std::string, std::string> sentence_modules(const std::vector<HyperParameter>& values, std::int64_t width);

/// Says in tokenizer_config.json how long a text may be, where it would say otherwise.
void write_longest(const std::vector<HyperParameter>& values, std::map<std::string, std::string>& texts);

}  // namespace lacuna
