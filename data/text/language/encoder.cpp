#include "data/text/language/encoder.h"

#include "core/error.h"
#include "data/text/chat/lexer.h"
#include "data/text/text_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace lacuna {
namespace {

/// Whether an answer of a conversation is learned: its `weight` is not 0.
bool is_learned(const nlohmann::ordered_json& message) {
  return message["role"] == "assistant" && message.value("weight", nlohmann::ordered_json()) != 0;
}

bool is_blank_text(std::string_view text) { return chat::without_leading_blanks(text).empty(); }

std::size_t common_prefix(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

std::vector<std::int32_t> ids_of(const std::vector<Tokenizer::Piece>& pieces) {
  std::vector<std::int32_t> ids;
  for (const Tokenizer::Piece& piece : pieces) ids.push_back(piece.id);
  return ids;
}

std::unique_ptr<const ChatTemplate> open_template(const std::string& named, const TokenizerConfig& config) {
  const std::optional<std::string> text = chat_template_text(named, config);
  if (!text) return nullptr;
  const std::string name = named.empty() ? "default" : named;
  return std::make_unique<const ChatTemplate>(
      *text, config.chat_templates.contains(name) ? fmt::format("the tokenizer's chat template `{}`", name) : name);
}

}  // namespace

std::optional<std::string> chat_template_text(const std::string& named, const TokenizerConfig& config) {
  const auto found = config.chat_templates.find(named.empty() ? "default" : named);
  if (found != config.chat_templates.end()) return found->second;
  if (named.empty()) return {};
  constexpr std::int64_t most = std::int64_t{1} << 20;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(named, ignored)) return read_whole_file(named, "the chat template", most);
  std::vector<std::string> names;
  for (const auto& one : config.chat_templates) names.push_back(one.first);
  reject("data.chat_template: expected a file, or the name of one of the tokenizer's templates ({}), got {}",
         names.empty() ? "it has none" : fmt::format("{}", fmt::join(names, ", ")), named);
}

RowEncoder::RowEncoder(std::shared_ptr<const Tokenizer> tokenizer, EncoderOptions options)
    : tokenizer_(std::move(tokenizer)),
      options_(std::move(options)),
      template_(open_template(options_.chat_template, tokenizer_->config())) {
  const TokenizerConfig& config = tokenizer_->config();
  if (options_.chat_template.empty() && config.chat_templates.contains("tool_use"))
    template_of_tools_ = open_template("tool_use", config);
  if (!config.bos.empty()) bos_ = tokenizer_->find(config.bos);
  if (!config.eos.empty()) eos_ = tokenizer_->find(config.eos);
  for (const std::int64_t id : tokenizer_->vocabulary().special) special_.insert(static_cast<std::int32_t>(id));
}

const ChatTemplate& RowEncoder::template_for(const Conversation& chat) const {
  if (template_of_tools_ != nullptr && !chat.tools.is_null()) return *template_of_tools_;
  if (template_ == nullptr)
    reject("the tokenizer has no chat template for conversations: data.chat_template names a file with one");
  return *template_;
}

std::set<std::string> RowEncoder::unread_keys(const RowExamples& row) const {
  std::set<std::string> keys;
  for (const Example& example : row.sequences)
    for (const nlohmann::ordered_json& message : example.chat.messages)
      for (const auto& [key, value] : message.items())
        if (!value.is_null() && key != "weight" && !template_for(example.chat).names(key))
          keys.insert("messages." + key);
  return keys;
}

std::string RowEncoder::description() const {
  if (options_.loss_on == LossOn::all || template_ == nullptr) return {};
  return template_->marks_answers() ? "answers by the template's generation blocks"
                                    : "answers by the text before and behind them, since the template marks none";
}

bool RowEncoder::has_control(const Conversation& chat) const {
  return std::ranges::any_of(chat.messages, [&](const nlohmann::ordered_json& message) {
    const auto content = message.find("content");
    if (content == message.end()) return false;
    if (content->is_string()) return tokenizer_->has_special(content->get_ref<const std::string&>());
    return content->is_structured() && std::ranges::any_of(*content, [&](const nlohmann::ordered_json& part) {
             return part.is_object() && part.contains("text") && part["text"].is_string() &&
                    tokenizer_->has_special(part["text"].get_ref<const std::string&>());
           });
  });
}

RenderedChat RowEncoder::render(const Conversation& chat) const {
  return template_for(chat).render(chat, tokenizer_->config(), options_.template_date);
}

std::vector<std::int32_t> RowEncoder::text_tokens(const std::string& text) const {
  std::vector<std::int32_t> tokens = tokenizer_->encode(text).tokens;
  if (bos_ && tokens.size() > 1 && tokens[0] == *bos_ && tokens[1] == *bos_) tokens.erase(tokens.begin());
  return tokens;
}

TokenSequence RowEncoder::text(const Example& example) const {
  TokenSequence out{.tokens = text_tokens(example.prompt + example.completion)};
  if (options_.add_eos) {
    if (!eos_) reject("the tokenizer names no eos_token to end a text with: data.add_eos=false appends none");
    while (out.tokens.size() > 1 && out.tokens.end()[-1] == *eos_ && out.tokens.end()[-2] == *eos_)
      out.tokens.pop_back();
    if (out.tokens.empty() || out.tokens.back() != *eos_) out.tokens.push_back(*eos_);
  }
  const bool all = !example.has_prompt || options_.loss_on == LossOn::all;
  const std::size_t first = all ? 0 : common_prefix(out.tokens, text_tokens(example.prompt));
  out.learned.assign(out.tokens.size(), true);
  std::fill_n(out.learned.begin(), first, false);
  return out;
}

TokenSequence RowEncoder::chat(const Example& example) const {
  const RenderedChat rendered = render(example.chat);
  const Pieces pieces = tokenizer_->pieces(rendered.text);
  TokenSequence out{.tokens = ids_of(pieces)};
  out.learned.assign(out.tokens.size(), options_.loss_on == LossOn::all);
  std::vector<bool> answers;  // which of them are learned
  for (const nlohmann::ordered_json& message : example.chat.messages)
    if (message["role"] == "assistant") answers.push_back(is_learned(message));
  const bool some_are_not = std::ranges::find(answers, false) != answers.end();
  if (options_.loss_on == LossOn::all) {
    if (some_are_not) reject("messages of `weight` 0 are not learned, which data.loss_on=all contradicts");
    return out;
  }
  if (!template_for(example.chat).marks_answers()) {
    mark_answers(example.chat, rendered.text, pieces, out);
    return out;
  }
  if (some_are_not && rendered.answers.size() != answers.size())
    reject("a `weight` of 0 needs a chat template with one generation block for each of {} answers, got {}",
           answers.size(), rendered.answers.size());
  for (std::size_t answer = 0; answer < rendered.answers.size(); ++answer) {
    if (some_are_not && !answers[answer]) continue;
    const RenderedChat::Span& span = rendered.answers[answer];
    for (std::size_t i = 0; i < pieces.size(); ++i)
      if (pieces[i].begin < span.end && pieces[i].end > span.begin) out.learned[i] = true;
  }
  return out;
}

TokenSequence RowEncoder::chat_answer(const Example& example) const {
  TokenSequence out{.tokens = ids_of(tokenizer_->pieces(render(example.chat).text))};
  std::size_t first = 0;
  if (options_.loss_on == LossOn::answers && example.answer > 0) {
    Conversation prompt = example.chat;
    prompt.messages.erase(prompt.messages.begin() + static_cast<std::ptrdiff_t>(example.answer), prompt.messages.end());
    prompt.add_generation_prompt = true;
    first = common_prefix(out.tokens, ids_of(tokenizer_->pieces(render(prompt).text)));
  }
  out.learned.assign(out.tokens.size(), true);
  std::fill_n(out.learned.begin(), first, false);
  return out;
}

void RowEncoder::mark_answers(const Conversation& chat, const std::string& text, const Pieces& pieces,
                              TokenSequence& sequence) const {
  const auto is_blank = [&](std::size_t i) {
    return !is_special(pieces[i].id) &&
           is_blank_text(std::string_view(text).substr(pieces[i].begin, pieces[i].end - pieces[i].begin));
  };
  for (std::size_t message = 0; message < chat.messages.size(); ++message) {
    if (!is_learned(chat.messages[message])) continue;
    const std::optional<Range> whole = by_prefixes(chat, message, text);
    const std::optional<Range> range = whole ? whole : by_content(chat, message, text);
    if (!range)
      reject(
          "the chat template does not show where message {} stands: expected a template with generation blocks, or "
          "data.loss_on=all",
          message + 1);
    std::size_t first = 0;
    while (first < pieces.size() && pieces[first].end <= range->begin) ++first;
    std::size_t last = first;
    while (last < pieces.size() && pieces[last].begin < range->end) ++last;
    if (whole) {  // without the blanks behind the token that ends the turn
      std::size_t end = last;
      while (end > first && is_blank(end - 1)) --end;
      if (end > first && is_special(pieces[end - 1].id)) last = end;
    } else {  // with that token
      std::size_t end = last;
      while (end < pieces.size() && is_blank(end)) ++end;
      if (end < pieces.size() && is_special(pieces[end].id)) last = end + 1;
    }
    for (std::size_t i = first; i < last; ++i) sequence.learned[i] = true;
  }
}

std::optional<RowEncoder::Range> RowEncoder::by_prefixes(const Conversation& chat, std::size_t i,
                                                         const std::string& text) const {
  Conversation part = chat;
  const auto upto = [&](std::size_t messages, bool prompt) -> std::string {
    part.messages =
        nlohmann::ordered_json(chat.messages.begin(), chat.messages.begin() + static_cast<std::ptrdiff_t>(messages));
    part.add_generation_prompt = prompt;
    try {
      return render(part).text;
    } catch (const Error&) {  // templates refuse parts of conversations, such as one without a user
      return {};
    }
  };
  const std::string before = upto(i, true);
  if (before.empty() || !text.starts_with(before)) return {};
  const std::string with = i + 1 == chat.messages.size() ? text : upto(i + 1, false);
  if (with.size() <= before.size() || !text.starts_with(with)) return {};
  return Range{before.size(), with.size()};
}

std::optional<RowEncoder::Range> RowEncoder::by_content(const Conversation& chat, std::size_t i,
                                                        const std::string& text) const {
  constexpr std::string_view mark = "\xee\x80\x80";  // U+E000, for private use
  const auto content = chat.messages[i].find("content");
  if (content == chat.messages[i].end() || !content->is_string() || text.find(mark) != std::string::npos) return {};
  Conversation marked = chat;
  marked.messages[i]["content"] = mark;
  const std::string other = render(marked).text;
  const std::size_t begin = other.find(mark);
  if (begin == std::string::npos || other.find(mark, begin + 1) != std::string::npos) return {};
  const std::string_view behind = std::string_view(other).substr(begin + mark.size());
  if (text.size() < begin + behind.size() || text.compare(0, begin, other, 0, begin) != 0 || !text.ends_with(behind))
    return {};
  return Range{begin, text.size() - behind.size()};
}

bool RowEncoder::fit(TokenSequence& sequence) const {
  const auto most = static_cast<std::size_t>(options_.max_length);
  std::vector<std::int32_t>& tokens = sequence.tokens;
  if (tokens.size() <= most) return false;
  if (options_.too_long == TooLong::cut_prompt) {
    const auto first = static_cast<std::size_t>(std::ranges::find(sequence.learned, true) - sequence.learned.begin());
    const std::size_t kept = bos_ && tokens.front() == *bos_ ? 1 : 0;
    // A token stands before the first one that is learned.
    const std::size_t most_cut = first > 1 ? first - 1 : 0;
    const auto cut = static_cast<std::ptrdiff_t>(std::min(tokens.size() - most, most_cut));
    const auto begin = static_cast<std::ptrdiff_t>(kept);
    tokens.erase(tokens.begin() + begin, tokens.begin() + begin + cut);
    sequence.learned.erase(sequence.learned.begin() + begin, sequence.learned.begin() + begin + cut);
  }
  tokens.resize(std::min(tokens.size(), most));
  sequence.learned.resize(tokens.size());
  return true;
}

TokenSequence RowEncoder::sequence_of(const Example& example) const {
  if (example.kind == Example::Kind::text) return text(example);
  if (example.kind == Example::Kind::chat) return chat(example);
  if (example.kind == Example::Kind::chat_answer) return chat_answer(example);
  for (const std::int32_t id : example.tokens)
    if (id < 0 || id >= tokenizer_->vocabulary().size)
      reject("expected `input_ids` below {}, the tokenizer's size, got {}", tokenizer_->vocabulary().size, id);
  return {example.tokens, example.learned};
}

std::vector<EncodedRow> RowEncoder::encode(const RowExamples& row) const {
  std::vector<EncodedRow> out(1);
  for (const Example& example : row.sequences) {
    TokenSequence sequence = sequence_of(example);
    const bool twice = bos_ && sequence.tokens.size() > 1 && sequence.tokens[0] == *bos_ && sequence.tokens[1] == *bos_;
    out.front().begins_twice = out.front().begins_twice || twice;
    out.front().has_control =
        out.front().has_control || (!example.chat.messages.is_null() && has_control(example.chat));
    if (options_.window_stride > 0) {
      std::vector<TokenSequence> windows = windows_of(sequence, options_.max_length, options_.window_stride);
      out.resize(windows.size());
      for (std::size_t i = 0; i < windows.size(); ++i) out[i].sequences.push_back(std::move(windows[i]));
      continue;
    }
    const bool was_cut = fit(sequence);
    out.front().was_cut = out.front().was_cut || was_cut;
    out.front().sequences.push_back(std::move(sequence));
  }
  for (EncodedRow& one : out) {
    one.is_unlabelled = std::ranges::any_of(one.sequences, [](const TokenSequence& sequence) {
      // The first token is never predicted.
      const auto second = sequence.learned.begin() + (sequence.learned.empty() ? 0 : 1);
      return std::find(second, sequence.learned.end(), true) == sequence.learned.end();
    });
    one.is_dropped = one.was_cut && options_.too_long == TooLong::drop;
  }
  return out;
}

std::vector<TokenSequence> windows_of(const TokenSequence& sequence, std::int64_t length, std::int64_t stride) {
  std::vector<TokenSequence> windows;
  const std::int64_t count = std::ssize(sequence.tokens);
  for (std::int64_t begin = 0, done = 0;; begin += stride) {
    const std::int64_t end = std::min(begin + length, count);
    TokenSequence& window = windows.emplace_back();
    window.tokens.assign(sequence.tokens.begin() + begin, sequence.tokens.begin() + end);
    window.learned.assign(sequence.learned.begin() + begin, sequence.learned.begin() + end);
    std::fill_n(window.learned.begin(), std::max<std::int64_t>(done - begin, 0), false);
    done = end;
    if (end == count) return windows;
  }
}

}  // namespace lacuna
