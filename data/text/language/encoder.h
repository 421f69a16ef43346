// Examples as token ids, with the tokens that a model learns.
#pragma once

#include "data/text/language/examples.h"
#include "data/text/tokenizer.h"

#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

namespace lacuna {

enum class LossOn : std::uint8_t { answers, all };
enum class TooLong : std::uint8_t { cut, drop, cut_prompt };

struct EncoderOptions {
  LossOn loss_on = LossOn::answers;
  std::int64_t max_length = 1024;  // tokens
  TooLong too_long = TooLong::cut;
  std::int64_t window_stride = 0;  // above 0: windows of max_length tokens in place of too_long
  bool add_eos = true;
  std::string chat_template{};  // a name in the tokenizer's list, or a file; empty: the usual one
  std::string template_date{};
};

/// The text of the chat template that data.chat_template names: one of the tokenizer's, or a file; empty: the usual
/// one. Nothing where the tokenizer has none.
std::optional<std::string> chat_template_text(const std::string& named, const TokenizerConfig& config);

/// A token and a flag for each: whether its loss counts.
struct TokenSequence {
  std::vector<std::int32_t> tokens{};
  std::vector<bool> learned{};
};

/// The sequences of a row, and what happened to them.
struct EncodedRow {
  std::vector<TokenSequence> sequences{};
  bool was_cut = false;        // one of them had more than max_length tokens
  bool is_dropped = false;     // too long
  bool is_unlabelled = false;  // one of them has nothing to learn
  bool begins_twice = false;   // a conversation begins with two BOS tokens
  bool has_control = false;    // a message has the text of a special token, which becomes that token
};

/// The windows of `length` tokens that begin `stride` tokens apart, until one reaches the end. A token is learned in
/// the first window that has it, as transformers' strided perplexity counts it.
std::vector<TokenSequence> windows_of(const TokenSequence& sequence, std::int64_t length, std::int64_t stride);

/// Makes sequences as trl's SFTTrainer and DPOTrainer (1.16) do; thread-safe. Answers of a conversation are the spans
/// of the template's generation blocks. In a template without them, an answer is the text between the conversation up
/// to an answer with its generation prompt and the conversation up to the answer's end; where a template changes
/// earlier turns, the answer's text and the special token behind it. A text's tokens are those of the tokenizer with
/// special tokens and EOS; a conversation's tokens are those of the template's text, without others.
class RowEncoder {
 public:
  RowEncoder(std::shared_ptr<const Tokenizer> tokenizer, EncoderOptions options);

  /// One, or the windows of a sequence that is too long.
  std::vector<EncodedRow> encode(const RowExamples& row) const;
  /// Keys of messages that the template does not name.
  std::set<std::string> unread_keys(const RowExamples& row) const;
  /// How the answers of conversations are found, for people.
  std::string description() const;

 private:
  struct Range {
    std::size_t begin, end;
  };
  using Pieces = std::vector<Tokenizer::Piece>;

  const ChatTemplate& template_for(const Conversation& chat) const;
  TokenSequence text(const Example& example) const;
  TokenSequence chat(const Example& example) const;
  TokenSequence chat_answer(const Example& example) const;
  std::vector<std::int32_t> text_tokens(const std::string& text) const;
  /// Marks the tokens of answers without generation blocks.
  void mark_answers(const Conversation& chat, const std::string& text, const Pieces& pieces,
                    TokenSequence& sequence) const;
  /// Bytes of message `i` in the text; nothing where the template does not show how it goes on from the text before.
  std::optional<Range> by_prefixes(const Conversation& chat, std::size_t i, const std::string& text) const;
  std::optional<Range> by_content(const Conversation& chat, std::size_t i, const std::string& text) const;
  RenderedChat render(const Conversation& chat) const;
  bool is_special(std::int32_t id) const { return special_.contains(id); }
  bool has_control(const Conversation& chat) const;
  TokenSequence sequence_of(const Example& example) const;
  bool fit(TokenSequence& sequence) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  EncoderOptions options_;
  std::unique_ptr<const ChatTemplate> template_, template_of_tools_;
  std::optional<std::int32_t> bos_, eos_;
  std::unordered_set<std::int32_t> special_;
};

}  // namespace lacuna
