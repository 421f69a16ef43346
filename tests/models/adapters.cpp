// Adapters and named sets: what is trained, what is saved for backward, what is stored, and PEFT's folders.
#include "models/adapters.h"
#include "autograd/tape.h"
#include "models/folders/transformers.h"
#include "models/io/adapter_folder.h"
#include "models/io/weights.h"
#include "nn/weight_formats.h"
#include "tests/models/tiny_models.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>

using namespace lacuna;
using namespace lacuna::test;

namespace {

const std::vector<std::string> all_linear{"all-linear"};

std::unique_ptr<Model> make(const Description& description, const ModelContext& context = {}) {
  return build_model(description.name, description.hyper_parameters, context);
}

std::unique_ptr<Model> adapted(const Description& description, const AdapterOptions& options,
                               const FreezeRules& rules = {}, const ModelContext& context = {}) {
  std::unique_ptr<Model> model = make(description, context);
  add_adapters(*model, options);
  freeze_below_adapters(*model, rules);
  return model;
}

/// Values other than those that leave the model as it was.
void fill_adapters(Model& model) {
  const RandomStream draws{3, 0, 0};
  std::uint64_t number = 0;
  for (const nn::Adaptable* const layer : adapted_layers(model))
    for (const Parameter* const parameter : layer->adapter()->parameters())
      for (std::int64_t i = 0; i < parameter->tensor().count(); ++i)
        parameter->tensor().data<float>()[i] = 0.2F * draws.uniform(number++) - 0.1F;
}

Tensor images_for(const Model& model) {
  const std::int64_t size = field_of(model.inputs(), "images").shape[0];
  const Tensor images = Tensor::empty({batch, size, size, 3}, DType::f32, model.context().device, Purpose::data);
  if (model.context().device == Device::meta) return images;
  const RandomStream stream{5, 0, 0};
  for (std::int64_t i = 0; i < images.count(); ++i)
    images.data<float>()[i] = 2 * stream.uniform(static_cast<std::uint64_t>(i)) - 1;
  return images;
}

std::vector<double> logits(Model& model) {
  model.set_training(false);
  return logits_of(model, Variable(images_for(model))).tensor().to_vector();
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference = std::max(difference, std::abs(a[i] - b[i]));
  return difference;
}

struct Pass {
  std::int64_t saved;
  std::map<std::string, std::vector<double>> gradients;
};

Pass pass(Model& model, std::string_view policy_name) {
  const RandomStateScope random({.seed = 11, .step = 4});
  const std::unique_ptr<MemoryPolicy> policy = make_policy(policy_name);
  Tape tape(*policy);
  const Recording recording(tape);
  const Tensor targets = Tensor::zeros({batch}, DType::i64, model.context().device, Purpose::data);
  tape.backward(apply(CrossEntropy{}, logits_of(model, Variable(images_for(model))), Variable(targets)));
  Pass done{tape.saved_bytes(), {}};
  if (model.context().device != Device::meta)
    for (const Parameter* const parameter : model.parameters())
      if (parameter->trainable()) done.gradients[parameter->path()] = parameter->grad().to_vector();
  return done;
}

std::set<std::string> trained(const Model& model) {
  std::set<std::string> paths;
  for (const Parameter* const parameter : model.parameters())
    if (parameter->trainable()) paths.insert(parameter->path());
  return paths;
}

std::string error_of(const auto& attempt) {
  try {
    attempt();
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::input);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("named sets: what models declare") {
  const auto of = [](const Description& description, const std::string& set) {
    const std::unique_ptr<Model> model = make(description);
    freeze(*model, {.train = {set}, .freeze = {}}, model->heads());
    return trained(*model);
  };
  CHECK(of(tiny_vit(), "@head") == std::set<std::string>{"head.bias", "head.weight"});
  CHECK(of(tiny_swin("swin"), "@head") == std::set<std::string>{"head.fc.bias", "head.fc.weight"});
  for (const Description& description : descriptions()) {
    INFO(description.name);
    const std::unique_ptr<Model> model = make(description);
    const std::set<std::string> head = of(description, "@head"), norms = of(description, "@norms"),
                                bias = of(description, "@bias"), last = of(description, "@last1");
    CHECK(head.size() == 2);
    for (const std::string& path : norms) CHECK((path.ends_with(".weight") || path.ends_with(".bias")));
    for (const std::string& path : bias) CHECK(path.ends_with("bias"));
    for (const std::string& path : head) CHECK_FALSE(last.contains(path));
    CHECK(std::ranges::none_of(last, [](const std::string& path) { return path.starts_with("patch_embed"); }));
  }
  CHECK(of(tiny_vit(), "@norms").contains("blocks.1.norm2.weight"));
  CHECK(of(tiny_vit(), "@norms").size() == 2 * 7);
  const std::set<std::string> last = of(tiny_vit(), "@last1");  // a block of 12 tensors, and the norm behind it
  CHECK(last.size() == 14);
  CHECK(last.contains("blocks.2.attn.qkv.weight"));
  CHECK(last.contains("norm.weight"));
  // The merging between two stages belongs to the blocks that it stands between.
  CHECK_FALSE(of(tiny_swin("swin"), "@last1").contains("layers.1.downsample.reduction.weight"));
  CHECK(of(tiny_swin("swin"), "@last2").contains("layers.1.downsample.reduction.weight"));
  CHECK(of(tiny_resnet(), "@last1").contains("layer2.1.conv1.weight"));
}

TEST_CASE("named sets: an unknown one, and one of nothing, is refused") {
  const std::unique_ptr<Model> model = make(tiny_vit());
  const auto error = [&](const std::string& set) {
    return error_of([&] { freeze(*model, {.train = {set}, .freeze = {}}, model->heads()); });
  };
  test::check_says(error("@neck"), "@head, @norms, @bias and @lastN");
  test::check_says(error("@last"), "unknown set");
  test::check_says(error("@last0"), "unknown set");
  test::check_says(error("@last4"), "3 blocks");
  CHECK(trained(*model).size() == model->parameters().size());
  const std::unique_ptr<Model> stack = make({"conv_stack", {{"image_size", whole(8)}}});
  test::check_says(error_of([&] { freeze(*stack, {.train = {"@norms"}, .freeze = {}}, stack->heads()); }),
                   "no parameters in the set @norms");
}

TEST_CASE("adapters: a new one leaves the results as they are, and a merged one gives the same") {
  const std::vector<std::pair<Description, std::vector<std::string>>> cases{
      {tiny_vit(), all_linear},
      {tiny_vit({{"init_values", 0.1}, {"mlp_layer", "swiglu"}}), all_linear},
      {tiny_swin("swin"), all_linear},
      {tiny_convnext(), {"all-linear", "downsample.1", "stem.0"}},
      {tiny_vit(), {"query", "value", "patch_embed.proj"}},
      {tiny_swin("swin"), {"key", "blocks.0.attn.qkv"}},
      {tiny_resnet(), {"*"}},
      {tiny_resnet({{"stem", "cifar"}, {"block", "basic"}}), {"conv2", "downsample.0"}},
      {tiny_efficientnet({{"same_padding", true}}), {"conv_pw", "conv_pwl", "conv_exp", "conv_reduce"}},
      {tiny_vgg(), {"features.*"}}};
  for (const auto& [description, targets] : cases)
    for (const std::string kind : {"lora", "lora_fa"}) {
      INFO(description.name, targets.front());
      const std::unique_ptr<Model> plain = make(description);
      const std::unique_ptr<Model> model =
          adapted(description, {.kind = kind, .settings = {{"rank", 2.0}, {"dropout", 0.3}}, .targets = targets});
      CHECK(logits(*model) == logits(*plain));
      fill_adapters(*model);
      const std::vector<double> expected = logits(*model);
      CHECK(largest_difference(expected, logits(*plain)) > 1e-3);
      const TemporaryFolder folder;
      write_safetensors(folder / "merged.safetensors", merged_state(*model));
      load_weights(*plain, SafetensorsFile(folder / "merged.safetensors"));
      CHECK(largest_difference(expected, logits(*plain)) < 1e-5);
    }
}

TEST_CASE("adapters: what is trained is the adapter and the head, or what is named beside it") {
  const std::unique_ptr<Model> lora = adapted(tiny_vit(), {.kind = "lora", .settings = {}, .targets = {"qkv"}});
  CHECK(trained(*lora).size() == 2 * 3 + 2);
  CHECK(trained(*lora).contains("blocks.0.attn.qkv.lora_A.weight"));
  CHECK(trained(*lora).contains("head.weight"));
  const std::unique_ptr<Model> fa =
      adapted(tiny_vit(), {.kind = "lora_fa", .settings = {}, .targets = {"blocks.*.mlp.fc?"}},
              {.train = {"@last1"}, .freeze = {}});
  CHECK_FALSE(trained(*fa).contains("blocks.2.mlp.fc1.lora_A.weight"));
  CHECK(trained(*fa).contains("blocks.2.mlp.fc1.lora_B.weight"));
  CHECK(trained(*fa).contains("blocks.2.mlp.fc1.weight"));
  CHECK_FALSE(trained(*fa).contains("head.weight"));
  test::check_says(error_of([] { adapted(tiny_vit(), {.kind = "lora", .settings = {}, .targets = {"qvk"}}); }),
                   "did you mean");
  test::check_says(error_of([] { adapted(tiny_vit(), {.kind = "lora", .settings = {}, .targets = {"head"}}); }),
                   "the head");
  test::check_says(error_of([] { adapted(tiny_vgg(), {.kind = "lora", .settings = {}, .targets = all_linear}); }),
                   "no linear layer");
  test::check_says(error_of([] {
                     adapted(tiny_vit(), {.kind = "lora", .settings = {}, .targets = all_linear},
                             {.train = {}, .freeze = {"*"}});
                   }),
                   "freeze.train");
  test::check_says(error_of([] {
                     adapted(tiny_vit(), {.kind = "lora_fa", .settings = {}, .targets = all_linear},
                             {.train = {"@head", "*lora_A*"}, .freeze = {}});
                   }),
                   "*lora_A*");
}

TEST_CASE("adapters: what a pattern names of an adapter and is not trained is said") {
  for (const auto& [kind, left] : {std::pair{"lora", 0}, {"lora_fa", 3}}) {
    const std::unique_ptr<Model> model = make(tiny_vit());
    add_adapters(*model, {.kind = kind, .settings = {}, .targets = {"qkv"}});
    const std::vector<FreezeMatch> matches = freeze_below_adapters(*model, {.train = {"*"}, .freeze = {}});
    REQUIRE(matches.size() == 2);
    CHECK(std::ssize(matches[1].left_frozen) == left);
    for (const Parameter* const parameter : matches[1].left_frozen)
      CHECK(parameter->path().ends_with("qkv.lora_A.weight"));
  }
}

TEST_CASE("adapters: of a layer in parts each part can have one of its own") {
  const AdapterOptions options{.kind = "lora", .settings = {{"rank", 2.0}}, .targets = {"query", "value"}};
  const std::unique_ptr<Model> model = adapted(tiny_vit(), options);
  CHECK(adapted_layers(*model).size() == 3);
  CHECK(trained(*model).size() == 3 * 2 * 2 + 2);
  CHECK(trained(*model).contains("blocks.1.attn.qkv.value.lora_B.weight"));
  CHECK(model->adaptation()->layers.front() == "blocks.0.attn.qkv.query");
  const std::unique_ptr<Model> whole =
      adapted(tiny_vit(), {.kind = "lora", .settings = {}, .targets = {"qkv", "query"}});
  CHECK(trained(*whole).size() == 3 * 2 + 2);
}

TEST_CASE("adapters: of a convolution in groups the rank must be a multiple, and none is merged") {
  const Description groups =
      tiny_resnet({{"block", "bottleneck"}, {"cardinality", whole(2)}, {"base_width", whole(64)}});
  const auto with_rank = [&](double rank) {
    return adapted(groups, {.kind = "lora", .settings = {{"rank", rank}}, .targets = {"conv2"}});
  };
  test::check_says(error_of([&] { with_rank(3); }), "2 groups of layer1.0.conv2");
  const std::unique_ptr<Model> model = with_rank(4);
  fill_adapters(*model);
  CHECK(logits(*model) != logits(*make(groups)));
  test::check_says(error_of([&] { merged_state(*model); }), "layer1.0.conv2");
}

TEST_CASE("adapters: an exact target is a path, no pattern and no end of one") {
  const auto layers = [](const std::string& target, bool exact) {
    return adapted_layers(*adapted(tiny_vit(), {.kind = "lora", .settings = {}, .targets = {target}, .exact = exact}))
        .size();
  };
  CHECK(layers("qkv", false) == 3);
  CHECK(layers("blocks.1.attn.qkv", true) == 1);
  for (const std::string target : {"qkv", "blocks.*.attn.qkv"})
    test::check_says(error_of([&] { layers(target, true); }), target);
}

TEST_CASE("adapters: gradients under a lossless policy are those of keeping everything, and dropout saves nothing") {
  const auto [description, targets] = [&]() -> std::pair<Description, std::vector<std::string>> {
    SUBCASE("linear layers") { return {tiny_vit(), all_linear}; }
    SUBCASE("parts of layers") { return {tiny_vit(), {"query", "key", "value", "fc1"}}; }
    SUBCASE("convolutions") { return {tiny_resnet(), {"*"}}; }
    return {};
  }();
  if (targets.empty()) return;
  const auto run = [&](double dropout, std::string_view policy, const std::string& kind = "lora") {
    const std::unique_ptr<Model> model =
        adapted(description, {.kind = kind, .settings = {{"rank", 2.0}, {"dropout", dropout}}, .targets = targets});
    fill_adapters(*model);
    return pass(*model, policy);
  };
  const Pass keep = run(0.3, "keep"), exact = run(0.3, "exact"), without = run(0, "exact");
  CHECK(exact.gradients == keep.gradients);
  CHECK(exact.gradients != without.gradients);
  CHECK(exact.saved == without.saved);
  CHECK(exact.saved < keep.saved);
  CHECK(run(0.3, "exact", "lora_fa").saved <= exact.saved);
}

TEST_CASE("adapters: the input of a frozen layer is saved once for A, and not at all where A is frozen") {
  const auto saved = [](const std::string& kind) {
    const ModelContext meta{.device = Device::meta};
    struct Chain final : Module {
      explicit Chain(const ModelContext& context)
          : Module(context), first(*this, "first", 64, 64), second(*this, "second", 64, 64) {}
      nn::Linear first, second;
    } chain(meta);
    const nn::AdapterKind& made = nn::adapters().get(kind);
    const Options settings = read_options(kind, made.options, {{"rank", 4.0}, {"dropout", 0.1}});
    for (nn::Linear* const layer : {&chain.first, &chain.second}) {
      layer->set_adapter(made.for_linear(*layer, {}, {settings}));
      for (Parameter* const parameter : layer->parameters()) parameter->set_trainable(false);
      layer->adapter()->set_trainable();
    }
    const std::unique_ptr<MemoryPolicy> policy = make_policy("exact");
    Tape tape(*policy);
    const Recording recording(tape);
    Variable x(Tensor::empty({10, 64}, DType::f32, Device::meta));
    const Variable y = chain.second.forward(chain.first.forward(std::move(x)));
    tape.backward({{y, Tensor::empty({10, 64}, DType::f32, Device::meta)}});
    return tape.saved_bytes();
  };
  constexpr std::int64_t input = 10 * 64 * 4, low = 10 * 4 * 4;
  CHECK(saved("lora") == 2 * (input + low));
  CHECK(saved("lora_fa") == 2 * low);
}

TEST_CASE("adapters: the input of a frozen convolution is saved for A alone") {
  const auto saved = [](const std::string& kind) {
    struct Chain final : Module {
      explicit Chain(const ModelContext& context)
          : Module(context),
            first(*this, "first", 16, 16, {.kernel = 3, .padding = 1}),
            second(*this, "second", 16, 16, {.kernel = 3, .stride = 2, .padding = 1}) {}
      nn::Conv2d first, second;
    } chain({.device = Device::meta});
    const nn::AdapterKind& made = nn::adapters().get(kind);
    const Options settings = read_options(kind, made.options, {{"rank", 4.0}, {"dropout", 0.1}});
    for (nn::Conv2d* const layer : {&chain.first, &chain.second}) {
      layer->set_adapter(made.for_convolution(*layer, settings));
      for (Parameter* const parameter : layer->parameters()) parameter->set_trainable(false);
      layer->adapter()->set_trainable();
    }
    const std::unique_ptr<MemoryPolicy> policy = make_policy("exact");
    Tape tape(*policy);
    const Recording recording(tape);
    Variable x(Tensor::empty({2, 8, 8, 16}, DType::f32, Device::meta));
    const Variable y = chain.second.forward(chain.first.forward(std::move(x)));
    tape.backward({{y, Tensor::empty({2, 4, 4, 16}, DType::f32, Device::meta)}});
    return tape.saved_bytes();
  };
  constexpr std::int64_t place = 2 * 8 * 8 * 4;  // bytes of a channel; the second's result has a quarter
  CHECK(saved("lora") == (16 + 4) * place + (16 + 1) * place);
  CHECK(saved("lora_fa") == 4 * place + 1 * place);
}

TEST_CASE("adapter folders: names of another library, and convolutions, are written and read") {
  const auto round_trip = [](const Description& description, const std::vector<std::string>& targets, bool renamed) {
    const TemporaryFolder folder;
    const std::unique_ptr<Model> model =
        adapted(description, {.kind = "lora", .settings = {{"rank", 2.0}}, .targets = targets});
    fill_adapters(*model);
    const std::vector<TensorNames> tables = tensor_names_of(description.name);
    REQUIRE_FALSE(tables.empty());
    write_adapter(folder.path(), *model, renamed ? &tables.front() : nullptr);
    const std::unique_ptr<Model> other = make(description);
    const AdapterFolder read(folder.path(), tables);
    add_adapters(*other, read.options(*other));
    read.load(*other);
    CHECK(largest_difference(logits(*other), logits(*model)) < 1e-6);
    std::set<std::string> names;
    const SafetensorsFile file(folder / "adapter_model.safetensors");
    for (const SafetensorsEntry& entry : file.entries()) names.insert(entry.name);
    return names;
  };
  const std::set<std::string> whole = round_trip(tiny_vit(), {"qkv", "patch_embed.proj"}, true);
  for (const char* const layer : {"vit.encoder.layer.1.attention.attention.key", "vit.layers.1.attention.k_proj",
                                  "vit.embeddings.patch_embeddings.projection"})
    CHECK(whole.contains(std::string("base_model.model.") + layer + ".lora_B.weight"));
  CHECK(whole.contains("base_model.model.classifier.weight"));
  const std::set<std::string> parts = round_trip(tiny_vit(), {"query", "fc1"}, true);
  CHECK(parts.contains("base_model.model.vit.layers.0.attention.q_proj.lora_A.weight"));
  CHECK_FALSE(parts.contains("base_model.model.vit.layers.0.attention.k_proj.lora_A.weight"));
  CHECK(round_trip(tiny_vit(), {"query", "fc1"}, false)
            .contains("base_model.model.blocks.0.attn.qkv.query.lora_A.weight"));
  CHECK(round_trip(tiny_swin("swin"), {"value", "reduction"}, true)
            .contains("base_model.model.swin.encoder.layers.0.downsample.reduction.lora_A.weight"));
  CHECK(round_trip(tiny_resnet(), {"*"}, true)
            .contains("base_model.model.resnet.encoder.stages.1.layers.0.shortcut.convolution.lora_B.weight"));
  CHECK(round_trip(tiny_resnet(), {"conv2"}, false).contains("base_model.model.layer2.1.conv2.lora_A.weight"));
}

TEST_CASE("adapter folders: biases alone are stored under each name that a library has for them") {
  const TemporaryFolder folder;
  const Description bert{"bert",
                         {{"vocab_size", whole(20)},
                          {"hidden_size", whole(8)},
                          {"num_hidden_layers", whole(1)},
                          {"num_attention_heads", whole(2)},
                          {"intermediate_size", whole(8)}}};
  const std::unique_ptr<Model> model = adapted(bert, {.kind = "lora", .settings = {}, .targets = {"query", "dense"}},
                                               {.train = {"@bias"}, .freeze = {}});
  double value = 0;
  for (Parameter* const parameter : model->parameters())
    if (parameter->trainable() && is_bias(parameter->path())) parameter->tensor().fill(value += 0.5);
  const std::vector<TensorNames> tables = tensor_names_of("bert");
  write_adapter(folder.path(), *model, &tables.front());
  const SafetensorsFile file(folder / "adapter_model.safetensors");
  for (const char* const name :
       {"bert.embeddings.LayerNorm.bias", "bert.embeddings.LayerNorm.beta",
        "bert.encoder.layer.0.attention.self.key.bias", "bert.encoder.layer.0.attention.self.query.base_layer.bias"})
    CHECK(file.contains(fmt::format("base_model.model.{}", name)));
  const std::unique_ptr<Model> other = make(bert);
  const AdapterFolder read(folder.path(), tables);
  add_adapters(*other, read.options(*other));
  read.load(*other);
  for (std::size_t i = 0; i < other->parameters().size(); ++i)
    CHECK(other->parameters()[i]->tensor().to_vector() == model->parameters()[i]->tensor().to_vector());
}

TEST_CASE("adapter folders: rank and alpha of a layer are those of the first pattern that its name ends with") {
  const auto lora = [](double rank, double alpha) { return OptionValues{{"rank", rank}, {"alpha", alpha}}; };
  const AdapterOptions options{.kind = "lora",
                               .settings = lora(2, 3),
                               .layer_settings = {{"blocks.0.attn.qkv.query", lora(4, 3)},
                                                  {"blocks.1.attn.qkv.value", lora(2, 7)},
                                                  {"blocks.1.mlp.fc1", lora(1, 0)}},
                               .targets = {"query", "value", "fc1"}};
  const std::unique_ptr<Model> model = adapted(tiny_vit(), options);
  fill_adapters(*model);
  const std::vector<double> expected = logits(*model);
  const TemporaryFolder folder;
  const auto read = [&](const std::vector<TensorNames>& tables = {}) {
    const std::unique_ptr<Model> other = make(tiny_vit());
    const AdapterFolder stored(folder.path(), tables);
    add_adapters(*other, stored.options(*other));
    stored.load(*other);
    return logits(*other);
  };
  for (const bool renamed : {false, true}) {
    const std::vector<TensorNames> tables = tensor_names_of("vit");
    write_adapter(folder.path(), *model, renamed ? &tables.front() : nullptr);
    CHECK(read(tables) == expected);
  }
  write_adapter(folder.path(), *model);
  const std::string text = read_file(folder / "adapter_config.json");
  CHECK(text.find("\"^blocks.0.attn.qkv.query\": 4") != std::string::npos);
  const auto with = [&](const std::string& ranks, const std::string& alphas) {
    std::string changed = text.substr(0, text.find("\"rank_pattern\""));
    changed += fmt::format(R"("rank_pattern": {{{}}}, "alpha_pattern": {{{}}}}})", ranks, alphas);
    write_file(folder / "adapter_config.json", changed);
    return read();
  };
  const std::string ranks = R"("blocks.[0].*query": 4, "1.mlp.fc1": 1)";
  CHECK(with(ranks, R"("1.mlp.fc1": 0, "blocks\\.1\\.attn\\.(qkv)\\.value": 7, "value": 3)") == expected);
  CHECK(with(ranks, R"("1.mlp.fc1": 0, "value": 3, "1.attn.qkv.value": 7)") != expected);
  CHECK(with(ranks, R"("p.fc1": 0, "1.attn.qkv.value": 7)") != expected);  // no part of a name

  // A merged model gives the same.
  const std::unique_ptr<Model> plain = make(tiny_vit());
  merge(*model, *plain);
  CHECK(largest_difference(logits(*plain), expected) < 1e-5);
  write_file(folder / "adapter_config.json",
             text.substr(0, text.find("\"rank_pattern\"")) + "\"layers_pattern\": null}");
  test::check_says(error_of([&] { read(); }), "query.lora_A.weight: expected [2, 24]");
}

TEST_CASE("adapter folders: written and read, the values are the same, and only they are stored") {
  const TemporaryFolder folder;
  const std::unique_ptr<Model> model = adapted(
      tiny_vit(),
      {.kind = "lora", .settings = {{"rank", 3.0}, {"alpha", 5.0}, {"rslora", true}}, .targets = {"qkv", "fc2"}});
  fill_adapters(*model);
  write_adapter(folder.path(), *model);
  CHECK(is_adapter_folder(folder.path()));
  const SafetensorsFile file(folder / "adapter_model.safetensors");
  CHECK(file.entries().size() == 2 * 2 * 3 + 2);
  CHECK(file.contains("base_model.model.blocks.1.attn.qkv.lora_B.weight"));
  CHECK(file.contains("base_model.model.head.weight"));
  const std::unique_ptr<Model> other = make(tiny_vit());
  const AdapterFolder read(folder.path());
  AdapterOptions options = read.options(*other);
  CHECK(options.kind == "lora");
  CHECK(options.exact);
  add_adapters(*other, options);
  read.load(*other);
  CHECK(logits(*other) == logits(*model));

  SUBCASE("for other classes the head stays, where that is allowed") {
    const std::unique_ptr<Model> wider = make(tiny_vit({{"num_classes", whole(7)}}));
    add_adapters(*wider, read.options(*wider));
    test::check_says(error_of([&] { read.load(*wider); }), "head.weight: expected [7, 24]");
    const LoadedAdapter loaded = read.load(*wider, AdapterFolder::Head::kept_for_other_shapes);
    CHECK(loaded.new_head);
    CHECK(loaded.file_classes == 5);
  }
  SUBCASE("one of another model is refused") {
    const std::unique_ptr<Model> swin = make(tiny_swin("swin"));
    test::check_says(error_of([&] { read.options(*swin); }), "no tensor belongs to");
    const std::unique_ptr<Model> deeper = make(tiny_vit({{"depth", whole(4)}}));
    add_adapters(*deeper, {.kind = "lora", .settings = {{"rank", 3.0}}, .targets = {"qkv", "fc2"}});
    test::check_says(error_of([&] { read.load(*deeper); }), "missing in the file: blocks.3.attn.qkv.lora_A.weight");
  }
  SUBCASE("biases beside adapters are stored alone, other trained parameters with the rest of their module") {
    const std::unique_ptr<Model> trained =
        adapted(tiny_vit(), {.kind = "lora", .settings = {}, .targets = {"qkv"}},
                {.train = {"*.qkv.bias", "norm.weight", "blocks.0.norm1.bias"}, .freeze = {}});
    fill_adapters(*trained);
    for (Parameter* const parameter : trained->parameters())
      if (parameter->trainable() && is_bias(parameter->path())) parameter->tensor().fill(0.3);
    const TemporaryFolder beside;
    write_adapter(beside.path(), *trained);
    const SafetensorsFile stored(beside / "adapter_model.safetensors");
    for (const char* const name :
         {"blocks.1.attn.qkv.base_layer.bias", "blocks.0.norm1.bias", "norm.weight", "norm.bias"})
      CHECK(stored.contains(fmt::format("base_model.model.{}", name)));
    const auto config = nlohmann::json::parse(read_file(beside / "adapter_config.json"));
    CHECK(config.at("bias") == "all");
    CHECK(config.at("modules_to_save") == nlohmann::json::array({"norm"}));
    const std::unique_ptr<Model> again = make(tiny_vit());
    const AdapterFolder folder_beside(beside.path());
    add_adapters(*again, folder_beside.options(*again));
    folder_beside.load(*again);
    CHECK(logits(*again) == logits(*trained));
  }
  SUBCASE("what is not computed is refused") {
    std::string text = read_file(folder / "adapter_config.json");
    const auto with = [&](const std::string& more) {
      write_file(folder / "adapter_config.json", "{" + more + "," + text.substr(1));
      return error_of([&] { AdapterFolder(folder.path()); });
    };
    test::check_says(with("\"use_dora\": true"), "use_dora");
    test::check_says(with("\"alora_invocation_tokens\": [1, 2]"), "alora_invocation_tokens");
    test::check_says(with("\"trainable_token_indices\": {\"embed_tokens\": [1]}"), "trainable_token_indices");
    test::check_says(with("\"lora_bias\": true"), "lora_bias");
    test::check_says(with("\"of_another_version\": 3"), "of_another_version");
    test::check_says(with("\"init_lora_weights\": \"pissa_niter_4\""), "pissa_niter_4");
    test::check_says(with("\"alpha_pattern\": {\"(qkv\": 3}"), "(qkv");
    test::check_says(with("\"rank_pattern\": {\"qkv\": \"3\"}"), "rank_pattern");
    test::check_says(with("\"rank_pattern\": [3]"), "rank_pattern");
    write_file(folder / "adapter_config.json", "{\"peft_type\": \"IA3\"}");
    test::check_says(error_of([&] { AdapterFolder(folder.path()); }), "got IA3");
  }
}

TEST_CASE("an adapter on weights in few bits has the gradients that it has on the decoded weights") {
  for (const Description& description : {tiny_vit({{"embed_dim", 96}}), tiny_swin("swin", {{"embed_dim", 96}})}) {
    for (const std::string type : {"bf16", "int8", "nf4", "int4"}) {
      CAPTURE(description.name);
      CAPTURE(type);
      const AdapterOptions options{.kind = "lora", .settings = {{"rank", 2}}, .targets = all_linear};
      const std::unique_ptr<Model> shape = adapted(description, options, {}, {.device = Device::meta});
      const auto formats = std::make_shared<const WeightFormats>(weight_formats(*shape, {std::span(&type, 1)}));
      const std::unique_ptr<Model> coded = adapted(description, options, {}, {.formats = formats}),
                                   decoded = adapted(description, options);
      std::int64_t in_few_bits = 0, bytes = 0;
      for (std::size_t i = 0; i < coded->parameters().size(); ++i) {
        const Tensor &from = coded->parameters()[i]->tensor(), &to = decoded->parameters()[i]->tensor();
        if (from.is_coded()) to.copy_from(from);
        in_few_bits += from.is_coded() ? from.count() : 0;
        bytes += from.is_coded() ? from.bytes() : 0;
      }
      REQUIRE(in_few_bits > 0);
      // Codes, and for each scale: of rows of 64 and more, 4 bytes; of blocks of 64, one, and a scale of 256 of them.
      const double bits = type == std::string("bf16") ? 16 : type == std::string("int8") ? 8.5 : 4.3;
      CHECK(8 * static_cast<double>(bytes) <= bits * static_cast<double>(in_few_bits));
      fill_adapters(*coded);
      fill_adapters(*decoded);
      CHECK(largest_difference(logits(*coded), logits(*decoded)) < 1e-5);
      for (Model* const model : {coded.get(), decoded.get()}) model->set_training(true);
      const Pass a = pass(*coded, "exact"), b = pass(*decoded, "exact");
      CHECK(a.saved == b.saved);
      REQUIRE(a.gradients.size() == b.gradients.size());
      for (const auto& [path, gradient] : a.gradients) {
        CAPTURE(path);
        double largest = 1e-3;
        for (const double value : b.gradients.at(path)) largest = std::max(largest, std::abs(value));
        CHECK(largest_difference(gradient, b.gradients.at(path)) < 1e-4 * largest);
      }
      const std::unique_ptr<Model> again = adapted(description, options, {}, {.formats = formats});
      fill_adapters(*again);
      CHECK(pass(*again, "keep").gradients == a.gradients);
      // Merged, the model has the decoded weights and the adapter in f32.
      for (const auto& [name, tensor] : merged_state(*coded)) CHECK_FALSE((tensor.is_coded() && name.find("fc") == 0));
    }
  }
}
