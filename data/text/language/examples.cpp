#include "data/text/language/examples.h"

#include "core/error.h"
#include "core/json.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>

namespace lacuna {
namespace {

using nlohmann::ordered_json;
using Keys = std::vector<std::string_view>;

struct FormKeys {
  RowForm form;
  std::string_view name;
  Keys needed, also;
};

/// The first form of which a row has all needed keys is its form.
const std::vector<FormKeys>& forms() {
  static const std::vector<FormKeys> all{
      {RowForm::preference, "preference", {"chosen", "rejected"}, {"prompt", "tools", "chat_template_kwargs"}},
      {RowForm::messages, "messages", {"messages"}, {"tools", "chat_template_kwargs"}},
      {RowForm::share_gpt, "ShareGPT", {"conversations"}, {"system", "tools", "chat_template_kwargs"}},
      {RowForm::alpaca, "Alpaca", {"instruction", "output"}, {"input", "system", "history"}},
      {RowForm::completion, "prompt and completion", {"prompt", "completion"}, {"tools", "chat_template_kwargs"}},
      {RowForm::tokens, "tokens", {"input_ids"}, {"labels", "attention_mask"}},
      {RowForm::text, "text", {"text"}, {}}};
  return all;
}

const FormKeys& keys_of(RowForm form) { return *std::ranges::find(forms(), form, &FormKeys::form); }

const ordered_json* value_in(const ordered_json& row, std::string_view key) {
  const auto found = row.find(key);
  return found == row.end() || found->is_null() ? nullptr : &*found;
}

std::string text_at(const ordered_json& row, std::string_view key) {
  const ordered_json* const value = value_in(row, key);
  if (value == nullptr) return {};
  if (!value->is_string()) reject("expected a text in `{}`, got {}", key, value->type_name());
  return value->get<std::string>();
}

/// `weighed`: answers may have a `weight`, as OpenAI's rows do.
void check_messages(const ordered_json& messages, std::string_view key, bool weighed = false) {
  const bool is_list = messages.is_array() && !messages.empty();
  if (!is_list || !std::ranges::all_of(messages, [](const ordered_json& message) {
        if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) return false;
        const ordered_json* const content = value_in(message, "content");
        if (content != nullptr) return content->is_string() || content->is_array();
        const ordered_json* const calls = value_in(message, "tool_calls");
        return calls != nullptr && !calls->empty();
      }))
    reject("expected a list of messages with `role` and `content` in `{}`", key);
  for (const ordered_json& message : messages) {
    const ordered_json* const weight = value_in(message, "weight");
    if (weight == nullptr) continue;
    if (!weighed || message["role"] != "assistant")
      reject("`weight` is for messages of the assistant in rows of whole conversations");
    if (*weight != 0 && *weight != 1) reject("expected a `weight` of 0 or 1, got {}", weight->dump());
  }
}

/// The part of a row beside its messages. `tools` may be JSON in a text, as data sets of one column type have it.
Conversation conversation_of(const ordered_json& row) {
  Conversation chat;
  if (const ordered_json* const tools = value_in(row, "tools")) {
    chat.tools =
        tools->is_string() ? parse_json<ordered_json>(tools->get_ref<const std::string&>(), "`tools`") : *tools;
    if (!chat.tools.is_array()) reject("expected a list in `tools`");
    if (chat.tools.empty()) chat.tools = nullptr;
  }
  if (const ordered_json* const more = value_in(row, "chat_template_kwargs")) {
    if (!more->is_object()) reject("expected an object in `chat_template_kwargs`");
    chat.more = *more;
  }
  return chat;
}

ordered_json message(std::string_view role, std::string content) {
  return {{"role", role}, {"content", std::move(content)}};
}

/// Adds the keys of turns that are not read to `unread`.
ordered_json turns_of_share_gpt(const ordered_json& row, std::set<std::string>& unread) {
  const ordered_json& turns = row["conversations"];
  ordered_json messages = ordered_json::array();
  if (const std::string system = text_at(row, "system"); !system.empty()) messages.push_back(message("system", system));
  if (!turns.is_array() || turns.empty()) reject("expected a list of turns in `conversations`");
  for (const ordered_json& turn : turns) {
    if (!turn.is_object() || value_in(turn, "from") == nullptr || value_in(turn, "value") == nullptr)
      reject("expected turns with `from` and `value` in `conversations`");
    const std::string from = text_at(turn, "from");
    constexpr std::pair<std::string_view, std::string_view> roles[] = {
        {"system", "system"},     {"human", "user"},          {"user", "user"}, {"gpt", "assistant"},
        {"chatgpt", "assistant"}, {"assistant", "assistant"}, {"tool", "tool"}, {"observation", "tool"}};
    const auto* const role =
        std::ranges::find(roles, std::string_view(from), &std::pair<std::string_view, std::string_view>::first);
    if (role == std::end(roles))
      reject("expected turns from system, human, gpt or tool in `conversations`, got `{}`", from);
    messages.push_back(message(role->second, text_at(turn, "value")));
    for (const auto& [key, value] : turn.items())
      if (key == "weight")
        messages.back()[key] = value;
      else if (key != "from" && key != "value" && !value.is_null())
        unread.insert("conversations." + key);
  }
  return messages;
}

Example alpaca_text(const ordered_json& row) {
  for (const std::string_view key : {"system", "history"})
    if (const ordered_json* const value = value_in(row, key); value != nullptr && !value->empty() && *value != "")
      reject("`{}` needs turns of a conversation: data.alpaca=chat", key);
  const std::string instruction = text_at(row, "instruction"), input = text_at(row, "input");
  std::string prompt =
      input.empty() ? "Below is an instruction that describes a task. Write a response that appropriately completes "
                      "the request.\n\n"
                    : "Below is an instruction that describes a task, paired with an input that provides further "
                      "context. Write a response that appropriately completes the request.\n\n";
  prompt += "### Instruction:\n" + instruction + "\n\n";
  if (!input.empty()) prompt += "### Input:\n" + input + "\n\n";
  return {.prompt = prompt + "### Response:\n", .completion = text_at(row, "output"), .has_prompt = true};
}

Example alpaca_chat(const ordered_json& row) {
  Example out{.kind = Example::Kind::chat};
  ordered_json& messages = out.chat.messages = ordered_json::array();
  if (const std::string system = text_at(row, "system"); !system.empty()) messages.push_back(message("system", system));
  if (const ordered_json* const history = value_in(row, "history")) {
    if (!history->is_array()) reject("expected a list of [instruction, output] in `history`");
    for (const ordered_json& turn : *history) {
      if (!turn.is_array() || turn.size() != 2 || !turn[0].is_string() || !turn[1].is_string())
        reject("expected a list of [instruction, output] in `history`");
      messages.push_back(message("user", turn[0].get<std::string>()));
      messages.push_back(message("assistant", turn[1].get<std::string>()));
    }
  }
  const std::string input = text_at(row, "input");
  messages.push_back(message("user", text_at(row, "instruction") + (input.empty() ? "" : "\n" + input)));
  messages.push_back(message("assistant", text_at(row, "output")));
  return out;
}

/// Prompt and completion, both texts or both lists of messages. `prompt` null: the completion alone.
Example completion(const ordered_json* prompt, const ordered_json& end, std::string_view key,
                   const Conversation& chat) {
  if (end.is_string()) {
    if (prompt != nullptr && !prompt->is_string()) reject("expected a text in `prompt`, as in `{}`", key);
    return {.prompt = prompt == nullptr ? "" : prompt->get<std::string>(),
            .completion = end.get<std::string>(),
            .has_prompt = prompt != nullptr};
  }
  check_messages(end, key);
  Example out{.kind = Example::Kind::chat_answer, .chat = chat};
  out.chat.messages = ordered_json::array();
  if (prompt != nullptr) {
    check_messages(*prompt, "prompt");
    out.chat.messages = *prompt;
  }
  out.answer = out.chat.messages.size();
  for (const ordered_json& one : end) out.chat.messages.push_back(one);
  return out;
}

std::vector<Example> preference(const ordered_json& row) {
  const Conversation chat = conversation_of(row);
  std::vector<Example> out{completion(value_in(row, "prompt"), row["chosen"], "chosen", chat),
                           completion(value_in(row, "prompt"), row["rejected"], "rejected", chat)};
  if (out[0].kind != out[1].kind) reject("expected texts in both `chosen` and `rejected`, or messages in both");
  if (out[0].kind == Example::Kind::text || out[0].answer > 0) return out;
  // The messages that both begin with are the prompt.
  const ordered_json &a = out[0].chat.messages, &b = out[1].chat.messages;
  std::size_t common = 0;
  while (common + 1 < a.size() && common + 1 < b.size() && a[common] == b[common]) ++common;
  out[0].answer = out[1].answer = common;
  return out;
}

Example tokens(const ordered_json& row) {
  Example out{.kind = Example::Kind::tokens};
  const ordered_json* const ids = value_in(row, "input_ids");
  const ordered_json* const labels = value_in(row, "labels");
  const auto check = [](const ordered_json* list, std::string_view key) {
    const bool is_list = list != nullptr && list->is_array();
    if (!is_list || !std::ranges::all_of(*list, [](const ordered_json& id) {
          return id.is_number_integer() && id.get<std::int64_t>() >= -100 &&
                 id.get<std::int64_t>() <= std::numeric_limits<std::int32_t>::max();
        }))
      reject("expected a list of token ids in `{}`", key);
  };
  check(ids, "input_ids");
  if (const ordered_json* const mask = value_in(row, "attention_mask"))
    if (!mask->is_array() || !std::ranges::all_of(*mask, [](const ordered_json& one) { return one == 1; }))
      reject("expected rows without padding, whose `attention_mask` is 1, or none");
  out.tokens = ids->get<std::vector<std::int32_t>>();
  out.learned.assign(out.tokens.size(), true);
  if (labels == nullptr) return out;
  check(labels, "labels");
  if (labels->size() != ids->size())
    reject("expected as many `labels` as `input_ids`, got {} and {}", labels->size(), ids->size());
  for (std::size_t i = 0; i < out.tokens.size(); ++i) {
    const auto label = (*labels)[i].get<std::int32_t>();
    constexpr std::int32_t ignored = -100;
    out.learned[i] = label != ignored;
    if (label != ignored && label != out.tokens[i])
      reject("`labels` other than the id of their token or -100 are not supported, got {} at token {}", label, i);
  }
  return out;
}

}  // namespace

std::string_view name_of(RowForm form) { return keys_of(form).name; }

std::optional<RowForm> form_of(const ordered_json& row) {
  if (!row.is_object()) return {};
  for (const FormKeys& form : forms())
    if (std::ranges::all_of(form.needed, [&](std::string_view key) { return value_in(row, key) != nullptr; }))
      return form.form;
  return {};
}

RowExamples read_row(const std::string& record, AlpacaAs alpaca) {
  const auto row = parse_json<ordered_json>(record, "the row");
  std::set<std::string> keys;
  if (row.is_object())
    for (const auto& [key, value] : row.items())
      if (!value.is_null()) keys.insert(key);
  const std::optional<RowForm> form = form_of(row);
  if (!form)
    reject(
        "expected an object with `messages`, `conversations`, `instruction` and `output`, `prompt` and `completion`, "
        "`text`, `input_ids`, or `chosen` and `rejected`, got {}",
        keys.empty() ? std::string(row.type_name()) : fmt::format("`{}`", fmt::join(keys, "`, `")));
  RowExamples out{.form = *form, .sequences = {}};
  for (const Keys* const list : {&keys_of(*form).needed, &keys_of(*form).also})
    for (const std::string_view key : *list) keys.erase(std::string(key));
  out.unread = std::move(keys);
  switch (*form) {
    case RowForm::preference:
      out.sequences = preference(row);
      break;
    case RowForm::messages:
    case RowForm::share_gpt: {
      Example example{.kind = Example::Kind::chat, .chat = conversation_of(row)};
      example.chat.messages = *form == RowForm::messages ? row["messages"] : turns_of_share_gpt(row, out.unread);
      check_messages(example.chat.messages, "messages", true);
      out.sequences.push_back(std::move(example));
      break;
    }
    case RowForm::alpaca:
      out.sequences.push_back(alpaca == AlpacaAs::text ? alpaca_text(row) : alpaca_chat(row));
      break;
    case RowForm::completion:
      out.sequences.push_back(
          completion(value_in(row, "prompt"), row["completion"], "completion", conversation_of(row)));
      break;
    case RowForm::tokens:
      out.sequences.push_back(tokens(row));
      break;
    case RowForm::text:
      out.sequences.push_back({.completion = text_at(row, "text")});
      break;
  }
  if (out.sequences.front().kind == Example::Kind::text)
    for (const std::string_view key : {"tools", "chat_template_kwargs"})
      if (value_in(row, key) != nullptr) out.unread.emplace(key);
  return out;
}

RowExamples read_line(std::string line) {
  RowExamples out{.form = RowForm::text, .sequences = {}};
  out.sequences.push_back({.completion = std::move(line)});
  return out;
}

}  // namespace lacuna
