// The content of a row of a file: its form, told by its keys, and its texts or conversations.
#pragma once

#include "data/text/chat/chat_template.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

enum class RowForm : std::uint8_t { preference, messages, share_gpt, alpaca, completion, tokens, text };
std::string_view name_of(RowForm form);

/// Alpaca's rows as one text, or as turns of a conversation.
enum class AlpacaAs : std::uint8_t { text, chat };

/// A sequence that a row makes.
struct Example {
  enum class Kind : std::uint8_t {
    text,         // prompt and completion; without a prompt all is learned
    chat,         // a conversation with answers
    chat_answer,  // a conversation, of which the messages from `answer` on are learned
    tokens        // ids, and which of them are learned
  };
  Kind kind = Kind::text;
  std::string prompt{}, completion{};
  bool has_prompt = false;
  Conversation chat{};
  std::size_t answer = 0;
  std::vector<std::int32_t> tokens{};
  std::vector<bool> learned{};  // per token
};

/// The sequences of a row: of a preference the chosen and the rejected one, otherwise one.
struct RowExamples {
  RowForm form;
  std::vector<Example> sequences;
  std::set<std::string> unread{};  // keys that are not read
};

/// Reads a JSON object. Rejects one of no form, and parts that are malformed or not supported.
RowExamples read_row(const std::string& record, AlpacaAs alpaca);
/// A line of text.
RowExamples read_line(std::string line);

/// The form of a row, if it has the keys of one.
std::optional<RowForm> form_of(const nlohmann::ordered_json& row);

}  // namespace lacuna
