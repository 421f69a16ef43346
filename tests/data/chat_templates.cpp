// Chat templates against jinja2 in transformers' sandbox; see make_chat_templates.py.
#include "data/text/chat/chat_template.h"
#include "data/text/tokenizers/parts.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

namespace lacuna {
namespace {

using nlohmann::ordered_json;
using test::check_says, test::refusal_of;

const ordered_json& references() {
  static const ordered_json value = ordered_json::parse(
      test::read_file(std::filesystem::path(LACUNA_SOURCE_DIR) / "tests/data/text/chat_templates.json"));
  return value;
}

const TokenizerConfig tokens_of_chats{.bos = "<s>", .eos = "</s>"};

RenderedChat rendered(const std::string& source, const ordered_json& conversation, bool prompt = false,
                      const std::string& date = "2024-02-03") {
  return ChatTemplate(source, "a template")
      .render({.messages = conversation["messages"], .tools = conversation["tools"], .add_generation_prompt = prompt},
              tokens_of_chats, date);
}

TEST_CASE("chat templates: texts, spans of answers and errors are those of transformers") {
  for (const ordered_json& each : references()["cases"]) {
    const std::string source = each["template"].get<std::string>();
    CAPTURE(source);
    const ordered_json& wanted = each["rendered"];
    const ordered_json& conversations = references()["conversations"];
    for (std::size_t c = 0; c < wanted.size(); ++c)
      for (std::size_t prompt = 0; prompt < wanted[c].size(); ++prompt) {
        CAPTURE(c);
        CAPTURE(prompt);
        const ordered_json& conversation = conversations[wanted.size() == 1 ? 1 : c];
        RenderedChat chat;
        const std::string refusal = refusal_of([&] { chat = rendered(source, conversation, prompt == 1); });
        const ordered_json& text = wanted[c][prompt];
        CHECK(refusal.empty() == !text.is_null());
        if (text.is_null() || !refusal.empty()) {
          CAPTURE(refusal);
          continue;
        }
        CHECK(chat.text == text["text"].get<std::string>());
        std::vector<std::size_t> spans;
        for (const RenderedChat::Span& span : chat.answers) spans.insert(spans.end(), {span.begin, span.end});
        CHECK(spans == text["spans"].get<std::vector<std::size_t>>());
      }
  }
  for (const char* const list : {"errors", "refused"})
    for (const ordered_json& source : references()[list]) {
      CAPTURE(source.get<std::string>());
      const ordered_json& conversation = references()["conversations"][1];
      CHECK(refusal_of([&] { rendered(source.get<std::string>(), conversation); }) != "");
    }
}

TEST_CASE("chat templates: messages name the template, the line, and the unsupported construct") {
  const ordered_json& one = references()["conversations"][0];
  const std::vector<std::pair<std::string, std::string>> refusals{
      {"a\n{% include 'x' %}", "a template: line 2: the tag `include` is not supported"},
      {"{{ 'a' | md5 }}", "the filter `md5` is not supported"},
      {"{{ 1 is prime }}", "the test `prime` is not supported"},
      {"\n\n{{ raise_exception('no tools') }}", "a template, line 3: the template refuses the conversation: no tools"},
      {"{{ lines() }}", "`lines` is undefined or not supported"},
      {"{{ 1 | tojson(sort_keys=true) }}", "`sort_keys` of `tojson`"},
      {"{% for x in messages %}", "expected the tag `endfor`"},
      {"{{ 'a", "expected `'` that ends the text"},
      {"{{ loop.cycle }}", "`loop` is undefined"},
      {"\xff", "UTF-8"}};
  for (const auto& [source, says] : refusals)
    check_says(refusal_of([&, &text = source] { rendered(text, one); }), says);
  check_says(refusal_of([&] { rendered("{{ strftime_now('%d') }}", one, false, ""); }), "data.template_date");
  check_says(refusal_of([&] { rendered("{{ strftime_now('%d') }}", one, false, "today"); }), "`today`");
}

TEST_CASE("chat templates: keys of null are absent, and a conversation may add variables") {
  const ChatTemplate shown("{{ messages[0].name is defined }} {{ deep }} {{ bos_token }}", "a template");
  Conversation conversation{.messages = ordered_json::parse(R"([{"role": "user", "content": "a", "name": null}])")};
  CHECK(shown.render(conversation, tokens_of_chats).text == "False  <s>");
  conversation.more = {{"deep", true}, {"bos_token", "x"}};
  CHECK(shown.render(conversation, tokens_of_chats).text == "False True x");
  CHECK(!shown.marks_answers());
  CHECK(ChatTemplate("{% generation %}a{% endgeneration %}", "").marks_answers());
}

TEST_CASE("chat templates: texts in lists are written as Python's repr writes them") {
  ChatTemplate listed("{{ [x] }}", "a template");
  Conversation conversation{.messages = references()["conversations"][0]["messages"]};
  conversation.more = {{"x", "a\u200b\u00a0\u00e9\x01\U0001f600\U000e0001'"}};
  CHECK(listed.render(conversation, tokens_of_chats).text == "[\"a\\u200b\\xa0\u00e9\\x01\U0001f600\\U000e0001'\"]");
}

TEST_CASE("chat templates: what a template may use is limited") {
  const ordered_json& one = references()["conversations"][0];
  constexpr int many = 100'000;
  std::string deep = "{{ " + std::string(many, '(') + "1" + std::string(many, ')'), tall = "{{ 1", tags;
  for (int i = 0; i < many; ++i) {
    tall += " + 1";
    tags += "{% if 1 %}";
  }
  const std::vector<std::pair<std::string, std::string>> refusals{
      {"{{ 'x' * 1000000000000 }}", "bytes"},
      {"{{ [1] * 100000000 }}", "bytes"},
      {"{{ range(100000000) }}", "`range`"},
      {"{% set r = range(9000) %}{% for a in r %}{% for b in r %}{{ 1 if 1 < 2 < 3 < 4 }}{% endfor %}{% endfor %}",
       "steps"},
      {"{% for a in range(90000) %}{{ 'x' * 10000 }}{% endfor %}", "writes more than"},
      {"{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "nested deeper"},
      {"{% set n = namespace(x=[]) %}{% for a in range(200) %}{% set n.x = [n.x] %}{% endfor %}", "levels"},
      {"{% set n = namespace(x=[1]) %}{% for a in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}", "larger one"},
      {"{% set n = namespace() %}{% set n.x = n %}", "namespace"},
      {"{{ 'ab' * 8000000 | replace('a', 'cccc') | length }}", ""},
      {"{{ ('ab' * 8000000) | replace('a', 'cccc') }}", "`replace`"},
      {"{{ ('a' * 9000000 ~ 'b') in 'a' * 16000000 }}", "bytes of values"},
      {"{{ 9223372036854775807 + 1 }}", "64 bits"},
      {deep + " }}", "nested deeper"},
      {tall + " }}", "nested deeper"},
      {tags, "nested deeper"}};
  for (const auto& [source, says] : refusals)
    check_says(refusal_of([&, &text = source] { rendered(text, one); }), says);
}

}  // namespace
}  // namespace lacuna
