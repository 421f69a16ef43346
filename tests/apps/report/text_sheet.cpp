// Training on rows for language models, and the sheet of their tokens.
#include "tests/apps/report/page.h"
#include "tests/data/language_files.h"

using namespace lacuna::test;

TEST_CASE("report: a run on conversations, and a sheet of its tokens") {
  const LanguageFiles files;
  const TemporaryFolder folder;
  std::string rows;
  for (int i = 0; i < 40; ++i)
    rows += fmt::format(
        R"({{"messages": [{{"role": "user", "content": "q{0}"}}, {{"role": "assistant", "content": "is {0}"}}]}})"
        "\n",
        i);
  files.write("rows.jsonl", rows);
  write_file(folder / "c.yaml",
             fmt::format("model: {{name: decoder, vocab_size: 128, hidden_size: 16, intermediate_size: 32, "
                         "num_hidden_layers: 1, num_attention_heads: 2, max_position_embeddings: 64}}\n"
                         "data: {{name: language, path: {}, tokenizer: {}, max_length: 64, packing: best_fit}}\n"
                         "task: {{name: causal_lm}}\ntrain: {{epochs: 1, batch_size: 2, threads: 1}}\n"
                         "output: {{dir: r}}\n",
                         (files / "rows.jsonl").string(), (files / "").string()));
  const CommandResult trained = lacuna::test::run(folder, {"train", "-c", "c.yaml"});
  check_says(trained.out + trained.error, "rows of messages");
  check_says(trained.out + trained.error, "packed in");
  lacuna::test::run(folder, {"plan", "-c", "c.yaml"});
  for (const char* const from : {"c.yaml", "r"}) {
    lacuna::test::run(folder, {"report", "--data", from, "-o", "s.html"});
    const std::string page = read_file(folder / "s.html");
    check_says(page, "sequences</h2>");
    check_says(page, "class=\"learned\">i</span>");
    check_says(page, "&#60;a&#62;</span>");
  }
}
