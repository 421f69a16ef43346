#include "data/text/tokenizer.h"

#include "core/error.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace lacuna {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

// Ids of the tokenizers library; see make_tokens.py.
const json& reference() {
  static const json value =
      json::parse(test::read_file(std::filesystem::path(LACUNA_SOURCE_DIR) / "tests/data/text/tokens.json"));
  return value;
}

std::string vocabulary() {
  std::string lines;
  for (const auto& token : reference()["vocabulary"]) lines += token.get<std::string>() + "\n";
  return lines;
}

Tokenizer from_vocabulary(const std::string& config = {}) {
  return Tokenizer(parse_vocabulary(vocabulary(), "vocab.txt", {.config = {config, "tokenizer_config.json"}}));
}

TEST_CASE("tokens are those of the tokenizers library") {
  const Tokenizer uncased = from_vocabulary(), cased = from_vocabulary(R"({"do_lower_case": false})"),
                  from_json(parse_tokenizer_json(reference()["tokenizer"].dump(), "tokenizer.json"));
  for (const json& each : reference()["cases"]) {
    const std::string text = each["text"].get<std::string>();
    CAPTURE(text);
    CHECK(uncased.encode(text).tokens == each["uncased"].get<Ids>());
    CHECK(from_json.encode(text).tokens == each["uncased"].get<Ids>());
    CHECK(cased.encode(text).tokens == each["cased"].get<Ids>());
  }
}

TEST_CASE("pairs are cut and typed as the tokenizers library does it") {
  const Tokenizer tokenizer = from_vocabulary();
  for (const json& each : reference()["pairs"]) {
    const Tokenizer::Encoding pair = tokenizer.encode(each["first"].get<std::string>(),
                                                      each["second"].get<std::string>(), each["longest"].get<int>());
    CAPTURE(each["longest"].get<int>());
    CHECK(pair.tokens == each["ids"].get<Ids>());
    CHECK(std::vector<std::int32_t>(pair.types.begin(), pair.types.end()) == each["types"].get<Ids>());
  }
  CHECK(longest_first(12, 8, 10) == std::pair<std::int64_t, std::int64_t>{5, 5});
  CHECK(longest_first(11, 10, 9) == std::pair<std::int64_t, std::int64_t>{5, 4});
}

TEST_CASE("10,000 lines of mixed Unicode have the ids of the tokenizers library") {
  const char* const python = std::getenv("PYTHON");
  if (python == nullptr) {
    MESSAGE("skipped: PYTHON names no interpreter with tokenizers");
    return;
  }
  const test::TemporaryFolder folder;
  test::write_file(folder / "vocab.txt", vocabulary());
  const std::string command =
      std::string(python) + " " LACUNA_SOURCE_DIR "/tests/data/text/make_tokens.py --lines 10000 " + folder.path();
  if (std::system(command.c_str()) != 0) {
    MESSAGE("skipped: " << python << " has no tokenizers");
    return;
  }
  const Tokenizer tokenizer(read_tokenizer_files(folder.path()));
  std::ifstream lines(folder / "lines.txt"), ids(folder / "ids.txt");
  int count = 0;
  for (std::string line, wanted; std::getline(lines, line) && std::getline(ids, wanted); ++count) {
    std::string got;
    for (const std::int32_t id : tokenizer.encode(line).tokens) got += (got.empty() ? "" : " ") + std::to_string(id);
    CAPTURE(line);
    REQUIRE(got == wanted);
  }
  CHECK(count == 10000);
}

TEST_CASE("a piece knows the bytes of the text that it stands for") {
  const Tokenizer tokenizer = from_vocabulary();
  const std::string text = "Café unbelievable 中文";
  std::vector<std::string> parts;
  for (const Tokenizer::Piece& piece : tokenizer.pieces(text))
    parts.push_back(text.substr(piece.begin, piece.end - piece.begin));
  CHECK(parts == std::vector<std::string>{"Café", "unbeliev", "able", "中", "文"});
}

TEST_CASE("an empty text is its special tokens, and too long a word is unknown") {
  const Tokenizer tokenizer = from_vocabulary();
  CHECK(tokenizer.encode("").tokens == Ids{2, 3});
  CHECK(tokenizer.encode(std::string(101, 'a')).tokens == Ids{2, 1, 3});
  CHECK(tokenizer.encode(std::string(100, 'a')).tokens.size() == 102);
  CHECK(tokenizer.encode("a a a a", 4).tokens.size() == 4);
  CHECK_THROWS_AS(tokenizer.encode("a", 1), Error);
}

TEST_CASE("text that is not UTF-8 is refused with its position") {
  CHECK_THROWS_WITH_AS(from_vocabulary().encode("abc \xff"), doctest::Contains("position 5"), Error);
  CHECK_THROWS_AS(from_vocabulary().encode("\xed\xa0\x80"), Error);  // a surrogate
}

TEST_CASE("steps that are not supported and damaged files are refused by name") {
  const auto changed = [](const char* pointer, const json& value) {
    json file = reference()["tokenizer"];
    file[json::json_pointer(pointer)] = value;
    return file.dump();
  };
  const auto refused = [](const std::string& text, const char* part) {
    CHECK_THROWS_WITH_AS(Tokenizer(parse_tokenizer_json(text, "t.json")), doctest::Contains(part), Error);
  };
  refused(changed("/model/type", "BPE"), "BPE");
  refused(changed("/model/type", "WordLevel"), "WordLevel");
  refused(changed("/normalizer/type", "Sponge"), "Sponge");
  refused(changed("/pre_tokenizer/type", "UnicodeScripts"), "UnicodeScripts");
  refused(changed("/post_processor/type", "Sponge"), "Sponge");
  refused(changed("/decoder/type", "CTC"), "CTC");
  refused(changed("/model/vocab/[PAD]", "x"), "[PAD]");
  refused(changed("/model/unk_token", "?!"), "?!");
  refused("{\"model\": ", "t.json");
  refused("[]", "object");
  refused(changed("/added_tokens/0/id", -3), "added_tokens");
  const Tokenizer bert(parse_tokenizer_json(
      changed("/post_processor",
              json::parse(R"({"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]})")),
      "t.json"));
  CHECK(bert.encode("a", "film").types == std::vector<std::int8_t>{0, 0, 0, 1, 1});
  const auto of_types = [](int first, int second) {  // [CLS] A, then B
    return json{
        {"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", "[CLS]"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"pair",
         {{{"SpecialToken", {{"id", "[CLS]"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "A"}, {"type_id", first}}}},
          {{"Sequence", {{"id", "B"}, {"type_id", second}}}}}},
        {"special_tokens", {{"[CLS]", {{"id", "[CLS]"}, {"ids", {2}}, {"tokens", {"[CLS]"}}}}}}};
  };
  refused(changed("/post_processor", of_types(1, 0)), "type_id");
  const Tokenizer rising(parse_tokenizer_json(changed("/post_processor", of_types(0, 1)), "t.json"));
  CHECK(rising.encode("a", "film").types == std::vector<std::int8_t>{0, 0, 1});
  const Tokenizer bare(parse_tokenizer_json(changed("/post_processor", nullptr), "t.json"));
  CHECK(bare.encode("a").tokens.size() == 1);
}

TEST_CASE("added tokens that are normalized match as in the tokenizers library") {
  const auto with_added = [](const std::vector<const char*>& contents) {
    json file = reference()["tokenizer"];
    int id = 134;
    for (const char* const content : contents) {
      json added = file["added_tokens"][0];
      added.update({{"id", id++}, {"content", content}, {"normalized", true}, {"special", false}});
      file["added_tokens"].push_back(added);
    }
    return Tokenizer(parse_tokenizer_json(file.dump(), "t.json"));
  };
  // Values of tokenizers 0.23 after add_tokens.
  const Tokenizer one = with_added({"DNA"});
  for (const char* const text : {"a DNA film", "a dna film", "a Dna film"})
    CHECK(one.encode(text).tokens == Ids{2, 42, 134, 8, 3});
  CHECK(one.encode("dnas").tokens == Ids{2, 134, 60, 3});
  CHECK(with_added({"Café"}).encode("cafe").tokens == Ids{2, 134, 3});
  CHECK(with_added({"DNA", "dna"}).encode("a dna film").tokens == Ids{2, 42, 134, 8, 3});
}

TEST_CASE("a folder has its tokenizer.json read before its vocab.txt, and needs one of them") {
  const test::TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(read_tokenizer_files(folder.path()), doctest::Contains("tokenizer.json or vocab.txt"), Error);
  test::write_file(folder / "vocab.txt", vocabulary());
  CHECK(open_tokenizer(folder.path())->encode("FILM").tokens.size() == 3);
  test::write_file(folder / "tokenizer_config.json", R"({"do_lower_case": false, "cls_token": {"content": "[MASK]"}})");
  CHECK(open_tokenizer(folder.path())->encode("a").tokens.front() == 4);
  test::write_file(folder / "tokenizer.json", reference()["tokenizer"].dump());
  CHECK_THROWS_WITH_AS(read_tokenizer_files(folder.path()), doctest::Contains("do_lower_case"), Error);
  test::write_file(folder / "tokenizer_config.json", R"({"do_lower_case": true, "cls_token": {"content": "[CLS]"}})");
  CHECK(open_tokenizer(folder.path())->encode("FILM").tokens.size() == 3);
  test::write_file(folder / "tokenizer_config.json", R"({"cls_token": {"content": "[MASK]"}})");
  test::write_file(folder / "vocab.txt", "a\nb\n");
  CHECK_THROWS_WITH_AS(read_tokenizer_files(folder / "vocab.txt"), doctest::Contains("[MASK]"), Error);
  test::write_file(folder / "vocab.txt", "a\nb\xff\n");
  CHECK_THROWS_WITH_AS(read_tokenizer_files(folder / "vocab.txt"), doctest::Contains("vocab.txt:2"), Error);
}

TEST_CASE("a tokenizer knows its mask and special tokens, by name or as the file marks them") {
  const std::vector<std::int64_t> usual{0, 1, 2, 3, 4};  // [PAD], [UNK], [CLS], [SEP], [MASK]
  const Vocabulary plain = from_vocabulary().vocabulary();
  CHECK(plain.size == std::ssize(reference()["vocabulary"]));
  CHECK(plain.mask == 4);
  CHECK(plain.special == usual);
  const Vocabulary renamed = from_vocabulary(R"({"mask_token": {"content": "a"}})").vocabulary();
  CHECK(renamed.mask == from_vocabulary().id_of("a", "this test"));
  CHECK(renamed.special == std::vector<std::int64_t>{0, 1, 2, 3, renamed.mask});

  json file = reference()["tokenizer"];
  const auto described = [&](const std::string& config = {}) {
    return Tokenizer(parse_tokenizer_json(file.dump(), "t.json", {.config = {config, "c.json"}})).vocabulary();
  };
  CHECK(described().mask == 4);
  CHECK(described().special == usual);
  json added = file["added_tokens"][0];
  added.update({{"id", 140}, {"content", "[HERE]"}, {"special", true}});
  file["added_tokens"].push_back(added);
  CHECK(described().size == 141);
  CHECK(described().special == std::vector<std::int64_t>{0, 1, 2, 3, 4, 140});
  CHECK(described(R"({"mask_token": "[HERE]"})").mask == 140);
  CHECK(described(R"({"mask_token": "[NOWHERE]"})").mask == -1);
}

TEST_CASE("tokens that any file beside a vocabulary adds are tokens, and contradictions are refused") {
  const std::int32_t more = static_cast<std::int32_t>(reference()["vocabulary"].size());
  const json decoder{{"added_tokens_decoder", {{std::to_string(more), {{"content", "<ent>"}, {"special", true}}}}}};
  const std::string added = json{{"<ent>", more}}.dump();
  for (const TokenizerSettings& settings :
       {TokenizerSettings{.config = {decoder.dump(), "tokenizer_config.json"}},
        TokenizerSettings{.added = {added, "added_tokens.json"}},
        TokenizerSettings{.special = {R"({"additional_special_tokens": ["<ent>"]})", "special_tokens_map.json"},
        .added = {added, "added_tokens.json"}}})
    for (const bool from_json : {false, true}) {
      const Tokenizer tokenizer(from_json
                                    ? parse_tokenizer_json(reference()["tokenizer"].dump(), "tokenizer.json", settings)
                                    : parse_vocabulary(vocabulary(), "vocab.txt", settings));
      CHECK(tokenizer.encode("a <ent> film").tokens == Ids{2, 42, more, tokenizer.id_of("film", "this test"), 3});
      CHECK(tokenizer.vocabulary().size == more + 1);
    }

  struct Contradiction {
    TokenizerSettings settings;
    const char* word;
    bool from_json = false;
  };
  const auto config = [](const char* text) { return TokenizerSettings{.config = {text, "tokenizer_config.json"}}; };
  for (const Contradiction& one :
       {Contradiction{{.added = {R"({"film": 1})", "added_tokens.json"}}, "added_tokens.json"},
        Contradiction{{.added = {R"({"<ent>": 5})", "added_tokens.json"}}, "<ent>"},
        Contradiction{config(R"({"added_tokens_decoder": {"8": {"content": "<ent>"}}})"), "added_tokens_decoder"},
        Contradiction{config(R"({"additional_special_tokens": ["<ent>"]})"), "<ent>"},
        Contradiction{config(R"({"tokenizer_class": "BertJapaneseTokenizer"})"), "BertJapaneseTokenizer"},
        Contradiction{config(R"({"never_split": ["x"]})"), "never_split"},
        Contradiction{
            {.config = {R"({"cls_token": "a"})", "c.json"}, .special = {R"({"cls_token": "[CLS]"})", "s.json"}},
            "cls_token"},
        Contradiction{config(R"({"do_lower_case": false})"), "do_lower_case", true},
        Contradiction{config(R"({"cls_token": "[MASK]"})"), "cls_token", true},
        Contradiction{config(R"({"unk_token": "a"})"), "unk_token", true},
        Contradiction{{.vocabulary = {"a\nb\n", "vocab.txt"}}, "vocab.txt:1", true}}) {
    CAPTURE(one.word);
    const auto read = [&] {
      return one.from_json ? parse_tokenizer_json(reference()["tokenizer"].dump(), "tokenizer.json", one.settings)
                           : parse_vocabulary(vocabulary(), "vocab.txt", one.settings);
    };
    CHECK_THROWS_WITH_AS(read(), doctest::Contains(one.word), Error);
  }
}

}  // namespace
}  // namespace lacuna
