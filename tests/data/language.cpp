// Rows for language models: what each form becomes, and what of it is learned.
#include "data/text/language/packing.h"
#include "tests/data/language_files.h"

#include <doctest/doctest.h>

namespace lacuna {
namespace {

using test::check_says, test::LanguageFiles;

struct RowCase {
  std::string row, shown;
  OptionValues settings{};
};

void check_rows(const LanguageFiles& files, const char* name, const std::vector<RowCase>& cases) {
  for (const RowCase& each : cases) {
    CAPTURE(each.row);
    files.write("rows.jsonl", each.row + "\n");
    DatasetPtr data;
    const std::string refused = test::refusal_of([&] { data = files.open(name, "rows.jsonl", each.settings); });
    CHECK(refused == "");
    if (refused.empty()) CHECK(files.shown(data) == std::vector{each.shown});
  }
}

OptionValues with(const char* key, const std::string& value) { return {{key, value}}; }

const std::string two_turns =
    R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "an"}, )"
    R"({"role": "user", "content": "r"}, {"role": "assistant", "content": "b "}]})";

TEST_CASE("language: the forms of rows, and the tokens that are learned") {
  const LanguageFiles files;
  check_rows(
      files, "language",
      {{two_turns, "<s><u>q<e>\n<a>[an<e>]\n<u>r<e>\n<a>[b <e>]\n"},
       {two_turns, "[<s><u>q<e>\n<a>an<e>\n<u>r<e>\n<a>b <e>\n]", with("loss_on", "all")},
       {R"({"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]})",
        "<s><s>s<e>\n<u>q<e>\n<a>[a<e>]\n"},
       {R"({"instruction": "Do.", "input": "", "output": "ok"})",
        "<s>Below is an instruction that describes a task. Write a response that appropriately completes the "
        "request.\n\n### Instruction:\nDo.\n\n### Response:\n[ok</s>]"},
       {R"({"instruction": "Do.", "input": "it", "output": "ok", "history": [["h", "i"]], "system": "s"})",
        "<s><s>s<e>\n<u>h<e>\n<a>[i<e>]\n<u>Do.\nit<e>\n<a>[ok<e>]\n", with("alpaca", "chat")},
       {R"({"prompt": "one ", "completion": "two"})", "<s>one [two</s>]"},
       {R"({"prompt": "one ", "completion": "two</s>"})", "<s>one [two</s>]"},
       {R"({"prompt": "a mode", "completion": "l of"})", "<s>a mod[el of</s>]"},
       {R"({"prompt": "one ", "completion": "two"})", "[<s>one two</s>]", with("loss_on", "all")},
       {R"({"prompt": "one ", "completion": "two"})", "<s>one [two]", {{"add_eos", false}}},
       {R"({"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a"}]})",
        "<s><u>q<e>\n<a>[a<e>\n]"},
       {R"({"text": "<s>plain"})", "[<s>plain</s>]"},
       {R"({"input_ids": [0, 40, 41, 42], "labels": [-100, -100, 41, -100]})", "<s>B[C]D"},
       {R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "id": 7, "tools": null})",
        "<s><u>q<e>\n<a>[a<e>]\n"},
       {R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "weight": 0}, {"role": "assistant", "content": "b", "weight": 1}], "id": 7})",
        "<s><u>q<e>\n<a>a<e>\n<a>[b<e>]\n"},
       {R"({"conversations": [{"from": "human", "value": "q", "lang": 1}, {"from": "gpt", "value": "a"}], "id": 7})",
        "<s><u>q<e>\n<a>[a<e>]\n"}});
  check_says(files.open("language", "rows.jsonl")->info().description,
             "keys that are not read: conversations.lang, id");
  files.write("rows.jsonl", R"({"messages": [{"role": "assistant", "content": "q", "tone": "x"}]})");
  check_says(files.open("language", "rows.jsonl")->info().description, "keys that are not read: messages.tone");
  files.write("rows.jsonl", R"({"prompt": "a", "completion": "b", "tools": []})");
  check_says(files.open("language", "rows.jsonl")->info().description, "keys that are not read: tools");
  files.write("rows.txt", "one\n\ntwo\r\n");
  CHECK(files.shown(files.open("language", "rows.txt")) == std::vector<std::string>{"[<s>one</s>]", "[<s>two</s>]"});
}

TEST_CASE("language: answers follow from generation blocks, from prefixes, or from the place of their text") {
  const std::string blocks =
      "{% for m in messages %}{% if m.role == 'assistant' %}<a>{% generation %}{{ m.content }}<e>{% endgeneration %}\n"
      "{% else %}<u>{{ m.content }}<e>\n{% endif %}{% endfor %}";
  check_rows(
      LanguageFiles(blocks), "language",
      {{two_turns, "<u>q<e>\n<a>[an<e>]<u>r<e>\n<a>[b <e>]"},
       {R"({"messages": [{"role": "assistant", "content": "a", "weight": 0}, {"role": "assistant", "content": "b"}]})",
        "<a>a<e><a>[b<e>]"}});
  // Earlier answers lose a part, and the text up to an answer ends in another way than the whole text.
  const std::string changes =
      "{% for m in messages %}<{{ m.role[0] }}>{% if m.role == 'assistant' and not loop.last %}"
      "{{ m.content.split(';')[-1] }}{% else %}{{ m.content }}{% endif %} <e>{% endfor %}"
      "{{ '<a>' if add_generation_prompt else '</s>' }}";
  check_rows(LanguageFiles(changes), "language",
             {{R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "long;b"}, )"
               R"({"role": "user", "content": "r"}, {"role": "assistant", "content": "x;y"}]})",
               "<u>q <e><a>[b <e>]<u>r <e><a>[x;y <e></s>]"}});
  const LanguageFiles hides("{{ messages | length }}<e>");
  hides.write("rows.jsonl", two_turns + "\n");
  check_says(hides.refusal("language", "rows.jsonl"), "rows.jsonl:1: the chat template does not show where message 2");
  CHECK(hides.shown(hides.open("language", "rows.jsonl", with("loss_on", "all"))) ==
        std::vector<std::string>{"[4<e>]"});
}

TEST_CASE("language: sequences that are too long, and rows in which nothing is learned") {
  const LanguageFiles files;
  files.write("rows.jsonl",
              "{\"prompt\": \"123456\", \"completion\": \"ab\"}\n{\"prompt\": \"1\", \"completion\": \"abcdefghij\"}\n"
              "{\"prompt\": \"1\", \"completion\": \"a\"}\n");
  const auto shown = [&](const char* how) {
    return files.shown(files.open("language", "rows.jsonl", {{"max_length", std::int64_t{6}}, {"too_long", how}}));
  };
  using Rows = std::vector<std::string>;
  CHECK(shown("cut") == Rows{"<s>1[abcd]", "<s>1[a</s>]"});
  CHECK(shown("drop") == Rows{"<s>1[a</s>]"});
  CHECK(shown("cut_prompt") == Rows{"<s>56[ab</s>]", "<s>[abcde]", "<s>1[a</s>]"});
  const std::string said = files.open("language", "rows.jsonl", {{"max_length", std::int64_t{6}}})->info().description;
  check_says(said, "2 rows of prompt and completion, 10 tokens, of which 6 are learned");
  check_says(said, "2 rows cut at 6 tokens");
  check_says(said, "1 row left out, in which nothing is learned");
  check_says(files.refusal("language", "rows.jsonl", {{"max_length", std::int64_t{2}}}), "nothing is learned");
}

TEST_CASE("language: windows of a long sequence, in which each token is learned once") {
  const LanguageFiles files;
  files.write("rows.jsonl", "{\"text\": \"123456789\"}\n{\"text\": \"ab\"}\n");
  const auto options = [](std::int64_t length, std::int64_t stride) {
    return OptionValues{{"max_length", length}, {"window_stride", stride}, {"add_eos", false}};
  };
  using Rows = std::vector<std::string>;
  CHECK(files.shown(files.open("language", "rows.jsonl", options(4, 2))) ==
        Rows{"[<s>123]", "23[45]", "45[67]", "67[89]", "[<s>ab]"});
  CHECK(files.shown(files.open("language", "rows.jsonl", options(4, 3))) ==
        Rows{"[<s>123]", "3[456]", "6[789]", "[<s>ab]"});
  CHECK(files.shown(files.open("language", "rows.jsonl", options(6, 4))) == Rows{"[<s>12345]", "45[6789]", "[<s>ab]"});
  // The first token of a window is not predicted: the last window has no other.
  const DatasetPtr apart = files.open("language", "rows.jsonl", options(3, 3));
  CHECK(files.shown(apart) == Rows{"[<s>12]", "[345]", "[678]", "[<s>ab]"});
  check_says(apart->info().description, "1 window left out, in which nothing is learned");
  CHECK(files.shown(files.open("language", "rows.jsonl", options(10, 1))) == Rows{"[<s>123456789]", "[<s>ab]"});
  files.write("rows.jsonl", "{\"prompt\": \"123456\", \"completion\": \"ab\"}\n");
  CHECK(files.shown(files.open("language", "rows.jsonl", options(4, 2))) == Rows{"456[a]", "6a[b]"});
  check_says(files.refusal("language", "rows.jsonl", options(4, 5)), "data.window_stride");
  OptionValues both = options(4, 2);
  both["too_long"] = "drop";
  check_says(files.refusal("language", "rows.jsonl", both), "data.too_long");
}

TEST_CASE(
    "language: special tokens that stand in messages are counted, and a template that weights did not learn is said") {
  const LanguageFiles files;
  files.write("rows.jsonl",
              two_turns + "\n" +
                  R"({"messages": [{"role": "user", "content": "q<e>"}, {"role": "assistant", "content": "a"}]})"
                  "\n" +
                  R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "</s>"}]}, )"
                  R"({"role": "assistant", "content": "a"}]})"
                  "\n");
  const std::string flat = "{% for m in messages %}{{ '<' ~ m.role[0] ~ '>' ~ m.content ~ '<e>' }}{% endfor %}";
  files.write("flat.jinja", flat);
  const auto said = [&](const std::string& chat_template, const char* model) {
    DatasetOptions options{
        .path = files / "rows.jsonl",
        .model = files / model,
        .settings = {{"tokenizer", (files / "").string()}, {"loss_on", "all"}, {"chat_template", chat_template}}};
    options.hold_out = HoldOut::none;
    return open_dataset("language", options)->info().description;
  };
  const std::string own = said("", ""), other = said((files / "flat.jinja").string(), "");
  check_says(own, "2 rows with special tokens");
  CHECK(own.find("warning") == std::string::npos);
  check_says(other, "warning: ");
  // A base model's folder has a tokenizer without a template.
  std::filesystem::create_directory(files / "base");
  std::filesystem::copy(files / "tokenizer.json", files / "base/tokenizer.json");
  check_says(said("", "base"), "warning: ");
  CHECK(said("", "no folder").find("warning") == std::string::npos);
}

TEST_CASE("language: refusals name the row and its keys") {
  const LanguageFiles files;
  const std::string good = R"({"text": "a"})", deep = std::string(100'000, '[') + std::string(100'000, ']');
  const std::vector<std::pair<std::string, std::string>> cases{
      {good + "\n" + two_turns,
       "rows.jsonl:2: expected a row of the form `text`, as the first row is, got `messages` with the keys messages"},
      {good + "\n{\"txt\": 1}", "rows.jsonl:2: expected an object with `messages`"},
      {good + "\n{\"txt\": 1}", "got `txt`"},
      {good + "\n{", "rows.jsonl:2: the row: expected JSON"},
      {"{\"messages\": " + deep + "}", "rows.jsonl:1: the row: expected JSON of"},
      {R"({"messages": [{"role": "user", "content": "a"}], "tools": ")" + deep + "\"}", "`tools`: expected JSON of"},
      {"{\"text\": 3}", "expected a text in `text`, got number"},
      {"{\"messages\": []}", "expected a list of messages"},
      {R"({"messages": [{"role": "user"}]})", "expected a list of messages"},
      {R"({"messages": [{"role": "assistant", "content": "a", "weight": 0.5}]})", "got 0.5"},
      {R"({"messages": [{"role": "user", "content": "a", "weight": 0}]})", "`weight`"},
      {R"({"conversations": [{"from": "gpt"}]})", "`from` and `value`"},
      {"{\"conversations\": [{\"from\": \"robot\", \"value\": \"a\"}]}", "got `robot`"},
      {"{\"input_ids\": [1, 2], \"labels\": [1, 3]}", "got 3 at token 1"},
      {"{\"input_ids\": [1, 900]}", "expected `input_ids` below"},
      {"{\"instruction\": \"a\", \"output\": \"b\", \"system\": \"s\"}", "data.alpaca=chat"},
      {"{\"chosen\": \"a\", \"rejected\": \"b\"}", "data.name=preference"},
      {"{\"prompt\": \"a\", \"completion\": [{\"role\": \"assistant\", \"content\": \"a\"}]}",
       "expected a list of messages"},
      {"\n\n", "expected rows, got none"}};
  for (const auto& [rows, says] : cases) {
    files.write("rows.jsonl", rows + "\n");
    check_says(files.refusal("language", "rows.jsonl"), says);
  }
  files.write("rows.jsonl", two_turns);
  check_says(files.refusal("language", "rows.jsonl", with("chat_template", "tools")), "(default), got tools");
  check_says(files.refusal("preference", "rows.jsonl"), "data.name=language");
  check_says(files.refusal("language", "none.jsonl"), "does not exist");
  files.write("dated.jinja", "{{ strftime_now('%d') }}<a>");
  check_says(files.refusal("language", "rows.jsonl", with("chat_template", (files / "dated.jinja").string())),
             "data.template_date");
  files.write("tokenizer_config.json", "{}");
  check_says(files.refusal("language", "rows.jsonl"), "data.chat_template names a file");
  files.write("rows.jsonl", good);
  check_says(files.refusal("language", "rows.jsonl"), "data.add_eos=false");
}

TEST_CASE("language: settings without effect on the rows are said") {
  const LanguageFiles files;
  const auto said = [&](const std::string& row, const char* key, const Tree& value) {
    files.write("rows.jsonl", row);
    return files.open("language", "rows.jsonl", {{key, value}})->info().description.find("without effect") !=
           std::string::npos;
  };
  const std::string text = R"({"text": "ab"})";
  CHECK(said(text, "alpaca", std::string("chat")));
  CHECK(said(text, "chat_template", std::string("default")));
  CHECK(said(text, "template_date", std::string("2024-07-26")));
  CHECK(said(two_turns, "template_date", std::string("2024-07-26")));
  CHECK(said(two_turns, "add_eos", false));
  CHECK_FALSE(said(text, "add_eos", false));
  CHECK_FALSE(said(two_turns, "chat_template", std::string("default")));
}

TEST_CASE("language: files, folders and patterns; a part is held out where no file is for evaluation") {
  const LanguageFiles files;
  std::filesystem::create_directories(files / "many");
  files.write("many/b.jsonl", "{\"text\": \"b\"}\n");
  files.write("many/a.json", "[{\"text\": \"a\"},\n{\"text\": \"c\"}]");
  using Rows = std::vector<std::string>;
  CHECK(files.shown(files.open("language", "many")) == Rows{"[<s>a</s>]", "[<s>c</s>]", "[<s>b</s>]"});
  CHECK(files.shown(files.open("language", "many/*.jsonl")) == Rows{"[<s>b</s>]"});
  files.write("many/validation.jsonl", "{\"text\": \"v\"}\n");
  CHECK(files.open("language", "many")->size() == 3);
  CHECK(files.shown(files.open("language", "many", {}, HoldOut::by_name, Split::validation)) == Rows{"[<s>v</s>]"});
  const DatasetPtr train = files.open("language", "many/a.json", {}, HoldOut::by_name),
                   held = files.open("language", "many/a.json", {}, HoldOut::by_name, Split::validation);
  CHECK(train->size() == 1);
  CHECK(held->size() == 1);
  CHECK(train->info().held_out != nullptr);
  files.write("rows.jsonl", two_turns);
  CHECK(recognize_dataset(files / "rows.jsonl").name == "language");
  files.write("rows.jsonl", "{\"chosen\": \"a\", \"rejected\": \"b\"}");
  CHECK(recognize_dataset(files / "rows.jsonl").name == "preference");
}

TEST_CASE("language: best fit packs sequences that stay apart") {
  const LanguageFiles files;
  std::string rows;
  for (const char* const text : {"aaaa", "b", "cc", "ddddd", "e"}) rows += fmt::format("{{\"text\": \"{}\"}}\n", text);
  files.write("rows.jsonl", rows);
  const DatasetPtr data =
      files.open("language", "rows.jsonl", {{"packing", std::string("best_fit")}, {"max_length", std::int64_t{10}}});
  CHECK(files.shown(data) ==
        std::vector<std::string>{"[<s>ddddd</s>] | [<s>b</s>]", "[<s>aaaa</s>] | [<s>cc</s>]", "[<s>e</s>]"});
  check_says(data->info().description, "packed in 3 samples, which are 76.7 % full");
  const Batches batches(data, {.size = 3});
  Sample sample;
  const Batch batch = batches.read(0, 0, batches.allocate(), sample);
  CHECK(batch["offsets"].to_vector() == std::vector<double>{0, 10, 20, 23});
  CHECK(batch["sequence_lengths"].to_vector() == std::vector<double>{7, 3, 6, 4, 3});
  CHECK(batch.part(1, 3)["sequence_lengths"].to_vector() == std::vector<double>{6, 4, 3});
  const std::vector<std::int64_t> lengths{3, 8, 8, 2, 2, 5, 8};
  CHECK(best_fit_bins(lengths, 8) == std::vector<std::vector<std::int32_t>>{{1}, {2}, {6}, {5, 0}, {3, 4}});
}

TEST_CASE("preference: a sample has the chosen and the rejected answer") {
  check_rows(
      LanguageFiles(), "preference",
      {{R"({"prompt": "q ", "chosen": "yes", "rejected": "no"})", "<s>q [yes</s>] | <s>q [no</s>]"},
       {R"({"chosen": "yes", "rejected": "no"})", "[<s>yes</s>] | [<s>no</s>]"},
       {R"({"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}]})",
        "<s><u>q<e>\n<a>[a<e>\n] | <s><u>q<e>\n<a>[b<e>\n]"},
       {R"({"prompt": [{"role": "user", "content": "q"}], "chosen": [{"role": "assistant", "content": "a"}], "rejected": [{"role": "assistant", "content": "b"}]})",
        "<s><u>q<e>\n<a>[a<e>\n] | <s><u>q<e>\n<a>[b<e>\n]"}});
}

}  // namespace
}  // namespace lacuna
