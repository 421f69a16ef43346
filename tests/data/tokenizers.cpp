// Tokenizers of every kind against the tokenizers library; see make_tokenizers.py.
#include "data/text/tokenizer.h"
#include "data/text/tokenizers/regex.h"
#include "tests/data/text_files.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

namespace lacuna {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;
using test::check_says, test::refusal_of;

const json& references() {
  static const json value =
      json::parse(test::read_file(std::filesystem::path(LACUNA_SOURCE_DIR) / "tests/data/text/tokenizers.json"));
  return value;
}

const json& file_of(const char* kind) { return references()["tokenizers"][kind]["file"]; }

Tokenizer from_file(const json& file, const std::string& config = {}) {
  return Tokenizer(parse_tokenizer_json(file.dump(), "tokenizer.json", {.config = {config, "tokenizer_config.json"}}));
}

Ids ids_of(const std::vector<Tokenizer::Piece>& pieces) {
  Ids ids;
  for (const Tokenizer::Piece& piece : pieces) ids.push_back(piece.id);
  return ids;
}

TEST_CASE("tokenizers: add_prefix_space of tokenizer_config.json is said where tokenizer.json contradicts it") {
  const auto said = [](const char* kind, const char* class_name, bool adds) {
    const json config{{"tokenizer_class", class_name}, {"add_prefix_space", adds}};
    return from_file(file_of(kind), config.dump()).config().contradiction;
  };
  for (const auto& [kind, adds] : {std::pair{"gpt2", false}, std::pair{"llama2", true}, std::pair{"mistral", true}}) {
    CAPTURE(kind);
    CHECK(said(kind, "LlamaTokenizer", adds).empty());
    check_says(said(kind, "LlamaTokenizerFast", !adds), "add_prefix_space");
    CHECK(said(kind, "PreTrainedTokenizerFast", !adds).empty());  // transformers does not read it either
  }
}

TEST_CASE("tokenizers: ids, spans and texts of every kind are those of the tokenizers library") {
  const json& texts = references()["texts"];
  for (const auto& [kind, reference] : references()["tokenizers"].items()) {
    CAPTURE(kind);
    const Tokenizer tokenizer = from_file(reference["file"]);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::string text = texts[i].get<std::string>();
      const json& wanted = reference["cases"][i];
      CAPTURE(text);
      const std::vector<Tokenizer::Piece> pieces = tokenizer.pieces(text);
      std::vector<std::uint32_t> spans;
      for (const Tokenizer::Piece& piece : pieces) spans.insert(spans.end(), {piece.begin, piece.end});
      const Ids ids = tokenizer.encode(text).tokens;
      CHECK(ids_of(pieces) == wanted["plain"].get<Ids>());
      CHECK(spans == wanted["spans"].get<std::vector<std::uint32_t>>());
      CHECK(ids == wanted["ids"].get<Ids>());
      CHECK(tokenizer.decode(ids_of(pieces)) == wanted["decoded"].get<std::string>());
      CHECK(tokenizer.decode(ids, true) == wanted["skipped"].get<std::string>());
    }
    const json& pairs = references()["pairs"];
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      CAPTURE(i);
      const Tokenizer::Encoding pair = tokenizer.encode(pairs[i][0].get<std::string>(), pairs[i][1].get<std::string>());
      CHECK(pair.tokens == reference["pairs"][i]["ids"].get<Ids>());
      CHECK(Ids(pair.types.begin(), pair.types.end()) == reference["pairs"][i]["types"].get<Ids>());
    }
  }
}

TEST_CASE("tokenizers: 10,000 lines of mixed Unicode have the ids of the tokenizers library in every kind") {
  const char* const python = std::getenv("PYTHON");
  if (python == nullptr) {
    MESSAGE("skipped: PYTHON names no interpreter with tokenizers");
    return;
  }
  const test::TemporaryFolder folder;
  const std::string command =
      std::string(python) + " " LACUNA_SOURCE_DIR "/tests/data/text/make_tokenizers.py --lines 10000 " + folder.path();
  if (std::system(command.c_str()) != 0) {
    MESSAGE("skipped: " << python << " has no tokenizers");
    return;
  }
  for (const auto& [kind, reference] : references()["tokenizers"].items()) {
    CAPTURE(kind);
    const Tokenizer tokenizer(read_tokenizer_files(folder / kind));
    std::ifstream lines(folder / "lines.txt"), ids(folder / kind / "ids.txt");
    int count = 0;
    for (std::string line, wanted; std::getline(lines, line) && std::getline(ids, wanted); ++count) {
      std::string got;
      for (const std::int32_t id : tokenizer.encode(line).tokens) got += (got.empty() ? "" : " ") + std::to_string(id);
      CAPTURE(line);
      REQUIRE(got == wanted);
    }
    CHECK(count == 10000);
  }
}

TEST_CASE("tokenizers: threads that share a tokenizer, and tokenizers that share a thread, have the same ids") {
  const Tokenizer one = from_file(file_of("llama2")), other = from_file(file_of("qwen"));
  std::string text;
  for (const json& each : references()["texts"]) text += each.get<std::string>() + " ";
  const Ids of_one = one.encode(text).tokens, of_other = other.encode(text).tokens;
  std::vector<int> equal(4);
  std::vector<std::thread> threads;
  for (int& count : equal)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i)
        count += one.encode(text).tokens == of_one && other.encode(text).tokens == of_other ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(equal == std::vector<int>(4, 20));
}

TEST_CASE("tokenizers: a long text without words is merged as a short one") {
  const Tokenizer tokenizer = from_file(file_of("llama2"));
  std::string text = "the quick";
  for (int i = 0; i < 12; ++i) text += text;  // one word for this model
  const Ids once = ids_of(tokenizer.pieces("the quick")), all = ids_of(tokenizer.pieces(text));
  CHECK(tokenizer.decode(all) == text);
  CHECK(Ids(all.begin(), all.begin() + std::ssize(once) - 1) == Ids(once.begin(), once.end() - 1));
}

TEST_CASE("tokenizers: broken byte sequences become U+FFFD, one for each beginning of a character") {
  const Tokenizer tokenizer = from_file(file_of("gpt2"));
  Ids half;  // é and the first two bytes of €
  for (const char* const token : {"Ã", "©", "â", "Ĥ", "a", "ÿ"}) half.push_back(tokenizer.id_of(token, "this test"));
  CHECK(tokenizer.decode(half) == "é\ufffda\ufffd");
}

TEST_CASE("tokenizers: the configuration's special tokens, lengths and chat templates are there") {
  const Tokenizer tokenizer =
      from_file(file_of("llama2"),
                R"({"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "unk_token": "<unk>",
      "eos_token": {"content": "</s>"}, "pad_token": null, "model_max_length": 1e30, "chat_template": "{{ a }}"})");
  CHECK(tokenizer.config().bos == "<s>");
  CHECK(tokenizer.config().eos == "</s>");
  CHECK(tokenizer.config().pad.empty());
  CHECK(tokenizer.config().unknown == "<unk>");
  CHECK(tokenizer.config().longest_text == 0);
  CHECK(tokenizer.config().chat_templates.at("default") == "{{ a }}");
  CHECK_FALSE(tokenizer.remark().empty());
  const std::string list = R"({"model_max_length": 77, "chat_template": [{"name": "default", "template": "x"},
                              {"name": "tool_use", "template": "y"}]})";
  const Tokenizer named = from_file(file_of("gpt_neox"), list);
  CHECK(named.config().longest_text == 77);
  CHECK(named.config().chat_templates.at("tool_use") == "y");
  // Files of their own stand in place of all templates in tokenizer_config.json.
  using Templates = std::map<std::string, std::string>;
  const test::TemporaryFolder folder;
  test::write_file(folder / "tokenizer.json", file_of("gpt_neox").dump());
  test::write_file(folder / "tokenizer_config.json", list);
  test::write_file(folder / "chat_template.jinja", "z");
  CHECK(open_tokenizer(folder.path())->config().chat_templates == Templates{{"default", "z"}});
  std::filesystem::create_directory(folder / "additional_chat_templates");
  test::write_file(folder / "additional_chat_templates/rag.jinja", "r");
  CHECK(open_tokenizer(folder.path())->config().chat_templates == Templates{{"default", "z"}, {"rag", "r"}});
  Templates texts = tokenizer_texts(folder.path());
  CHECK(texts.at("additional_chat_templates/rag.jinja") == "r");
  set_chat_template("own", texts);
  const test::TemporaryFolder copy;
  for (const auto& [name, text] : texts) test::write_file(copy / name, text);
  CHECK(open_tokenizer(copy.path())->config().chat_templates == Templates{{"default", "own"}});
  CHECK(named.remark().empty());
}

// Ids of AutoTokenizer in transformers 5, which leaves out both keys beside tokenizer.json.
TEST_CASE("tokenizers: tokenizer.json has the tokens around a text, and other keys of tokenizer_config.json are said") {
  struct Row {
    const char* config;
    bool contradicts;
  };
  for (const Row& row : {
           Row{R"({"tokenizer_class": "LlamaTokenizer", "add_eos_token": true)", true},
           Row{R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": false)", true},
           Row{R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": true)", false},
           Row{R"({"tokenizer_class": "LlamaTokenizer")", false},
           Row{R"({"tokenizer_class": "GPT2Tokenizer", "add_bos_token": false)", true},
       }) {
    CAPTURE(row.config);
    const Tokenizer tokenizer =
        from_file(file_of("llama2"), std::string(row.config) + R"(, "bos_token": "<s>", "eos_token": "</s>"})");
    CHECK(tokenizer.encode("a").tokens == Ids{1, 297, 269});
    CHECK(tokenizer.config().contradiction.empty() != row.contradicts);
  }
}

TEST_CASE("tokenizers: text data sets put the special tokens of RoBERTa and XLM-RoBERTa around pairs") {
  const test::Files files;
  files.write("train.tsv", "a\tb\tlabel\nHello\tworld\tx\na b\t<s>\ty\n");
  for (const char* const kind : {"roberta", "xlm_roberta"}) {
    CAPTURE(kind);
    files.write(std::string(kind) + "/tokenizer.json", file_of(kind).dump());
    const DatasetPtr set =
        files.open("text", "train.tsv",
                   {{"tokenizer", (files / kind).string()}, {"text", std::string("a")}, {"pair", std::string("b")}});
    const Batch batch = test::all_of(set);
    test::Values wanted;
    for (const std::size_t pair : {0, 2})
      for (const json& id : references()["tokenizers"][kind]["pairs"][pair]["ids"]) wanted.push_back(id.get<double>());
    CHECK(batch["tokens"].to_vector() == wanted);
    CHECK(batch["token_types"].to_vector() == test::Values(wanted.size(), 0));
  }
}

TEST_CASE("tokenizers: words with tags have the tokens of the text that they make") {
  const test::Files files;
  files.write("train.jsonl",
              "{\"tokens\": [\"the\", \"lazy\", \"dog\"], \"tags\": [\"O\", \"B-X\", \"B-X\"]}\n"
              "{\"tokens\": [\"film\"], \"tags\": [\"O\"]}\n");
  for (const char* const kind : {"gpt2", "roberta", "xlm_roberta", "albert"}) {
    CAPTURE(kind);
    files.write(std::string(kind) + "/tokenizer.json", file_of(kind).dump());
    const Batch batch =
        test::all_of(files.open("tagged_text", "train.jsonl", {{"tokenizer", (files / kind).string()}}));
    const Tokenizer tokenizer = from_file(file_of(kind));
    test::Values wanted;
    for (const char* const text : {"the lazy dog", "film"})
      for (const std::int32_t id : tokenizer.encode(text).tokens) wanted.push_back(id);
    CHECK(batch["tokens"].to_vector() == wanted);
  }
}

TEST_CASE("tokenizers: regular expressions are read as Oniguruma reads them") {
  struct Row {
    const char* pattern;
    const char* text;
    std::vector<std::string> matches;
  };
  for (const Row& row : {
           Row{R"(\s+)", "a\u180eb \u00a0c", {" \u00a0"}},
           Row{R"([^\s])", "\u180e", {"\u180e"}},
           Row{R"([\S])", "\u180e \u3000", {"\u180e"}},
           Row{R"(\w+)", "a\u0301b_1½", {"a\u0301b_1"}},
           Row{" ?[^(\\s|[.,!?])]+", "ab]c(d).e", {"ab]c", "d", "e"}},
           Row{R"([[a-c]x]+)", "abxcd", {"abxc"}},
           Row{R"((?i:'s|'ll))", "'S 'ſ 'LL", {"'S", "'ſ", "'LL"}},
           Row{R"(a(?=b)|$)", "abac\n", {"a", "", ""}},
           Row{R"((?m:a.b))", "a\nb", {"a\nb"}},
           Row{R"(\h+)", "xBeEfg", {"BeEf"}},
           Row{R"(\p{N}{1,3})", "1234", {"123", "4"}},
       }) {
    CAPTURE(row.pattern);
    Matches matches;
    Regex(row.pattern, "t.json").find_all(row.text, matches);
    std::vector<std::string> found;
    for (const Match& part : matches)
      if (part.is_match) found.emplace_back(row.text + part.begin, row.text + part.end);
    CHECK(found == row.matches);
  }
  for (const char* const pattern : {R"([a[^b]])", R"([a&&b])", R"(a\b)", "(a", "[a", R"([\W])", R"(\p{Nonsense})"}) {
    CAPTURE(pattern);
    check_says(refusal_of([&] { Regex(pattern, "t.json"); }), pattern);
  }
}

TEST_CASE("tokenizers: unsupported steps and damaged files are refused by name") {
  struct Row {
    const char* kind;
    const char* pointer;
    json value;
    const char* says;
  };
  json deep = {{"type", "NFC"}};
  for (int i = 0; i < 20; ++i) deep = {{"type", "Sequence"}, {"normalizers", {deep}}};
  const json split = {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}};
  for (const Row& row : {
           Row{"gpt2", "/model/dropout", 0.1, "dropout"},
           Row{"gpt2", "/model/merges/0", "a b c", "merges[0]"},
           Row{"gpt2", "/model/merges/0", json{"a", "nowhere"}, "nowhere"},
           Row{"gpt2", "/model/merges/1", 7, "merges[1]"},
           Row{"gpt2", "/model/vocab/!", 1 << 24, "vocab"},
           Row{"gpt2", "/pre_tokenizer/type", "UnicodeScripts", "UnicodeScripts"},
           Row{"gpt2", "/pre_tokenizer", split, "(a"},
           Row{"gpt2", "/decoder/type", "CTC", "CTC"},
           Row{"gpt2", "/normalizer", deep, "8 deep"},
           Row{"falcon", "/pre_tokenizer/pretokenizers/0/behavior", "Sideways", "Sideways"},
           Row{"roberta", "/post_processor/sep", "</s>", "sep"},
           Row{"roberta", "/post_processor/cls", json{"<s>", -1}, "cls"},
           Row{"llama3", "/post_processor/processors/0", file_of("roberta")["post_processor"], "RobertaProcessing"},
           Row{"gemma", "/normalizer/pattern", json{{"String", ""}}, "pattern"},
           Row{"gemma", "/added_tokens/0/content", "", "added_tokens"},
           Row{"mistral", "/pre_tokenizer/prepend_scheme", "sometimes", "sometimes"},
           Row{"mistral", "/pre_tokenizer/replacement", "ab", "replacement"},
           Row{"t5", "/model/unk_id", 100000, "unk_id"},
           Row{"t5", "/model/vocab/3", json{"a"}, "vocab[3]"},
           Row{"xlm_roberta", "/normalizer/precompiled_charsmap", "?", "base64"},
           Row{"xlm_roberta", "/normalizer/precompiled_charsmap", "AAAAAA==", "trie"},
           Row{"xlm_roberta", "/normalizer/precompiled_charsmap", "/////w==", "trie"},
       }) {
    CAPTURE(row.pointer);
    json file = file_of(row.kind);
    file[json::json_pointer(row.pointer)] = row.value;
    check_says(refusal_of([&] { from_file(file); }), row.says);
  }
  json without = file_of("t5");
  without["model"]["unk_id"] = nullptr;
  check_says(refusal_of([&] { from_file(without).encode("\u4e00"); }), "\u4e00");
  const test::TemporaryFolder folder;
  test::write_file(folder / "tokenizer.model", "");
  check_says(refusal_of([&] { open_tokenizer(folder.path()); }), "save_pretrained");
}

}  // namespace
}  // namespace lacuna
