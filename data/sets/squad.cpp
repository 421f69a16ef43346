// The data sets SQuAD 1.1 and 2.0: questions, and passages with the span that answers them (Rajpurkar et al. 2016,
// 2018). A passage that is too long is split into windows, each of which is a sample.
#include "data/text/answers.h"
#include "data/text/text_dataset.h"
#include "data/text/text_file.h"
#include "data/text/utf8.h"

#include "core/error.h"
#include "core/json.h"
#include "core/parallel.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

namespace lacuna {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct SquadOptions : TextOptions {
  std::string validation;
  std::int64_t stride = 128;

  SquadOptions() { max_length = 384; }  // as transformers' run_qa.py
  static Fields fields() {
    return Fields{field("validation", &SquadOptions::validation, is_path, validation_file_help),
                  field("stride", &SquadOptions::stride, NumberRange{.low = 0, .high = 1 << 20},
                        "tokens that two windows of a long passage share")} +
           rows_of_base<SquadOptions, TextOptions>();
  }
};

struct Question {
  std::string question;
  std::size_t passage;
  std::int64_t begin, end;             // byte range of the answer in the passage; both 0: no answer
  std::vector<std::string> answers{};  // reference answers of several annotators
};
struct SquadFile {
  std::vector<std::string> passages;
  std::vector<Question> questions;
  bool may_be_none = false;  // whether some questions have no answer
};

/// A window of a passage; each window is a sample.
struct Window {
  std::int32_t question;
  std::int32_t first;  // index of its first piece
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

/// Byte position of character `number`; npos past the end.
std::size_t byte_of(std::string_view text, std::int64_t number) {
  std::size_t at = 0;
  for (; number > 0 && at < text.size(); --number) at += first_character(text.substr(at)).bytes;
  return number > 0 ? std::string_view::npos : at;
}

/// The texts of the reference answers, and where the first begins; nothing: there is no answer.
struct References {
  std::vector<std::string> texts{};
  std::optional<json> first_start{};
};

/// `answers` as a list of {text, answer_start}, or in the flat form {text: [...], answer_start: [...]}.
References references_in(const json& question, const std::string& place) {
  References result;
  const auto found = question.find("answers");
  if (found != question.end() && found->is_object()) {
    const json& texts = member(*found, "text", json::value_t::array, place + ": `answers`");
    const json& starts = member(*found, "answer_start", json::value_t::array, place + ": `answers`");
    if (texts.size() != starts.size())
      reject("{}: expected as many of `text` as of `answer_start`, got {} and {}", place, texts.size(), starts.size());
    for (const json& text : texts) result.texts.push_back(text_in({{"text", text}}, "text", place));
    if (!starts.empty()) result.first_start = starts.front();
    return result;
  }
  for (const json& answer : member(question, "answers", json::value_t::array, place)) {
    result.texts.push_back(text_in(answer, "text", place));
    if (result.texts.size() == 1) result.first_start = answer.value("answer_start", json());
  }
  return result;
}

class SquadReader {
 public:
  explicit SquadReader(const fs::path& file) : file_(file.native()) {}

  /// An article with paragraphs, or in the flat form one question with its `context`.
  void read(const json& entry) {
    if (entry.is_object() && entry.contains("context")) {
      const std::string place = place_of(entry);
      return add(entry, passage(text_in(entry, "context", place)), place);
    }
    for (const json& paragraph : member(entry, "paragraphs", json::value_t::array, file_ + ": an article")) {
      const std::size_t number = passage(text_in(paragraph, "context", file_ + ": a paragraph"));
      for (const json& each : member(paragraph, "qas", json::value_t::array, file_ + ": a paragraph"))
        add(each, number, place_of(each));
    }
  }
  SquadFile take() {
    if (result_.questions.empty()) reject("{}: expected questions, got none", file_);
    return std::move(result_);
  }

 private:
  std::string place_of(const json& question) const {
    const auto id = question.is_object() ? question.find("id") : question.end();
    const bool named = question.is_object() && id != question.end() && id->is_string();
    return fmt::format("{}: question {}", file_, named ? id->get<std::string>() : "without id");
  }

  std::size_t passage(std::string text) {
    const auto [found, is_new] = numbers_.emplace(std::move(text), result_.passages.size());
    if (is_new) result_.passages.push_back(found->first);
    return found->second;
  }

  void add(const json& each, std::size_t number, const std::string& place) {
    Question question{text_in(each, "question", place), number, 0, 0};
    References references = references_in(each, place);
    question.answers = std::move(references.texts);
    result_.may_be_none = result_.may_be_none || question.answers.empty();
    if (references.first_start) {  // the first answer is the training target
      const std::string& answer = question.answers.front();
      const json& start = *references.first_start;
      const std::string& passage = result_.passages[number];
      const std::size_t begin =
          start.is_number_integer() && start >= 0 ? byte_of(passage, start.get<std::int64_t>()) : std::string::npos;
      if (begin == std::string::npos || answer.empty() || passage.compare(begin, answer.size(), answer) != 0)
        reject("{}: expected the answer `{}` at `answer_start` of the passage", place, answer);
      question.begin = static_cast<std::int64_t>(begin);
      question.end = question.begin + std::ssize(answer);
    }
    result_.questions.push_back(std::move(question));
  }

  std::string file_;
  SquadFile result_;
  std::map<std::string, std::size_t> numbers_;  // of the passages
};

/// JSON with articles or questions in `data`, a list of them, or a question on each line.
SquadFile read_squad(const fs::path& file) {
  const std::string text = read_whole_file(file, "SQuAD file", std::int64_t{1} << 31);
  check_json_depth(text, file.native());
  SquadReader reader(file);
  json root;
  try {
    root = json::parse(text);
  } catch (const json::exception& error) {
    std::int64_t number = 0;
    for (std::size_t begin = 0; begin < text.size(); ++number) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line = std::string_view(text).substr(begin, end - begin);
      begin = end + 1;
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      const json entry = json::parse(line, nullptr, false);
      if (!entry.is_object() && number == 0) reject("{}: expected JSON: {}", file.native(), error.what());
      if (!entry.is_object()) reject("{}:{}: expected JSON, a question on each line", file.native(), number + 1);
      reader.read(entry);
    }
    return reader.take();
  }
  if (root.is_object() && root.contains("context"))
    reader.read(root);
  else
    for (const json& entry : root.is_array() ? root : member(root, "data", json::value_t::array, file.native()))
      reader.read(entry);
  return reader.take();
}

constexpr std::int64_t longest_question = 64;

/// The numbers of question and passage pieces that fit a sample of `max_length` tokens.
struct Budget {
  std::int64_t question, passage;
};
Budget budget_of(std::int64_t question_pieces, std::int64_t max_length, const Tokenizer& tokenizer) {
  const std::int64_t all = max_length - tokenizer.special_tokens(true);
  const std::int64_t question = std::min({question_pieces, longest_question, all});
  return {question, all - question};
}

/// Starts a window every (budget − stride) pieces until one reaches the end, as in the tokenizers library.
std::vector<Window> cut(const SquadFile& file, const Tokenizer& tokenizer, std::int64_t max_length,
                        std::int64_t stride) {
  const auto count_all = [&](std::int64_t count, const auto& text) {
    std::vector<std::int64_t> pieces(static_cast<std::size_t>(count));
    parallel_for(count, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        pieces[static_cast<std::size_t>(i)] = std::ssize(tokenizer.pieces(text(static_cast<std::size_t>(i))));
    });
    return pieces;
  };
  const auto passages =
      count_all(std::ssize(file.passages), [&](std::size_t i) -> const std::string& { return file.passages[i]; });
  const auto questions = count_all(std::ssize(file.questions),
                                   [&](std::size_t i) -> const std::string& { return file.questions[i].question; });
  std::vector<Window> windows;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const std::int64_t pieces = passages[file.questions[i].passage];
    const std::int64_t budget = budget_of(questions[i], max_length, tokenizer).passage;
    for (std::int64_t first = 0;; first += budget - stride) {
      windows.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(first)});
      if (first + budget >= pieces) break;
      if (stride >= budget)
        reject(
            "data.stride: expected less than {}, what data.max_length={} leaves of a passage beside a question of {} "
            "tokens, got {}",
            budget, max_length, questions[i], stride);
    }
  }
  return windows;
}

/// The target `labels` i64 [2] is the first and last token of the answer; both are 0, the sample's first token, if
/// there is no answer or the window does not contain all of it. Evaluation adds `passage` and `answers` (u8, each
/// answer ended by `answer_end`), `question` i64 [2] (its index, and 1 if questions may have no answer), and `spans`
/// i64 [L, 2]: the byte range in the passage of each token, -1 for other tokens. Questions are truncated to 64 tokens.
class Squad final : public TextDataset {
 public:
  Squad(DatasetInfo info, std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const SquadFile> file,
        std::shared_ptr<const std::vector<Window>> windows, std::int64_t max_length, Split split)
      : TextDataset(std::move(info), std::move(tokenizer)),
        file_(std::move(file)),
        windows_(std::move(windows)),
        max_length_(max_length),
        evaluates_(split == Split::validation) {}

 private:
  const Question& question_of(std::int64_t index) const {
    return file_->questions[static_cast<std::size_t>((*windows_)[static_cast<std::size_t>(index)].question)];
  }

  EncodedText encode(std::int64_t index) const override {
    const Window& window = (*windows_)[static_cast<std::size_t>(index)];
    const Question& asked = question_of(index);
    std::vector<Tokenizer::Piece> question = tokenizer().pieces(asked.question);
    const Budget budget = budget_of(std::ssize(question), max_length_, tokenizer());
    question.resize(static_cast<std::size_t>(budget.question));
    const std::vector<Tokenizer::Piece> all = tokenizer().pieces(file_->passages[asked.passage]);
    const std::int64_t end = std::min(std::ssize(all), window.first + budget.passage);
    const std::vector<Tokenizer::Piece> passage(all.begin() + window.first, all.begin() + end);
    const Tokenizer::Encoding encoding = tokenizer().join(question, passage, max_length_, Truncation::only_second);
    // The answer is the pieces [answer_begin, answer_end).
    const auto answer_begin = std::ranges::find_if(all, [&](const auto& piece) { return piece.end > asked.begin; });
    const auto answer_end = std::ranges::find_if(all, [&](const auto& piece) { return piece.begin >= asked.end; });
    const bool whole =
        answer_begin < answer_end && answer_begin - all.begin() >= window.first && answer_end - all.begin() <= end;
    EncodedText text = encoded(encoding);
    text.labels = {0, 0};
    for (std::size_t i = 0; i < encoding.sources.size(); ++i) {
      const std::int32_t source = encoding.sources[i];
      const bool of_passage = source >= 0 && source % 2 == 1;
      const auto piece = all.begin() + window.first + source / 2;  // valid only for tokens of the passage
      if (whole && of_passage && piece == answer_begin) text.labels[0] = static_cast<std::int32_t>(i);
      if (whole && of_passage && piece + 1 == answer_end) text.labels[1] = static_cast<std::int32_t>(i);
      if (!evaluates_) continue;
      text.labels.push_back(of_passage ? static_cast<std::int32_t>(piece->begin) : -1);
      text.labels.push_back(of_passage ? static_cast<std::int32_t>(piece->end) : -1);
    }
    return text;
  }

  void set_targets(const EncodedText& text, Sample& sample) const override {
    const std::span labels(text.labels);
    set_whole("labels", labels.first(2), {2}, sample);
    if (!evaluates_) return;
    const Question& asked = question_of(sample.index);
    set_whole("spans", labels.subspan(2), {std::ssize(text.tokens), 2}, sample);
    const std::int32_t question[] = {(*windows_)[static_cast<std::size_t>(sample.index)].question,
                                     file_->may_be_none ? 1 : 0};
    set_whole("question", question, {2}, sample);
    set_bytes("passage", file_->passages[asked.passage] + lacuna::answer_end, sample);
    std::string answers;
    for (const std::string& answer : asked.answers) answers += answer + answer_end;
    if (answers.empty()) answers = answer_end;
    set_bytes("answers", answers, sample);
  }
  static void set_bytes(std::string_view name, const std::string& text, Sample& sample) {
    Tensor bytes = sample.make(name, {std::ssize(text)}, DType::u8);
    std::ranges::copy(text, reinterpret_cast<char*>(bytes.data<std::uint8_t>()));
    sample.set(name, std::move(bytes));
  }

  std::shared_ptr<const SquadFile> file_;
  std::shared_ptr<const std::vector<Window>> windows_;
  std::int64_t max_length_;
  bool evaluates_;
};

struct OpenedSquad {
  std::int64_t max_length;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const SquadFile> file;
  std::shared_ptr<const std::vector<Window>> windows;
  DatasetInfo info;
};

/// A packed u8 field for texts.
SampleField bytes_field(const std::string& name) {
  return {.name = name, .dtype = DType::u8, .shape = {1}, .collation = Collation::packed, .lengths = name + "_offsets"};
}

OpenedSquad open_squad(const DatasetOptions& options) {
  const auto own = read_options<SquadOptions>("data set squad", options.settings);
  const std::int64_t max_length = own.max_length, stride = own.stride;
  const fs::path file = split_file(own.validation, options, {"json", "jsonl"});
  OpenedSquad opened{
      max_length,
      tokenizer_of(own, options),
      options.files->get<SquadFile>(file.native(), [&] { return std::make_shared<const SquadFile>(read_squad(file)); }),
      nullptr,
      {}};
  const std::string name =
      fmt::format("{}\n{}\n{} {}", file.native(), tokenizer_path(own, options).native(), max_length, stride);
  opened.windows = options.files->get<std::vector<Window>>(name, [&] {
    return std::make_shared<const std::vector<Window>>(cut(*opened.file, *opened.tokenizer, max_length, stride));
  });
  SampleFields fields = token_fields(own, opened.tokenizer->vocabulary());
  fields.push_back({.name = "labels", .dtype = DType::i64, .shape = {2}, .below = max_length});
  if (options.split == Split::validation) {
    SampleField spans = per_token("spans", own);
    spans.shape = {max_length, 2};
    spans.padding = -1;
    const SampleField more[] = {
        spans, {.name = "question", .dtype = DType::i64, .shape = {2}}, bytes_field("passage"), bytes_field("answers")};
    fields.insert(fields.end(), std::begin(more), std::end(more));
  }
  opened.info = {.name = "squad",
                 .size = samples_to_use(options, std::ssize(*opened.windows)),
                 .fields = std::move(fields),
                 .description = fmt::format("{}: {} questions on {} passages, {} windows of {} tokens at most",
                                            file.native(), opened.file->questions.size(), opened.file->passages.size(),
                                            opened.windows->size(), max_length),
                 .vocabulary = opened.tokenizer->vocabulary()};
  return opened;
}

const RegisterDataset squad("squad",
                            {.describe = [](const DatasetOptions& options) { return open_squad(options).info; },
                             .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
                               const OpenedSquad opened = open_squad(options);
                               return std::make_unique<Squad>(opened.info, opened.tokenizer, opened.file,
                                                              opened.windows, opened.max_length, options.split);
                             },
                             .options = SquadOptions{}});

}  // namespace
}  // namespace lacuna
