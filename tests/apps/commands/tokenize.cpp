// lacuna tokenize: ids for programs, pieces for people, and back.
#include "tests/apps/train/train_run.h"

namespace lacuna::test {
namespace {

using nlohmann::json;

// A folder with the small tokenizer of a kind, of tests/data/text/make_tokenizers.py.
struct TokenizerFolder : TemporaryFolder {
  explicit TokenizerFolder(const std::string& kind) {
    const json all =
        json::parse(read_file(std::filesystem::path(LACUNA_SOURCE_DIR) / "tests/data/text/tokenizers.json"));
    reference = all["tokenizers"][kind];
    texts = all["texts"];
    pairs = all["pairs"];
    write_file(*this / "tokenizer.json", reference["file"].dump());
  }
  json reference, texts, pairs;
};

TEST_CASE("tokenize: ids of texts and pairs, with special tokens and without, and their text") {
  const TokenizerFolder folder("llama2");
  json ids = json::array(), plain = json::array(), decoded = json::array(), skipped = json::array();
  for (const json& one : folder.reference["cases"]) {
    ids.push_back(one["ids"]);
    plain.push_back(one["plain"]);
    decoded.push_back(one["decoded"]);
    skipped.push_back(one["skipped"]);
  }
  json of_pairs = json::array();
  for (const json& one : folder.reference["pairs"]) of_pairs.push_back(one["ids"]);
  for (const auto& [name, value] :
       {std::pair{"texts.json", folder.texts}, {"pairs.json", folder.pairs}, {"ids.json", ids}, {"plain.json", plain}})
    write_file(folder / name, value.dump());
  struct Row {
    std::vector<std::string> words;
    json wanted;
  };
  for (const Row& row : {Row{{"--input", "texts.json"}, ids}, Row{{"--input", "texts.json", "--no-special"}, plain},
                         Row{{"--input", "pairs.json"}, of_pairs}, Row{{folder.texts[8].get<std::string>()}, {ids[8]}},
                         Row{{"--decode", "--input", "plain.json"}, decoded},
                         Row{{"--decode", "--skip-special", "--input", "ids.json"}, skipped}}) {
    std::vector<std::string> words{"tokenize", "."};
    words.insert(words.end(), row.words.begin(), row.words.end());
    words.insert(words.end(), {"--json", "-"});
    CAPTURE(row.words.front());
    CHECK(run(folder, words).json() == row.wanted);
  }
  const std::string shown = run(folder, {"tokenize", ".", "a fox"}).out;
  check_says(shown, "1  <s>");
  check_says(shown, "a▁");
  check_says(shown, "\"a \"");
  CHECK(run(folder, {"tokenize", ".", "--decode", "1,297 313"}).out == "<s> a \n");
}

TEST_CASE("tokenize: transformers' other ids are noted, and wrong input is refused") {
  const TokenizerFolder folder("llama2");
  write_file(folder / "tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer"})");
  check_says(run(folder, {"tokenize", ".", "a"}).error, "transformers 5");
  write_file(folder / "texts.json", R"(["a", 7])");
  write_file(folder / "ids.json", R"([[1, -2]])");
  write_file(folder / "broken.json", "[");
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  write_file(folder / "deep.json", deep);
  fs::create_directory(folder / "deep");
  write_file(folder / "deep/tokenizer.json", deep);
  check_refused(folder, {"tokenize", "nowhere", "a"}, {"nowhere"});
  check_refused(folder, {"tokenize", "."}, {"--input"});
  check_refused(folder, {"tokenize", ".", "--input", "texts.json"}, {"texts.json", "item 2"});
  check_refused(folder, {"tokenize", ".", "--input", "broken.json"}, {"broken.json"});
  check_refused(folder, {"tokenize", ".", "--input", "deep.json"}, {"deep.json"});
  check_refused(folder, {"tokenize", "deep", "a"}, {"deep/tokenizer.json"});
  check_refused(folder, {"tokenize", ".", "--decode", "--input", "ids.json"}, {"ids.json", "item 1"});
  check_refused(folder, {"tokenize", ".", "--decode", "1,x"}, {"1,x"});
  check_refused(folder, {"tokenize", ".", "a", "--skip-special"}, {"--decode"});
  check_refused(folder, {"tokenize", ".", "\xff"}, {"UTF-8"});
}

}  // namespace
}  // namespace lacuna::test
