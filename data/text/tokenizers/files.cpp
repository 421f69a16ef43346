// The files of a tokenizer in a folder.
#include "core/error.h"
#include "data/text/text_file.h"
#include "data/text/tokenizers/decoder.h"
#include "data/text/tokenizers/normalizer.h"
#include "data/text/tokenizers/parts.h"
#include "data/text/tokenizers/pre_tokenizer.h"
#include "data/text/tokenizers/token_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

namespace lacuna {

namespace fs = std::filesystem;

TokenizerParts::TokenizerParts() = default;
TokenizerParts::TokenizerParts(TokenizerParts&&) noexcept = default;
TokenizerParts::~TokenizerParts() = default;

std::int32_t TokenizerParts::find(std::string_view token) const {
  if (const std::int32_t id = model->find(token); id >= 0) return id;
  const auto found = std::ranges::find(added, token, &AddedToken::content);
  return found == added.end() ? -1 : found->id;
}

namespace {

/// The files of chat templates in a folder, by the template's name, as transformers 5 writes them.
std::map<std::string, fs::path> template_files(const fs::path& folder) {
  const fs::path more = "additional_chat_templates";
  std::map<std::string, fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder / more, ignored))
    if (entry.path().extension() == ".jinja") files[entry.path().stem().string()] = more / entry.path().filename();
  if (fs::exists(folder / "chat_template.jinja", ignored)) files["default"] = "chat_template.jinja";
  return files;
}

}  // namespace

std::map<std::string, std::string> tokenizer_texts(const fs::path& path) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  std::map<std::string, fs::path> files;  // by standard name
  if (is_folder)
    for (const char* const name : {"tokenizer.json", "vocab.txt"}) files.emplace(name, path / name);
  else
    files.emplace(path.extension() == ".json" ? "tokenizer.json" : "vocab.txt", path);
  std::map<std::string, std::string> texts;
  const auto take = [&] {
    for (const auto& [name, file] : files)
      if (fs::is_regular_file(file, ignored)) texts[name] = read_whole_file(file, "tokenizer", 256 << 20);
  };
  take();
  if (texts.empty()) return texts;
  files.clear();
  const fs::path folder = is_folder ? path : path.parent_path();
  for (const char* const name : {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                                 "generation_config.json", "config_sentence_transformers.json"})
    files.emplace(name, folder / name);
  for (const auto& [name, file] : template_files(folder)) files.emplace(file.string(), folder / file);
  take();
  return texts;
}

void set_chat_template(const std::string& chat_template, std::map<std::string, std::string>& texts) {
  std::erase_if(texts, [](const auto& one) { return one.first.ends_with(".jinja"); });
  texts["chat_template.jinja"] = chat_template;
  const auto config = texts.find("tokenizer_config.json");
  if (config == texts.end()) return;
  auto json = nlohmann::ordered_json::parse(config->second, nullptr, false);
  if (json.is_object() && json.erase("chat_template") > 0) config->second = json.dump(2) + "\n";
}

TokenizerParts read_tokenizer_files(const fs::path& path) {
  std::error_code ignored;
  fs::path file = path;
  if (fs::is_directory(path, ignored)) {
    file = path / "tokenizer.json";
    if (!fs::exists(file, ignored)) file = path / "vocab.txt";
    if (!fs::exists(file, ignored)) {
      for (const char* const other : {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.json"})
        if (fs::exists(path / other, ignored))
          reject(
              "{}: expected tokenizer.json or vocab.txt, got {} alone. transformers 5 with sentencepiece and protobuf "
              "writes the one from the other: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER); where "
              "that "
              "asks for trust_remote_code, PreTrainedTokenizerFast does it in place of AutoTokenizer, without the "
              "special tokens of the folder's own code (docs/text.md has those of ChatGLM)",
              path.native(), other);
      reject("{}: expected a folder with tokenizer.json or vocab.txt; the folder of a model has one", path.native());
    }
  }
  const std::string text = read_whole_file(file, "tokenizer", 256 << 20);
  const auto beside = [&](const char* name) {
    const fs::path other = file.parent_path() / name;
    if (!fs::exists(other, ignored)) return TokenizerText{.source = other.native()};
    return TokenizerText{read_whole_file(other, "tokenizer configuration", 64 << 20), other.native()};
  };
  TokenizerSettings settings{.config = beside("tokenizer_config.json"),
                             .special = beside("special_tokens_map.json"),
                             .added = beside("added_tokens.json")};
  for (const auto& [name, template_file] : template_files(file.parent_path()))
    settings.chat_templates[name] =
        read_whole_file(file.parent_path() / template_file, "chat template", std::int64_t{1} << 20);
  if (file.extension() != ".json") return parse_vocabulary(text, file.native(), settings);
  settings.vocabulary = beside("vocab.txt");
  return parse_tokenizer_json(text, file.native(), settings);
}

}  // namespace lacuna
