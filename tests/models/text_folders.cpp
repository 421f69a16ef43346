// Folders of BERT, DistilBERT, RoBERTa and ModernBERT as transformers has them: in and out. text_folders.py made the
// fixtures.
#include "core/error.h"
#include "data/text/tokenizer.h"
#include "models/folders/folder.h"
#include "models/registry.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <tuple>

using namespace lacuna;
using lacuna::test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

const fs::path fixtures = fs::path(LACUNA_SOURCE_DIR) / "tests/models/text_folders";

struct Loaded {
  ModelFolder folder;
  std::unique_ptr<Model> model;
  LoadedWeights weights;
};

Loaded load(const fs::path& path, const std::vector<HyperParameter>& more = {}, bool new_head = false,
            bool as_stored = false) {
  const std::optional<ModelFolder> folder = read_model_folder(path);
  REQUIRE(folder.has_value());
  std::vector<HyperParameter> values = folder->hyper_parameters;
  for (const HyperParameter& one : more) {
    std::erase_if(values, [&](const HyperParameter& value) { return value.key == one.key; });
    values.push_back(one);
  }
  FolderWeights weights = open_weights(path, folder);
  ModelContext context;
  if (as_stored) context.formats = formats_of(folder->model, values, weights);
  Loaded loaded{*folder, build_model(folder->model, values, context), {}};
  loaded.folder.hyper_parameters = values;
  weights.options.new_head = new_head;
  loaded.weights = load_weights(*loaded.model, weights.files, weights.options);
  loaded.model->set_training(false);
  return loaded;
}

double difference(Model& model, const fs::path& case_file) {
  const SafetensorsFile file(case_file);
  const Tensor ids = file.load("input/ids"), mask = file.load("input/mask");
  std::vector<std::int64_t> lengths;
  for (std::int64_t n = 0; n < ids.shape()[0]; ++n) {
    const std::int64_t* const row = mask.data<std::int64_t>() + n * ids.shape()[1];
    lengths.push_back(std::count(row, row + ids.shape()[1], 1));
  }
  Inputs inputs;
  inputs.set("tokens", Variable(ids));
  const SampleFields fields = model.inputs();
  if (std::ranges::any_of(fields, [](const SampleField& one) { return one.name == "token_types" && one.below > 1; }))
    inputs.set("token_types", Variable(file.load("input/types")));
  inputs.set("key_lengths", Variable(Tensor::from(std::span<const std::int64_t>(lengths), {ids.shape()[0]})));
  const std::vector<double> ours = model.forward(std::move(inputs)).take("logits").tensor().to_vector(),
                            theirs = file.load("logits").to_vector();
  REQUIRE(ours.size() == theirs.size());
  double apart = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) apart = std::max(apart, std::abs(ours[i] - theirs[i]));
  return apart;
}

}  // namespace

TEST_CASE("text folders: transformers' folders give its logits, by old names too") {
  for (const std::string name : {"hf-bert", "hf-bert-old", "hf-distilbert", "hf-roberta", "hf-xlm-roberta",
                                 "hf-modernbert", "hf-modernbert-old"}) {
    INFO(name);
    const Loaded loaded = load(fixtures / name);
    CHECK(loaded.folder.labels == std::vector<std::string>{"bad", "fair", "good"});
    CHECK(difference(*loaded.model, fixtures / (name + ".safetensors")) < 1e-5);
  }
}

TEST_CASE("text folders: what bitsandbytes quantized gives the logits of the dequantized weights") {
  for (const std::string name : {"hf-bert-nf4", "hf-bert-int8"})
    for (const bool as_stored : {false, true}) {
      CAPTURE(name);
      CAPTURE(as_stored);
      const Loaded loaded = load(fixtures / name, {}, false, as_stored);
      CHECK(difference(*loaded.model, fixtures / (name + ".safetensors")) < 1e-5);
      std::int64_t coded = 0;
      for (const Parameter* const parameter : loaded.model->parameters()) coded += parameter->tensor().is_coded();
      CHECK(coded == (as_stored ? 7 : 0));
    }
}

TEST_CASE("text folders: other classes and other heads start anew, and the body is loaded") {
  for (const std::string name : {"hf-bert", "hf-bert-old", "hf-distilbert", "hf-roberta", "hf-xlm-roberta",
                                 "hf-modernbert", "hf-modernbert-old"}) {
    INFO(name);
    CHECK(load(fixtures / name, {{"num_classes", std::int64_t{7}}}, true).weights.new_head);
    CHECK(load(fixtures / name, {{"head", "span"}}, true).weights.new_head);
    const Loaded embedding = load(fixtures / name, {{"head", "embedding"}}, true);
    CHECK(!embedding.weights.left_out.empty());
    CHECK_THROWS_AS(load(fixtures / name, {{"num_classes", std::int64_t{7}}}), Error);
  }
}

TEST_CASE("text folders: what is exported is read again, by transformers too where it is there") {
  const TemporaryFolder folder;
  for (const std::string name : {"hf-bert", "hf-distilbert", "hf-roberta", "hf-xlm-roberta", "hf-modernbert"}) {
    INFO(name);
    const Loaded loaded = load(fixtures / name);
    const fs::path out = folder / name;
    write_model_folder(out, *loaded.model, loaded.folder, Library::transformers);
    const Loaded again = load(out);
    CHECK(again.folder.labels == loaded.folder.labels);
    CHECK(difference(*again.model, fixtures / (name + ".safetensors")) < 1e-5);
    const char* const python = std::getenv("PYTHON");
    if (python == nullptr) {
      MESSAGE("skipped: PYTHON names no interpreter with transformers");
      continue;
    }
    const fs::path printed = folder / (name + ".txt");
    const std::string command =
        fmt::format("'{}' '{}/tests/models/text_folders.py' read '{}' '{}/{}.safetensors' > '{}' 2> /dev/null", python,
                    LACUNA_SOURCE_DIR, out.string(), fixtures.string(), name, printed.string());
    REQUIRE(std::system(command.c_str()) == 0);
    CHECK(std::stod(test::read_file(printed)) < 1e-5);
  }
}

TEST_CASE("text folders: decoders and relative positions are refused") {
  const TemporaryFolder folder;
  fs::copy(fixtures / "hf-bert", folder / "bert");
  const std::string text = test::read_file(folder / "bert/config.json");
  for (const auto& [key, value] :
       {std::pair{"is_decoder", nlohmann::json(true)}, {"position_embedding_type", nlohmann::json("relative_key")}}) {
    nlohmann::json config = nlohmann::json::parse(text);
    config[key] = value;
    test::write_file(folder / "bert/config.json", config.dump());
    CHECK_THROWS_WITH_AS(read_model_folder(folder / "bert"), doctest::Contains(key), Error);
  }
}

TEST_CASE("text folders: of ModernBERT, other orders of layers, scaled angles and a decoder without bias are refused") {
  const TemporaryFolder folder;
  fs::copy(fixtures / "hf-modernbert", folder / "a");
  const std::string text = test::read_file(folder / "a/config.json");
  const auto read = [&](const nlohmann::json& change) {
    nlohmann::json config = nlohmann::json::parse(text);
    config.merge_patch(change);
    test::write_file(folder / "a/config.json", config.dump());
    return *read_model_folder(folder / "a");
  };
  for (const auto& [key, change] : std::initializer_list<std::pair<const char*, nlohmann::json>>{
           {"layer_types", {{"layer_types", {"full_attention", "full_attention", "sliding_attention"}}}},
           {"layer_types", {{"layer_types", {"sliding_attention", "full_attention", "sliding_attention"}}}},
           {"layer_types", {{"num_hidden_layers", 4}}},
           {"rope_type", {{"rope_parameters", {{"full_attention", {{"rope_type", "yarn"}}}}}}},
           {"rope_scaling", {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}}}}},
           {"decoder_bias", {{"decoder_bias", false}}}})
    CHECK_THROWS_WITH_AS(read(change), doctest::Contains(key), Error);
  const auto every = [&](const nlohmann::json& types) {
    return to_yaml(*find_value(read({{"layer_types", types}}).hyper_parameters, "global_attn_every_n_layers"));
  };
  CHECK(every({"full_attention", "full_attention", "full_attention"}) == "1");
  CHECK(every({"full_attention", "sliding_attention", "sliding_attention"}) == "3");
}

namespace {

using Files = std::vector<std::pair<const char*, std::string>>;

/// A copy of hf-bert with further files.
fs::path with_files(const TemporaryFolder& folder, const Files& files) {
  fs::remove_all(folder / "a");
  fs::copy(fixtures / "hf-bert", folder / "a");
  for (const auto& [name, text] : files) {
    fs::create_directories((folder / "a" / name).parent_path());
    test::write_file(folder / "a" / name, text);
  }
  return folder / "a";
}

std::string modules(std::initializer_list<const char*> kinds) {
  nlohmann::json list = nlohmann::json::array();
  for (const char* const kind : kinds)
    list.push_back({{"path", list.empty() ? "" : fmt::format("{}_{}", list.size(), kind)},
                    {"type", fmt::format("sentence_transformers.models.{}", kind)}});
  return list.dump();
}

}  // namespace

TEST_CASE("text folders: what sentence-transformers says is read and written, or refused of embeddings alone") {
  const TemporaryFolder folder;
  const fs::path path = with_files(folder, {{"modules.json", modules({"Transformer", "Pooling", "Normalize"})},
                                            {"1_Pooling/config.json", R"({"pooling_mode_cls_token": true})"},
                                            {"sentence_bert_config.json", R"({"max_seq_length": 8})"}});
  Loaded loaded = load(path, {{"head", "embedding"}}, true);
  CHECK(loaded.model->inputs().front().shape == Shape{8});
  for (const bool again : {false, true}) {
    if (again) {
      write_model_folder(folder / "out", *loaded.model, loaded.folder, Library::transformers);
      loaded = load(folder / "out");
    }
    CHECK(*find_value(loaded.folder.hyper_parameters, "normalize") == Tree(true));
    CHECK(*find_value(loaded.folder.hyper_parameters, "pooling") == Tree("first"));
    CHECK(*find_value(loaded.folder.hyper_parameters, "max_seq_length") == Tree(8));
  }
  Inputs inputs;
  const std::vector<std::int64_t> ids{2, 3, 4}, offsets{0, 3};
  inputs.set("tokens", Variable(Tensor::from(std::span<const std::int64_t>(ids), {3})));
  inputs.set("offsets", Variable(Tensor::from(std::span<const std::int64_t>(offsets), {2})));
  double length = 0;
  for (const double value : loaded.model->forward(std::move(inputs)).take("embeddings").tensor().to_vector())
    length += value * value;
  CHECK(length == doctest::Approx(1));

  const std::string pooling = modules({"Transformer", "Pooling"});
  for (const auto& [files, head, word] : std::initializer_list<std::tuple<Files, const char*, const char*>>{
           {{{"modules.json", modules({"Transformer", "Pooling", "Dense"})},
             {"1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true})"}},
            "embedding",
            "Dense"},
           {{{"modules.json", modules({"Transformer"})}}, "embedding", "Pooling"},
           {{{"modules.json", pooling}, {"1_Pooling/config.json", R"({"pooling_mode_max_tokens": true})"}},
            "embedding",
            "max_tokens"},
           {{{"modules.json", pooling}}, "embedding", "1_Pooling"},
           {{{"config_sentence_transformers.json", R"({"similarity_fn_name": "euclidean"})"}},
            "embedding",
            "euclidean"},
           {{{"config_sentence_transformers.json", R"({"similarity_fn_name": "dot"})"}}, "embedding", "dot"},
           {{{"config_sentence_transformers.json", R"({"default_prompt_name": "query"})"}}, "embedding", "prompt"}}) {
    const ModelFolder described = *read_model_folder(with_files(folder, files));
    CHECK_THROWS_WITH_AS(require_head(described, {{"head", head}}), doctest::Contains(word), Error);
    require_head(described, {{"head", "classification"}});
  }
}

TEST_CASE("text folders: products of vectors of length one are cosines; prompts are written again") {
  const TemporaryFolder folder;
  const std::string said = R"({"similarity_fn_name": "dot", "prompts": {"query": "query: "}})";
  const fs::path path = with_files(folder, {{"modules.json", modules({"Transformer", "Pooling", "Normalize"})},
                                            {"1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true})"},
                                            {"config_sentence_transformers.json", said},
                                            {"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n"}});
  for (const std::string head : {"embedding", "classification"}) {
    Loaded loaded = load(path, {{"head", head}}, true);
    require_head(loaded.folder, {{"head", head}});
    loaded.folder.tokenizer = tokenizer_texts(path);
    write_model_folder(folder / head, *loaded.model, loaded.folder, Library::transformers);
    CHECK(fs::exists(folder / head / "config_sentence_transformers.json") == (head == "embedding"));
  }
  CHECK(test::read_file(folder / "embedding/config_sentence_transformers.json") == said);
}

TEST_CASE("text folders: the tokenizer's longest text holds for every head") {
  const TemporaryFolder folder;
  for (const auto& [said, longest] : std::initializer_list<std::pair<const char*, std::int64_t>>{
           {R"({"model_max_length": 5})", 5},
           {R"({"model_max_length": 1000000000000000019884624838656})", 0},
           {"{}", 0}}) {
    const Loaded loaded = load(with_files(folder, {{"tokenizer_config.json", said}}));
    const ModelDescription model = describe_model(loaded.folder.model, loaded.folder.hyper_parameters);
    CHECK(*find_value(model.hyper_parameters, "max_seq_length") == Tree(longest));
    const Tree& positions = *find_value(model.hyper_parameters, "max_position_embeddings");
    CHECK(Tree(loaded.model->inputs().front().shape.front()) == (longest > 0 ? Tree(longest) : positions));
  }
  // Another length than the tokenizer's is written.
  Loaded loaded = load(with_files(folder, {{"tokenizer_config.json", R"({"model_max_length": 5, "a": 1})"},
                                           {"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n"}}));
  for (HyperParameter& one : loaded.folder.hyper_parameters)
    if (one.key == "max_seq_length") one.value = std::int64_t{7};
  loaded.folder.tokenizer = tokenizer_texts(folder / "a");
  write_model_folder(folder / "out", *loaded.model, loaded.folder, Library::transformers);
  const nlohmann::json written = nlohmann::json::parse(test::read_file(folder / "out/tokenizer_config.json"));
  CHECK(written.at("model_max_length") == 7);
  CHECK(written.at("a") == 1);
}

TEST_CASE("text folders: one output predicts a number unless the folder says another problem") {
  const TemporaryFolder folder;
  const auto task_with = [&](const nlohmann::json& said) {
    nlohmann::json config = nlohmann::json::parse(test::read_file(fixtures / "hf-bert/config.json"));
    for (const char* const key : {"id2label", "label2id", "problem_type"}) config.erase(key);
    config.update(said);
    return task_of(*read_model_folder(with_files(folder, {{"config.json", config.dump()}})));
  };
  CHECK(task_with({{"num_labels", 1}}) == "regression");
  CHECK(task_with({{"num_labels", 2}}) == "classification");
  CHECK(task_with({{"num_labels", 1}, {"problem_type", "multi_label_classification"}}) == "multi_label");
}

TEST_CASE("text folders: a decoder of its own, parts that are cut off and other numbers of labels are refused") {
  const TemporaryFolder folder;
  const auto with = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json config = nlohmann::json::parse(test::read_file(fixtures / "hf-bert/config.json"));
    config[key] = value;
    return with_files(folder, {{"config.json", config.dump()}});
  };
  CHECK_THROWS_WITH_AS(require_head(*read_model_folder(with("tie_word_embeddings", false)), {{"head", "masked_lm"}}),
                       doctest::Contains("tie_word_embeddings"), Error);
  for (const auto& [key, value] : {std::pair{"pruned_heads", nlohmann::json{{"0", {1}}}},
                                   {"quantization_config", nlohmann::json{{"bits", 4}}},
                                   {"quantization_config", nlohmann::json{{"quant_method", "gptq"}, {"bits", 4}}},
                                   {"num_labels", nlohmann::json(2)},
                                   {"label2id", nlohmann::json{{"bad", 2}, {"fair", 1}, {"good", 0}}}})
    CHECK_THROWS_WITH_AS(read_model_folder(with(key, value)), doctest::Contains(key), Error);
  CHECK_NOTHROW(read_model_folder(
      with("quantization_config", nlohmann::json{{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}})));
}
