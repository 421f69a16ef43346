// Questions and passages with the span that answers them, as SQuAD 1.1 and 2.0 have them (Rajpurkar et al. 2016, 2018).
#include "data/text/recent.h"
#include "data/text/text_dataset.h"
#include "data/text/text_file.h"
#include "data/text/utf8.h"

#include "core/error.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

namespace lacuna {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::vector<Setting>& settings_of_squad() {
  static const std::vector<Setting> settings = text_settings(
      {{"validation", std::string(), {}, "file to evaluate on; empty: the one beside the training file"}});
  return settings;
}

struct Question {
  std::string question;
  std::size_t passage;
  std::int64_t begin, end;  // bytes of the passage that answer it; both 0: nothing does
};
struct SquadFile {
  std::vector<std::string> passages;
  std::vector<Question> questions;
};

const json& member(const json& object, const char* key, json::value_t type, const std::string& place) {
  const auto found = object.find(key);
  if (!object.is_object() || found == object.end() || found->type() != type)
    reject("{}: expected `{}`, a {}", place, key, json(type).type_name());
  return *found;
}

std::string text_in(const json& object, const char* key, const std::string& place) {
  std::string text = member(object, key, json::value_t::string, place).get<std::string>();
  if (find_broken_utf8(text) != std::string::npos) reject("{}: expected `{}` in UTF-8", place, key);
  return text;
}

/// Position of character `number` in bytes; npos behind the end.
std::size_t byte_of(std::string_view text, std::int64_t number) {
  std::size_t at = 0;
  for (; number > 0 && at < text.size(); --number) at += first_character(text.substr(at)).bytes;
  return number > 0 ? std::string_view::npos : at;
}

SquadFile read_squad(const fs::path& file) {
  const std::string text = read_whole_file(file, "SQuAD file", std::int64_t{1} << 31);
  json root;
  try {
    root = json::parse(text);
  } catch (const json::exception& error) {
    reject("{}: expected JSON: {}", file.native(), error.what());
  }
  SquadFile result;
  for (const json& article : member(root, "data", json::value_t::array, file.native()))
    for (const json& paragraph : member(article, "paragraphs", json::value_t::array, file.native() + ": an article")) {
      const std::string passage = text_in(paragraph, "context", file.native() + ": a paragraph");
      for (const json& each : member(paragraph, "qas", json::value_t::array, file.native() + ": a paragraph")) {
        const auto id = each.is_object() ? each.find("id") : each.end();
        const std::string place =
            fmt::format("{}: question {}", file.native(),
                        id != each.end() && id->is_string() ? id->get<std::string>() : "without id");
        Question question{text_in(each, "question", place), result.passages.size(), 0, 0};
        const json& answers = member(each, "answers", json::value_t::array, place);
        if (!answers.empty()) {  // of several people's, the first
          const std::string answer = text_in(answers.front(), "text", place);
          const auto start = answers.front().find("answer_start");
          const std::size_t begin = start == answers.front().end() || !start->is_number_integer() || *start < 0
                                        ? std::string::npos
                                        : byte_of(passage, start->get<std::int64_t>());
          if (begin == std::string::npos || answer.empty() || passage.compare(begin, answer.size(), answer) != 0)
            reject("{}: expected the answer `{}` at `answer_start` of the passage", place, answer);
          question.begin = static_cast<std::int64_t>(begin);
          question.end = question.begin + std::ssize(answer);
        }
        result.questions.push_back(std::move(question));
      }
      result.passages.push_back(passage);
    }
  if (result.questions.empty()) reject("{}: expected questions, got none", file.native());
  return result;
}

/// `labels` i64 [2]: the first and last token of the answer; 0, the first token of all, where there is none or it is
/// cut off. The passage is cut, and a question beyond 64 tokens.
class Squad final : public TextDataset {
 public:
  Squad(DatasetInfo info, std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const SquadFile> file,
        std::int64_t max_length)
      : TextDataset(std::move(info), std::move(tokenizer)), file_(std::move(file)), max_length_(max_length) {}

 private:
  EncodedText encode(std::int64_t index) const override {
    const Question& asked = file_->questions[static_cast<std::size_t>(index)];
    std::vector<Tokenizer::Piece> question = tokenizer().pieces(asked.question);
    constexpr std::int64_t longest_question = 64;
    const std::int64_t budget = max_length_ - tokenizer().special_tokens(true);
    question.resize(static_cast<std::size_t>(std::min({std::ssize(question), longest_question, budget})));
    const std::vector<Tokenizer::Piece> passage = tokenizer().pieces(file_->passages[asked.passage]);
    const Tokenizer::Encoding encoding = tokenizer().join(question, passage, max_length_, Truncation::only_second);
    EncodedText text = encoded(encoding);
    text.labels = {0, 0};
    std::int32_t first = 0, last = 0;
    bool whole = false;
    for (std::size_t i = 0; i < encoding.sources.size(); ++i) {
      const std::int32_t source = encoding.sources[i];
      if (source < 0 || source % 2 == 0) continue;
      const Tokenizer::Piece& piece = passage[static_cast<std::size_t>(source / 2)];
      if (piece.end <= asked.begin || piece.begin >= asked.end) continue;
      if (first == 0) first = static_cast<std::int32_t>(i);
      last = static_cast<std::int32_t>(i);
      whole = whole || piece.end >= asked.end;
    }
    if (whole) text.labels = {first, last};
    return text;
  }
  void set_targets(const EncodedText& text, Sample& sample) const override {
    set_whole("labels", text.labels, {2}, sample);
  }

  std::shared_ptr<const SquadFile> file_;
  std::int64_t max_length_;
};

struct Opened {
  Settings settings;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const SquadFile> file;
  DatasetInfo info;
};

Opened open_squad(const DatasetOptions& options) {
  static Recent<SquadFile> recent;
  const Settings settings = read_text_settings("squad", settings_of_squad(), options);
  const fs::path file = split_file(settings, options, {"json"});
  Opened opened{settings,
                tokenizer_of(settings, options),
                recent.get(state_of_files({file}), [&] { return std::make_shared<const SquadFile>(read_squad(file)); }),
                {}};
  SampleFields fields = token_fields(settings, opened.tokenizer->vocabulary_size());
  fields.push_back({.name = "labels", .dtype = DType::i64, .shape = {2}, .below = settings.whole_number("max_length")});
  opened.info = {.name = "squad",
                 .size = samples_to_use(options, std::ssize(opened.file->questions)),
                 .fields = std::move(fields)};
  return opened;
}

const RegisterDataset squad("squad",
                            {.describe = [](const DatasetOptions& options) { return open_squad(options).info; },
                             .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
                               const Opened opened = open_squad(options);
                               return std::make_unique<Squad>(opened.info, opened.tokenizer, opened.file,
                                                              opened.settings.whole_number("max_length"));
                             },
                             .settings = settings_of_squad()});

}  // namespace
}  // namespace lacuna
