// lacuna generate: texts of a run and of a folder, greedy and drawn.
#include "data/text/tokenizer.h"
#include "tests/apps/train/train_run.h"

#include <sstream>

namespace lacuna::test {
namespace {

using nlohmann::json;

const std::vector<std::string> tiny{
    "model={name: decoder, vocab_size: 400, hidden_size: 16, intermediate_size: 24, "
    "num_hidden_layers: 2, num_attention_heads: 2, max_position_embeddings: 64}",
    "data={train_size: 16, val_size: 4, length: 12}", "train={batch_size: 4, epochs: 1}"};

struct DecoderFolder : TemporaryFolder {
  DecoderFolder() {
    train({"output.dir=base"});
    const json all =
        json::parse(read_file(std::filesystem::path(LACUNA_SOURCE_DIR) / "tests/data/text/tokenizers.json"));
    tokenizer = all["tokenizers"]["llama2"]["file"].dump();
    run(*this, {"export", "base", "model"});
    write_file(*this / "model/tokenizer.json", tokenizer);
  }
  void train(std::vector<std::string> more) {
    std::vector<std::string> arguments{"train"};
    arguments.insert(arguments.end(), tiny.begin(), tiny.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    run(*this, arguments);
  }
  json generated(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "generate");
    arguments.insert(arguments.end(), {"--json", "-"});
    return run(*this, arguments).json();
  }
  std::string tokenizer;
};

TEST_CASE("generate: a run and its folder go on alike, and a drawn text comes again with its seed") {
  DecoderFolder folder;
  const std::vector<std::string> ten{"hello there", "--max-new-tokens", "10"};
  const auto with = [&](const std::string& model, std::vector<std::string> more) {
    more.insert(more.begin(), ten.begin(), ten.end());
    more.insert(more.begin(), model);
    return folder.generated(std::move(more));
  };
  const json greedy = with("model", {"--greedy"});
  REQUIRE(greedy.size() == 1);
  CHECK(greedy[0].at("ids").size() == 10);
  CHECK(greedy[0].at("ended_by") == "length");
  write_file(folder / "base/last/tokenizer.json", folder.tokenizer);
  CHECK(with("base/last", {}) == greedy);
  const json drawn = with("model", {"--sample", "--seed", "3"});
  CHECK(drawn == with("model", {"--temperature", "1", "--seed", "3"}));
  CHECK(drawn != with("model", {"--sample", "--seed", "4"}));
  // generation_config.json says how, and where a text ends.
  const auto second = greedy[0].at("ids").at(1);
  write_file(folder / "model/generation_config.json",
             json{{"do_sample", true}, {"top_k", 1}, {"eos_token_id", {399, second}}}.dump());
  const json ended = with("model", {});
  CHECK(ended[0].at("ended_by") == "stop");
  CHECK(ended[0].at("ids").size() <= 1);
  write_file(folder / "prompts.json", R"(["one", "two"])");
  CHECK(folder.generated({"model", "--input", "prompts.json", "--max-new-tokens", "3"}).size() == 2);
  const CommandResult shown = run(folder, {"generate", "model", "hello", "--max-new-tokens", "4"});
  CHECK(shown.out.ends_with("\n"));
}

TEST_CASE("generate: predict goes on with texts as generate does, of a run and of a table's column of prompts") {
  DecoderFolder folder;
  write_file(folder / "base/last/tokenizer.json", folder.tokenizer);
  write_file(folder / "model/generation_config.json", R"({"max_new_tokens": 5, "do_sample": true, "typical_p": 0.5})");
  const json expected = folder.generated({"model", "one", "two"});
  REQUIRE(expected[0].at("ids").size() == 5);
  write_file(folder / "prompts.jsonl", "{\"id\": 7, \"prompt\": \"one\"}\n{\"id\": 8, \"prompt\": \"two\"}\n");
  const CommandResult result = run(folder, {"predict", "model", "--input", "prompts.jsonl"});
  check_says(result.error, "typical_p");
  std::istringstream lines(result.out);
  std::string line;
  for (std::size_t i = 0; i < 2; ++i) {
    REQUIRE(std::getline(lines, line));
    const json one = json::parse(line);
    CHECK(one.at("text") == expected[i].at("prompt"));
    CHECK(one.at("row").at("id") == 7 + i);
    CHECK(one.at("continuation") == expected[i].at("text"));
    CHECK(one.at("ids") == expected[i].at("ids"));
    CHECK(one.at("ended_by") == "length");
  }
  const std::string greedy = run(folder, {"predict", "base/last", "one"}).out;
  CHECK(json::parse(greedy).at("ids") == folder.generated({"base/last", "one"})[0].at("ids"));
  // A prompt without room in the model is told, and the others go on.
  const CommandResult partly = run_command(folder, {"predict", "model", std::string(400, 'x'), "two"});
  CHECK(partly.code == 2);
  CHECK(json::parse(partly.out).at("ids") == expected[1].at("ids"));
  check_refusals(folder, {"predict", "model", "one"}, {{"--pairs", "pairs"}, {"--max-length=8", "--max-length"}});
  write_file(folder / "model/generation_config.json", R"({"top_p": 2})");
  check_refused(folder, {"generate", "model", "one"}, {"generation_config.json", "top_p"});
}

TEST_CASE("generate: an adapter on a base in few bits goes on as its merged model does") {
  DecoderFolder folder;
  folder.train({"model.from=base/last", "freeze.weights=[\"*=f32\"]", "adapter={name: lora, rank: 2}",
                "optimizer.lr=0.05", "output.dir=tuned"});
  run(folder, {"export", "tuned", "merged"});
  for (const char* const one : {"tuned/last", "merged"}) write_file(folder / one / "tokenizer.json", folder.tokenizer);
  const std::vector<std::string> rest{"hello there", "--max-new-tokens", "8", "--greedy"};
  const auto of = [&](const std::string& model) {
    std::vector<std::string> arguments{model};
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    return folder.generated(std::move(arguments))[0].at("ids");
  };
  CHECK(of("tuned/last") == of("merged"));
  CHECK(of("tuned/last") != of("model"));
  // The same as a folder of PEFT, alone and as what another run begins with.
  run(folder, {"export", "tuned", "peft", "--adapter"});
  CHECK(read_json(folder / "peft/adapter_config.json").at("task_type") == "CAUSAL_LM");
  write_file(folder / "peft/tokenizer.json", folder.tokenizer);
  CHECK(of("peft") == of("merged"));
  folder.train({"model.from=base/last", "adapter.from=peft", "optimizer.lr=0", "output.dir=again"});
  write_file(folder / "again/last/tokenizer.json", folder.tokenizer);
  CHECK(of("again/last") == of("merged"));
}

TEST_CASE("generate: a run keeps the tokenizer, template and ids that it was trained with") {
  DecoderFolder folder;
  const fs::path model = folder / "model";
  write_file(model / "tokenizer_config.json",
             json{{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"chat_template", "{{ 'another' }}"}}.dump());
  json config = read_json(model / "config.json");
  config["bos_token_id"] = 1;
  config["eos_token_id"] = {2, 5};
  write_file(model / "config.json", config.dump());
  write_file(model / "generation_config.json", R"({"max_new_tokens": 6})");
  const std::string chat = "{% for m in messages %}{{ m.role ~ ': ' ~ m.content ~ eos_token }}{% endfor %}assistant:";
  write_file(folder / "chat.jinja", chat);
  std::string rows;
  for (int i = 0; i < 8; ++i)
    rows += R"({"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "there"}]})"
            "\n";
  write_file(folder / "rows.jsonl", rows);
  for (const std::string& adapter :
       {std::string("adapter={name: none}"), std::string("adapter={name: lora, rank: 2}")}) {
    for (const char* const old : {"tuned", "exported", "adapter"}) fs::remove_all(folder / old);
    run(folder, {"train", "model={from: model}",
                 "data={path: rows.jsonl, max_length: 64, chat_template: chat.jinja, loss_on: all}",
                 "train={batch_size: 4, epochs: 1, threads: 1}", "optimizer.lr=0.05", adapter, "output.dir=tuned"});
    const bool adapted = adapter.find("lora") != std::string::npos;
    if (adapted) run(folder, {"export", "tuned", "adapter", "--adapter"});
    fs::rename(folder / "chat.jinja", folder / "moved.jinja");
    if (!adapted) fs::rename(model, folder / "moved");
    const json told = folder.generated({"tuned", "hello", "--chat"});
    CHECK(told[0].at("ids").size() <= 6);
    CHECK(told[0].at("ids") == folder.generated({"tuned", "user: hello</s>assistant:"})[0].at("ids"));
    run(folder, {"export", "tuned", "exported"});
    CHECK(read_file(folder / "exported/chat_template.jinja") == chat);
    CHECK_FALSE(read_json(folder / "exported/tokenizer_config.json").contains("chat_template"));
    CHECK(read_json(folder / "exported/config.json").at("eos_token_id") == json{2, 5});
    CHECK(read_json(folder / "exported/generation_config.json").at("max_new_tokens") == 6);
    CHECK(folder.generated({"exported", "hello", "--chat"}) == told);
    if (adapted) CHECK(folder.generated({"adapter", "hello", "--chat"}) == told);
    fs::rename(folder / "moved.jinja", folder / "chat.jinja");
    if (!adapted) fs::rename(folder / "moved", model);
  }
  // A model from nothing takes its ids from the tokenizer.
  run(folder, {"train", tiny[0], "data={path: rows.jsonl, max_length: 64, tokenizer: model, chat_template: chat.jinja}",
               "train={batch_size: 4, epochs: 1, threads: 1}", "output.dir=fresh"});
  CHECK(read_json(folder / "fresh/last/config.json").at("eos_token_id") == 2);
}

TEST_CASE("generate: an answer ends where the template ends a turn") {
  DecoderFolder folder;
  const json greedy = folder.generated({"model", "hello", "--greedy", "--max-new-tokens", "12"});
  const std::vector<std::string> tokens = open_tokenizer(folder / "model")->tokens();
  const auto second = greedy[0].at("ids").at(1).get<std::size_t>();
  json tokenizer = json::parse(folder.tokenizer);
  tokenizer["added_tokens"].push_back(
      {{"id", second}, {"content", tokens[second]}, {"special", true}, {"normalized", false}});
  write_file(folder / "model/tokenizer.json", tokenizer.dump());
  const std::string chat = "{{ messages[0].content }}{% if messages | length > 1 %}{{ messages[1].content }}" +
                           tokens[second] + "{% endif %}";
  write_file(folder / "model/tokenizer_config.json", json{{"chat_template", "<s>" + chat}}.dump());
  const CommandResult result = run(folder, {"generate", "model", "hello", "--chat", "--greedy", "--json", "-"});
  CHECK(result.json()[0].at("ended_by") == "stop");
  CHECK(result.json()[0].at("ids").size() == 1);
  check_says(result.error, tokens[second]);
  check_says(run(folder, {"generate", "model", "a" + tokens[second], "--chat", "--greedy"}).error, "warning");
}

TEST_CASE("generate: the strided perplexity is that of its windows, whatever their batches") {
  DecoderFolder folder;
  std::vector<int> ids, labels;
  for (int i = 0; i < 23; ++i) ids.push_back((7 * i * i + 3) % 337);
  write_file(folder / "whole.jsonl", json{{"input_ids", ids}}.dump() + "\n");
  std::string windows;  // of 8 tokens, 5 apart
  for (std::size_t begin = 0, done = 0; done < ids.size(); begin += 5) {
    const std::size_t end = std::min(begin + 8, ids.size());
    labels = ids;
    std::fill_n(labels.begin(), done, -100);
    const auto part = [&](const std::vector<int>& all) {
      return std::vector<int>(all.begin() + static_cast<std::ptrdiff_t>(begin),
                              all.begin() + static_cast<std::ptrdiff_t>(end));
    };
    windows += json{{"input_ids", part(ids)}, {"labels", part(labels)}}.dump() + "\n";
    done = end;
  }
  write_file(folder / "windows.jsonl", windows);
  const auto evaluated = [&](const char* data, const char* batch) {
    return run(folder, {"eval", "model", data, batch, "--json", "-"}).json();
  };
  const json expected = evaluated("data={path: windows.jsonl, max_length: 8}", "train.batch_size=4");
  const json strided = evaluated("data={path: whole.jsonl, max_length: 8, window_stride: 5}", "train.batch_size=4");
  CHECK(strided.at("samples") == 4);
  CHECK(strided.at("val_perplexity") == expected.at("val_perplexity"));
  CHECK(evaluated("data={path: whole.jsonl, max_length: 8, window_stride: 5}", "train.batch_size=1")
            .at("val_perplexity") == doctest::Approx(expected.at("val_perplexity").get<double>()).epsilon(1e-6));
}

TEST_CASE("generate: what it cannot go on with is refused") {
  DecoderFolder folder;
  check_refusals(folder, {"generate", "model", "hello"},
                 {{"--sample\n--greedy", "--greedy"}, {"--top-p=2", "--top-p"}, {"--stop=nothing", "--stop"}});
  check_refused(folder, {"generate", "model"}, {"prompts"});
  check_refused(folder, {"generate", "model", "hello", "--greedy", "--seed", "3"}, {"--seed"});
  for (const auto& [name, text] : {std::pair{"none.json", "[]"},
                                   {"object.json", "{\"prompt\": \"a\"}"},
                                   {"broken.json", "[\"a\""},
                                   {"blank.txt", "hello\n\nthere\n"}}) {
    write_file(folder / name, text);
    check_refused(folder, {"generate", "model", "--input", name}, {name});
  }
  const CommandResult late = run_command(folder, {"generate", "model", "hello", std::string(400, 'x')});
  CHECK(late.code == 2);
  CHECK(late.out.empty());
  write_file(folder / "model/generation_config.json", R"({"do_sample": "true"})");
  check_refused(folder, {"generate", "model", "hello"}, {"generation_config.json", "do_sample"});
  write_file(folder / "model/generation_config.json",
             R"({"forced_eos_token_id": 0, "forced_bos_token_id": 1, "min_length": 1, "min_new_tokens": 0,
                 "num_beams": 1, "max_new_tokens": 3})");
  const std::string said = run(folder, {"generate", "model", "hello"}).error;
  for (const char* const key : {"forced_eos_token_id", "forced_bos_token_id", "min_length"}) check_says(said, key);
  for (const char* const key : {"min_new_tokens", "num_beams"}) CHECK(said.find(key) == std::string::npos);
}

TEST_CASE("generate: the text is what its tokens add to the prompt, while it grows and whole") {
  DecoderFolder folder;
  const auto tokenizer = open_tokenizer(folder / "model");
  const std::vector<std::int32_t> prompt = tokenizer->encode("the quick").tokens;
  const std::string before = tokenizer->decode(prompt, true);
  int compared = 0;
  for (int seed = 0; seed < 16; ++seed) {
    const std::vector<std::string> arguments{"model", "the quick", "--sample",          "--max-new-tokens",
                                             "4",     "--seed",    std::to_string(seed)};
    const json made = folder.generated(arguments)[0];
    std::vector<std::int32_t> ids = prompt;
    for (const json& id : made.at("ids")) ids.push_back(id.get<std::int32_t>());
    const auto text = made.at("text").get<std::string>();
    CHECK(before + text == tokenizer->decode(ids, true));
    if (text.find("\uFFFD") != std::string::npos) continue;  // bytes that make no characters change those before them
    ++compared;
    std::vector<std::string> shown{"generate"};
    shown.insert(shown.end(), arguments.begin(), arguments.end());
    CHECK(run(folder, shown).out == text + "\n");
  }
  CHECK(compared > 2);
}

}  // namespace
}  // namespace lacuna::test
