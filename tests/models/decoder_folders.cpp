// Folders of decoder language models as transformers and PEFT have them, in and out. The models are those of
// references/decoder-*.safetensors.
#include "models/adapters.h"
#include "models/folders/folder.h"
#include "models/folders/transformers.h"
#include "models/io/adapter_folder.h"
#include "models/registry.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

namespace lacuna {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// A reference's model as a folder of transformers.
struct DecoderFolder {
  ordered_json config;
  std::map<std::string, Tensor> weights;

  explicit DecoderFolder(const SafetensorsFile& file) {
    const ordered_json model = ordered_json::parse(file.metadata().at("model"));
    config = model["config"];
    config["model_type"] = model["family"];
    constexpr std::string_view prefix = "weight/";
    for (const SafetensorsEntry& entry : file.entries())
      if (entry.name.starts_with(prefix)) weights[entry.name.substr(prefix.size())] = file.load(entry.name);
  }
  void write(const fs::path& folder) const {
    fs::create_directories(folder);
    std::ofstream(folder / "config.json") << config.dump();
    write_safetensors(folder / "model.safetensors", {weights.begin(), weights.end()}, {{"format", "pt"}});
  }
};

const fs::path references = fs::path(LACUNA_SOURCE_DIR) / "tests/models/references";

struct LoadedDecoder {
  ModelFolder folder;
  std::unique_ptr<Model> model;
  LoadedWeights weights;
};
LoadedDecoder load_decoder(const fs::path& path) {
  const std::optional<ModelFolder> folder = read_model_folder(path);
  REQUIRE(folder.has_value());
  const FolderWeights weights = open_weights(path, folder);
  LoadedDecoder loaded{*folder, build_model(folder->model, folder->hyper_parameters, {}), {}};
  loaded.weights = load_weights(*loaded.model, weights.files, weights.options);
  return loaded;
}

}  // namespace

TEST_CASE("decoder folders: each type is written as it was read") {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(references)) {
    if (!entry.path().filename().string().starts_with("decoder-")) continue;
    INFO(entry.path().filename().string());
    const test::TemporaryFolder folder;
    DecoderFolder stored((SafetensorsFile(entry.path())));
    stored.config["eos_token_id"] = ordered_json::array({3, 5});
    stored.write(folder / "in");
    const LoadedDecoder read = load_decoder(folder / "in");
    write_model_folder(folder / "out", *read.model, read.folder, Library::transformers);
    const ordered_json config = ordered_json::parse(std::ifstream(folder / "out" / "config.json"));
    CHECK(config["eos_token_id"] == stored.config["eos_token_id"]);
    const LoadedDecoder again = load_decoder(folder / "out");
    const auto options = [](const LoadedDecoder& loaded) {
      return describe_model(loaded.folder.model, loaded.folder.hyper_parameters).hyper_parameters;
    };
    const auto before = options(read), after = options(again);
    REQUIRE(before.size() == after.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      CHECK(before[i].key == after[i].key);
      CHECK(before[i].value == after[i].value);
    }
    const SafetensorsFile written(folder / "out" / "model.safetensors");
    CHECK(written.entries().size() == stored.weights.size());
    for (const auto& [name, tensor] : stored.weights) {
      INFO(name);
      REQUIRE(written.contains(name));
      CHECK(written.load(name).to_vector() == tensor.to_vector());
    }
    ++count;
  }
  CHECK(count >= 20);
}

TEST_CASE("decoder folders: a second copy of a tied table is left out, another head and a missing one are refused") {
  const test::TemporaryFolder folder;
  DecoderFolder stored((SafetensorsFile(references / "decoder-llama-rope.safetensors")));
  stored.weights["lm_head.weight"] = stored.weights.at("model.embed_tokens.weight");
  stored.write(folder / "same");
  CHECK(load_decoder(folder / "same").weights.left_out == std::vector<std::string>{"lm_head.weight"});
  stored.weights["lm_head.weight"] = Tensor::zeros(stored.weights["lm_head.weight"].shape(), DType::f32, Device::cpu);
  stored.write(folder / "other");
  const std::string refusal = test::refusal_of([&] { load_decoder(folder / "other"); });
  test::check_says(refusal, "lm_head.weight");
  test::check_says(refusal, "model.embed_tokens.weight");
  stored.config["tie_word_embeddings"] = false;
  stored.write(folder / "untied");
  CHECK(load_decoder(folder / "untied").weights.left_out.empty());
  stored.weights.erase("lm_head.weight");
  stored.write(folder / "missing");
  test::check_says(test::refusal_of([&] { load_decoder(folder / "missing"); }), "lm_head.weight");
}

TEST_CASE("decoder folders: what a config.json leaves out, or says of no use, means what transformers takes it for") {
  const test::TemporaryFolder folder;
  const auto model = [](const char* name) {
    return DecoderFolder(SafetensorsFile(references / fmt::format("decoder-{}.safetensors", name)));
  };
  const auto value = [&](const DecoderFolder& stored, std::string_view key) {
    stored.write(folder.path());
    const std::optional<ModelFolder> read = read_model_folder(folder.path());
    REQUIRE(read.has_value());
    const auto all = describe_model(read->model, read->hyper_parameters).hyper_parameters;
    const Tree* const found = find_value(all, key);
    REQUIRE(found != nullptr);
    return found->text;
  };
  DecoderFolder olmo = model("olmo2"), gemma = model("gemma"), gemma2 = model("gemma2"), gpt2 = model("gpt2");
  olmo.config.erase("pad_token_id");
  CHECK(value(olmo, "pad_token_id") == "1");
  olmo.config["pad_token_id"] = nullptr;
  CHECK(value(olmo, "pad_token_id") == "-1");
  gemma2.config["hidden_activation"] = "gelu";
  CHECK(value(gemma2, "activation") == "gelu");
  gemma.config["hidden_act"] = "gelu";
  CHECK(value(gemma, "activation") == "gelu_tanh");
  gpt2.config["n_positions"] = 64;
  gpt2.config["n_ctx"] = 32;
  CHECK(value(gpt2, "max_position_embeddings") == "64");

  const auto refused = [&](const char* name, const char* key, const ordered_json& wrong) {
    DecoderFolder stored = model(name);
    stored.config[key] = wrong;
    stored.write(folder.path());
    test::check_says(test::refusal_of([&] { read_model_folder(folder.path()); }), key);
  };
  refused("smollm3", "no_rope_layer_interval", 0);
  refused("gemma3", "_sliding_window_pattern", 0);
  for (const char* const name : {"llama", "smollm3", "mistral-window"})
    refused(name, "num_hidden_layers", 100'000'000'000);
  refused("llama", "rope_scaling", "linear");
  refused("llama", "rope_scaling", {{"factor", 8.0}});
}

TEST_CASE("decoder folders: an adapter with a tied table holds it under both names, as PEFT has two") {
  const test::TemporaryFolder folder;
  DecoderFolder((SafetensorsFile(references / "decoder-llama-rope.safetensors"))).write(folder / "base");
  const LoadedDecoder read = load_decoder(folder / "base");
  add_adapters(*read.model, {.kind = "lora", .targets = {"q_proj"}});
  freeze_below_adapters(*read.model, {.train = {"model.embed_tokens*"}, .freeze = {}});
  write_adapter(folder.path(), *read.model);
  const auto load = [&] {
    const LoadedDecoder other = load_decoder(folder / "base");
    const AdapterFolder adapter(folder.path());
    add_adapters(*other.model, adapter.options(*other.model));
    return adapter.load(*other.model).names;
  };
  CHECK(load().contains("model.embed_tokens.weight"));
  const fs::path file = folder / "adapter_model.safetensors";
  const std::string head = "base_model.model.lm_head.weight";
  std::map<std::string, Tensor> tensors;
  for (const SafetensorsFile stored(file); const SafetensorsEntry& entry : stored.entries())
    tensors[entry.name] = stored.load(entry.name).clone();
  const auto refused = [&] {
    write_safetensors(file, {tensors.begin(), tensors.end()});
    test::check_says(test::refusal_of(load), "lm_head.weight");
  };
  tensors.at(head).fill(0);
  refused();
  tensors.erase(head);
  refused();
}

TEST_CASE("decoder folders: transformers and PEFT read what is written, with equal logits (decoder_folders.py)") {
  const char* const python = std::getenv("PYTHON");
  if (python == nullptr) {
    MESSAGE("skipped: PYTHON names no interpreter with transformers and peft");
    return;
  }
  const test::TemporaryFolder folder;
  const auto run = [&](const std::string& arguments) {
    const std::string command = fmt::format("'{}' '{}/tests/models/decoder_folders.py' {} > /dev/null 2> '{}'", python,
                                            LACUNA_SOURCE_DIR, arguments, (folder / "log").string());
    const int code = std::system(command.c_str());
    REQUIRE_MESSAGE(code == 0, test::read_file(folder / "log"));
  };
  const fs::path in = folder / "in", out = folder / "out";
  fs::create_directories(in);
  fs::create_directories(out);
  run(fmt::format("make '{}'", in.string()));
  for (const auto& entry : fs::directory_iterator(in)) {
    const std::string name = entry.path().filename().string();
    INFO(name);
    const std::string base = name.substr(0, name.find('+'));
    if (name.ends_with("+default")) {
      const LoadedDecoder read = load_decoder(in / base);
      const std::vector<std::string> chosen =
          AdapterFolder(entry.path(), tensor_names_of("decoder")).options(*read.model).targets;
      const ModelDescription model = describe_model(read.folder.model, read.folder.hyper_parameters);
      CHECK(std::set(chosen.begin(), chosen.end()) == target_paths(*read.model, usual_adapter_targets(model)));
      continue;
    }
    if (!name.ends_with("+adapter")) {
      const LoadedDecoder read = load_decoder(entry.path());
      write_model_folder(out / name, *read.model, read.folder, Library::transformers);
      continue;
    }
    const LoadedDecoder read = load_decoder(in / base), merged = load_decoder(in / base);
    const AdapterFolder adapter(entry.path(), tensor_names_of("decoder"));
    CHECK(adapter.task_type() == "CAUSAL_LM");
    add_adapters(*read.model, adapter.options(*read.model));
    adapter.load(*read.model);
    for (Parameter* const parameter : read.model->parameters()) parameter->set_trainable(false);
    fs::create_directories(out / name);
    write_adapter(out / name, *read.model, transformers_files(*read.model, read.folder).names, "CAUSAL_LM");
    merge(*read.model, *merged.model);
    write_model_folder(out / (base + "+merged"), *merged.model, read.folder, Library::transformers);
  }
  run(fmt::format("check '{}' '{}'", in.string(), out.string()));
}

}  // namespace lacuna
