#include "models/folders/folder.h"

#include "core/error.h"
#include "nn/init.h"
#include "tests/models/tiny_models.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

using namespace lacuna;
using lacuna::test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

/// [N, C, H, W] as the models take images: [N, H, W, C].
Tensor channels_last(const Tensor& images) {
  const Shape& shape = images.shape();
  const Tensor out = Tensor::empty({shape[0], shape[2], shape[3], shape[1]}, DType::f32, Device::cpu);
  const std::int64_t pixels = shape[2] * shape[3], channels = shape[1];
  for (std::int64_t n = 0; n < shape[0]; ++n)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t p = 0; p < pixels; ++p)
        out.data<float>()[(n * pixels + p) * channels + c] = images.data<float>()[(n * channels + c) * pixels + p];
  return out;
}

std::vector<double> logits_of(Model& model, const Tensor& images) {
  model.set_training(false);
  return test::logits_of(model, Variable(images)).tensor().to_vector();
}

/// The largest difference, relative to the largest value.
double difference(const std::vector<double>& ours, const std::vector<double>& theirs) {
  REQUIRE(ours.size() == theirs.size());
  double apart = 0, largest = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    apart = std::max(apart, std::abs(ours[i] - theirs[i]));
    largest = std::max(largest, std::abs(theirs[i]));
  }
  return apart / largest;
}

std::unique_ptr<Model> load(const fs::path& path, const std::vector<HyperParameter>& more = {}) {
  const std::optional<ModelFolder> folder = read_model_folder(path);
  REQUIRE(folder.has_value());
  std::vector<HyperParameter> values = folder->hyper_parameters;
  values.insert(values.end(), more.begin(), more.end());
  std::unique_ptr<Model> model = build_model(folder->model, values, {});
  const FolderWeights weights = open_weights(path, folder);
  load_weights(*model, weights.files, weights.options);
  return model;
}

/// Compares each folder with the results in NAME.safetensors beside it.
void check_cases(const fs::path& cases) {
  std::set<fs::path> files;
  for (const auto& entry : fs::directory_iterator(cases))
    if (entry.path().extension() == ".safetensors") files.insert(entry.path());
  REQUIRE(!files.empty());
  for (const fs::path& path : files) {
    CAPTURE(path);
    const SafetensorsFile file(path);
    std::vector<HyperParameter> more;
    const nlohmann::json arguments = nlohmann::json::parse(file.metadata().at("arguments"));
    for (const auto& [key, value] : arguments.items()) more.push_back({key, value.get<std::int64_t>()});
    fs::path folder = path;
    const std::unique_ptr<Model> model = load(folder.replace_extension(""), more);
    CHECK(difference(logits_of(*model, channels_last(file.load("images"))), file.load("logits").to_vector()) < 1e-5);
  }
}

/// A small model whose values are all drawn.
struct Case {
  std::string name;
  ModelFolder description;
  bool timm, transformers;  // whether the library has it
};

Tree list(std::vector<std::int64_t> values) { return values; }

std::vector<Case> our_cases() {
  using test::whole;
  const std::vector<HyperParameter> vit{{"image_size", whole(32)}, {"patch_size", whole(8)}, {"embed_dim", whole(24)},
                                        {"depth", whole(2)},       {"num_heads", whole(3)},  {"num_classes", whole(5)}};
  const std::vector<HyperParameter> swin{{"image_size", whole(32)}, {"embed_dim", whole(16)},
                                         {"depths", list({2, 1})},  {"num_heads", list({2, 4})},
                                         {"window_size", whole(4)}, {"num_classes", whole(5)}};
  const std::vector<HyperParameter> resnet{{"image_size", whole(64)},
                                           {"layers", list({1, 1, 1, 1})},
                                           {"channels", list({4, 8, 8, 16})},
                                           {"num_classes", whole(5)}};
  const std::vector<HyperParameter> convnext{{"image_size", whole(64)},
                                             {"depths", list({1, 1, 2, 1})},
                                             {"dims", list({8, 8, 16, 16})},
                                             {"num_classes", whole(5)}};
  const auto with = [](std::vector<HyperParameter> values, const std::vector<HyperParameter>& more) {
    values.insert(values.end(), more.begin(), more.end());
    return values;
  };
  const auto make = [](std::string name, std::string model, std::vector<HyperParameter> values, bool timm,
                       bool transformers) {
    return Case{std::move(name),
                {.model = std::move(model),
                 .hyper_parameters = std::move(values),
                 .labels = {"a", "b", "c", "d", "e"},
                 .images = {.mean = {0.5, 0.4, 0.3},
                            .std = {0.2, 0.2, 0.25},
                            .interpolation = "bicubic",
                            .crop_pct = 0.875,
                            .crop_mode = "center"}},
                timm,
                transformers};
  };
  return {
      make("vit", "vit", vit, true, true),
      make("vit-preset", "vit_small_patch16_224", vit, true, true),
      make("vit-grey", "vit", with(vit, {{"in_channels", whole(1)}}), true, true),
      make("vit-average", "vit", with(vit, {{"global_pool", "avg"}}), true, false),
      make("vit-eps", "vit", with(vit, {{"norm_eps", 1e-12}}), false, true),
      make("deit3", "deit3_small_patch16_224", vit, true, false),
      make("clip", "vit_base_patch16_clip_quickgelu_224", vit, true, false),
      make("deit-distilled", "deit_distilled", vit, true, true),
      make("swin", "swin", swin, true, true),
      make("swinv2", "swin_v2", swin, true, true),
      make("resnet", "resnet", resnet, true, true),
      make("resnet-basic", "resnet18", resnet, true, true),
      make("resnet-d", "resnet50d", with(resnet, {{"stem_width", whole(8)}}), true, false),
      make("resnet-narrow", "resnet", with(resnet, {{"stem_width", whole(8)}}), false, true),
      make("convnext", "convnext", convnext, true, true),
      make("efficientnet", "tf_efficientnet_b0", {{"image_size", whole(32)}, {"num_classes", whole(5)}}, true, false),
      make("mobilenet", "mobilenetv3_small_100",
           {{"image_size", whole(32)}, {"norm_eps", 1e-3}, {"num_classes", whole(5)}}, true, false),
      make("efficientnet-narrow", "efficientnet_b0",
           {{"image_size", whole(32)}, {"stem_size", whole(8)}, {"num_classes", whole(5)}}, false, false),
      make("cifar", "resnet20", {{"num_classes", whole(5)}}, false, false)};
}

std::unique_ptr<Model> drawn(const Case& one) {
  std::unique_ptr<Model> model = build_model(one.description.model, one.description.hyper_parameters, {.seed = 3});
  for (Parameter* const parameter : model->parameters()) {
    const std::int64_t inputs = parameter->shape().count() / std::max<std::int64_t>(parameter->shape().front(), 1);
    const std::string& path = parameter->path();
    if (path.ends_with("logit_scale") || path.find("norm") != path.npos) continue;
    init::normal(parameter->shape().rank() <= 1 ? 0.3 : 1 / std::sqrt(static_cast<double>(inputs)))(
        parameter->tensor(), {5, 0, random_site(path)});
  }
  return model;
}

Tensor drawn_images(const Model& model) {
  const Shape& shape = field_of(model.inputs(), "images").shape;  // [H, W, C]
  const Tensor images = Tensor::empty({2, shape[2], shape[0], shape[1]}, DType::f32, Device::cpu);
  init::normal(1)(images, {7, 0, 1});
  return images;
}

/// Runs the script with $PYTHON, which must have timm and transformers; nothing where it is not set.
bool run_script(const std::string& arguments) {
  const char* const python = std::getenv("PYTHON");
  if (python == nullptr) {
    MESSAGE("skipped: PYTHON names no interpreter with timm and transformers");
    return false;
  }
  const std::string command = fmt::format("'{}' '{}/tests/models/library_folders.py' {} > /dev/null 2>&1", python,
                                          LACUNA_SOURCE_DIR, arguments);
  REQUIRE(std::system(command.c_str()) == 0);
  return true;
}

void change(const fs::path& file, const auto& edit) {
  nlohmann::json json = nlohmann::json::parse(test::read_file(file));
  edit(json);
  test::write_file(file, json.dump());
}

std::string refusal(const auto& attempt) {
  try {
    attempt();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("folders: those of timm and transformers give the logits of those libraries (library_folders.py)") {
  check_cases(LACUNA_SOURCE_DIR "/tests/models/folders");
}

TEST_CASE("folders: what they say is read") {
  const fs::path folders = LACUNA_SOURCE_DIR "/tests/models/folders";
  const ModelFolder timm = *read_model_folder(folders / "timm-vit"), hf = *read_model_folder(folders / "hf-vit");
  CHECK(timm.model == "vit_tiny_patch16_224");
  CHECK(timm.labels == std::vector<std::string>{"class 0", "class 1", "class 2", "class 3", "class 4"});
  CHECK(hf.labels == timm.labels);
  CHECK(timm.images.mean.size() == 3);
  CHECK(timm.images.interpolation == "bicubic");
  CHECK(timm.images.crop_pct == 0.9);
  CHECK(hf.images.mean == std::vector{0.5, 0.4, 0.3});
  CHECK(hf.images.std == std::vector{0.25, 0.25, 0.25});
  CHECK(hf.images.interpolation == "bicubic");
  CHECK(hf.images.crop_mode == "squash");
  CHECK(hf.library == Library::transformers);
  CHECK_FALSE(read_model_folder(folders).has_value());
}

TEST_CASE("folders: ours come back with the same logits, in both conventions") {
  const TemporaryFolder folder;
  for (const Case& one : our_cases()) {
    CAPTURE(one.name);
    const std::unique_ptr<Model> model = drawn(one);
    const Tensor images = channels_last(drawn_images(*model));
    const std::vector<double> logits = logits_of(*model, images);
    // As a checkpoint has it, whatever libraries there are.
    fs::create_directories(folder / one.name);
    save_weights(*model, folder / one.name / "model.safetensors");
    write_texts(folder / one.name, files_beside_weights(*model, one.description));
    CHECK(logits_of(*load(folder / one.name), images) == logits);
    for (const auto& [library, has] :
         {std::pair{Library::timm, one.timm}, std::pair{Library::transformers, one.transformers}}) {
      const fs::path out = folder / fmt::format("{}-{}", one.name, library == Library::timm ? "timm" : "hf");
      const std::string refused = refusal([&] { write_model_folder(out, *model, one.description, library); });
      CAPTURE(refused);
      CHECK(refused.empty() == has);
      CHECK(fs::exists(out) == has);
      if (!has) continue;
      CHECK(logits_of(*load(out), images) == logits);
      const ModelFolder back = *read_model_folder(out);
      CHECK(back.labels == one.description.labels);
      CHECK(back.images.mean == one.description.images.mean);
      CHECK(back.images.crop_pct == doctest::Approx(0.875).epsilon(0.01));
      test::check_says(refusal([&] { write_model_folder(out, *model, one.description, library); }), "exists");
    }
  }
}

TEST_CASE("folders: writing one leaves its neighbours alone, with or without a trailing slash") {
  const TemporaryFolder folder;
  const Case one = our_cases().front();
  REQUIRE(one.timm);
  fs::create_directory(folder / "out.tmp");
  test::write_file(folder / "out.tmp/notes", "of the user");
  write_model_folder(folder / "out/", *drawn(one), one.description, Library::timm);
  CHECK(fs::exists(folder / "out/config.json"));
  CHECK(test::read_file(folder / "out.tmp/notes") == "of the user");
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 2);
}

TEST_CASE("folders: labels that are no names, and pixels of another scale, are refused") {
  const TemporaryFolder folder;
  const auto refused = [&](const char* of, const char* file, const char* key, const nlohmann::json& value) {
    fs::remove_all(folder / "a");
    fs::copy(fs::path(LACUNA_SOURCE_DIR "/tests/models/folders") / of, folder / "a", fs::copy_options::recursive);
    nlohmann::json json = nlohmann::json::object();
    if (fs::exists(folder / "a" / file)) json = nlohmann::json::parse(test::read_file(folder / "a" / file));
    json[key] = value;
    test::write_file(folder / "a" / file, json.dump());
    return refusal([&] { read_model_folder(folder / "a"); }).find(key) != std::string::npos;
  };
  for (const nlohmann::json& labels : {nlohmann::json("cat"), nlohmann::json(3), nlohmann::json(true),
                                       nlohmann::json{1, 2}, nlohmann::json{{"0", 1}}}) {
    CAPTURE(labels.dump());
    CHECK(refused("timm-vit", "config.json", "label_names", labels));
  }
  const char* const preparation = "preprocessor_config.json";
  CHECK(refused("hf-vit", preparation, "rescale_factor", 1 / 127.5));
  CHECK(refused("hf-vit", preparation, "do_rescale", false));
  CHECK_FALSE(refused("hf-vit", preparation, "rescale_factor", 0.003921569));
}

TEST_CASE("folders: a processor's class says what a number is, and other sizes are refused") {
  const TemporaryFolder folder;
  const auto mode = [&](const nlohmann::json& changes) {
    fs::remove_all(folder / "a");
    fs::copy(fs::path(LACUNA_SOURCE_DIR "/tests/models/folders/hf-vit"), folder / "a", fs::copy_options::recursive);
    change(folder / "a/preprocessor_config.json", [&](nlohmann::json& json) { json.update(changes); });
    return read_model_folder(folder / "a")->images.crop_mode;
  };
  CHECK(mode({{"size", 32}}) == "squash");
  CHECK(mode({{"size", 32}, {"image_processor_type", nullptr}, {"feature_extractor_type", "DeiTFeatureExtractor"}}) ==
        "squash");
  CHECK(mode({{"size", 32}, {"image_processor_type", "ConvNextFeatureExtractor"}}) == "center");
  CHECK(mode({{"size", {{"shortest_edge", 32}}}}) == "center");
  for (const auto& [key, value] : {std::pair{"size", nlohmann::json{{"height", 32}, {"width", 40}}},
                                   {"size", nlohmann::json{{"longest_edge", 32}}},
                                   {"resample", nlohmann::json(9)},
                                   {"do_resize", nlohmann::json(false)}})
    test::check_says(refusal([&] { mode({{key, value}}); }), key);
  test::check_says(refusal([&] { mode({{"size", 32}, {"image_processor_type", "OtherImageProcessor"}}); }), "Other");
}

TEST_CASE("folders: images of two sides come back, or are refused where a type has one side") {
  const TemporaryFolder folder;
  for (const Case& one : our_cases()) {
    if (!one.transformers) continue;
    CAPTURE(one.name);
    ModelFolder description = one.description;
    std::erase_if(description.hyper_parameters, [](const auto& value) { return value.key == "image_size"; });
    description.hyper_parameters.push_back({"image_size", list({32, 64})});
    const std::unique_ptr<Model> model = build_model(description.model, description.hyper_parameters, {.seed = 3});
    const fs::path out = folder / one.name;
    std::vector<std::string> notes;
    const std::string refused =
        refusal([&] { notes = write_model_folder(out, *model, description, Library::transformers); });
    CHECK(refused.empty() == one.name.starts_with("resnet"));
    if (!refused.empty()) continue;
    REQUIRE(notes.size() == 1);  // no processor crops as `center` does
    test::check_says(notes.front(), "crop_mode");
    const ModelFolder back = *read_model_folder(out);
    CHECK(*find_value(back.hyper_parameters, "image_size") == list({32, 64}));
    CHECK(back.images.crop_mode == "squash");
    const Tensor images = channels_last(drawn_images(*model));
    CHECK(logits_of(*load(out), images) == logits_of(*model, images));
  }
}

TEST_CASE("folders: the processor says SegFormer's size, whatever image_size is beside it") {
  const TemporaryFolder folder;
  const ModelFolder description{.model = "segformer",
                                .hyper_parameters = {{"image_size", list({32, 64})},
                                                     {"embed_dims", list({4, 4, 8, 8})},
                                                     {"depths", list({1, 1, 1, 1})},
                                                     {"num_heads", list({1, 1, 1, 1})},
                                                     {"decoder_hidden_size", test::whole(6)}}};
  const std::unique_ptr<Model> model = build_model(description.model, description.hyper_parameters, {.seed = 3});
  write_model_folder(folder / "a", *model, description, Library::transformers);
  change(folder / "a/config.json", [](nlohmann::json& json) { json["image_size"] = 224; });
  CHECK(*find_value(read_model_folder(folder / "a")->hyper_parameters, "image_size") == list({32, 64}));
  change(folder / "a/preprocessor_config.json", [](nlohmann::json& json) { json["size"] = 64; });
  CHECK(*find_value(read_model_folder(folder / "a")->hyper_parameters, "image_size") == test::whole(64));
}

TEST_CASE("folders: several labels and numbers to predict come back in both conventions") {
  for (const Case& one : our_cases())
    for (const std::string problem : {"multi_label_classification", "regression"}) {
      const TemporaryFolder folder;
      ModelFolder description = one.description;
      description.problem = problem;
      const std::unique_ptr<Model> model = drawn(one);
      if (one.timm) {
        write_model_folder(folder / "timm", *model, description, Library::timm);
        CHECK(task_of(*read_model_folder(folder / "timm")) == task_of(description));
      }
      if (!transformers_refusal(description).empty()) continue;
      write_model_folder(folder / "hf", *model, description, Library::transformers);
      CHECK(read_model_folder(folder / "hf")->problem == problem);
    }
}

TEST_CASE("folders: names may have a wrapper's before them; a model without a head lacks its own") {
  const fs::path given = LACUNA_SOURCE_DIR "/tests/models/folders/hf-vit";
  const SafetensorsFile file(given / "model.safetensors");
  const std::unique_ptr<Model> model = load(given);
  const auto loaded_from = [&](const std::vector<NamedTensor>& tensors) {
    const TemporaryFolder folder;
    fs::copy_file(given / "config.json", folder / "config.json");
    write_safetensors(folder / "model.safetensors", tensors);
    const ModelFolder said = *read_model_folder(folder.path());
    std::unique_ptr<Model> loaded = build_model(said.model, said.hyper_parameters, {.seed = 5});
    FolderWeights weights = open_weights(folder.path(), said);
    weights.options.new_head = true;
    const LoadedWeights result = load_weights(*loaded, weights.files, weights.options);
    for (std::size_t i = 0; i < model->parameters().size(); ++i) {
      const Parameter &ours = *loaded->parameters()[i], &theirs = *model->parameters()[i];
      if (!result.new_head || !ours.path().starts_with("head."))
        CHECK(ours.tensor().to_vector() == theirs.tensor().to_vector());
    }
    return result;
  };
  std::vector<NamedTensor> wrapped, bare{{"pooler.dense.bias", Tensor::zeros({24}, DType::f32, Device::cpu)}};
  for (const SafetensorsEntry& entry : file.entries()) {
    wrapped.emplace_back("module." + entry.name, file.load(entry.name));
    if (entry.name.starts_with("vit.")) bare.emplace_back(entry.name.substr(4), file.load(entry.name));
  }
  CHECK_FALSE(loaded_from(wrapped).new_head);
  const LoadedWeights without = loaded_from(bare);
  CHECK(without.new_head);
  CHECK(without.left_out == std::vector<std::string>{"pooler.dense.bias"});
}

TEST_CASE("folders: a part that is missing and a config.json that says too little are refused") {
  const fs::path given = LACUNA_SOURCE_DIR "/tests/models/folders/hf-vit";
  const TemporaryFolder folder;
  fs::copy(given, folder / "a", fs::copy_options::recursive);
  const SafetensorsFile file(given / "model.safetensors");
  std::vector<NamedTensor> tensors;
  for (const SafetensorsEntry& entry : file.entries())
    if (entry.name.find("0.attention.attention.key.weight") == std::string::npos)
      tensors.emplace_back(entry.name, file.load(entry.name));
  write_safetensors(folder / "a/model.safetensors", tensors);
  test::check_says(refusal([&] { load(folder / "a"); }), "blocks.0.attn.qkv.weight");
  const auto refused = [&](const auto& edit) {
    fs::remove_all(folder / "b");
    fs::copy(given, folder / "b", fs::copy_options::recursive);
    change(folder / "b/config.json", edit);
    return refusal([&] { load(folder / "b"); });
  };
  test::check_says(refused([](nlohmann::json& json) { json["model_type"] = "mamba"; }), "mamba");
  test::check_says(refused([](nlohmann::json& json) { json.erase("model_type"); }), "architecture");
  test::check_says(refused([](nlohmann::json& json) { json["hidden_size"] = "wide"; }), "hidden_size");
  test::check_says(refused([](nlohmann::json& json) { json["id2label"] = {{"1", "a"}}; }), "id2label");
  test::check_says(refused([](nlohmann::json& json) { json["architecture"] = "regnety_160"; }), "regnety_160");
}

TEST_CASE("folders: another class count is a new head, and 1001 classes lose their background") {
  const TemporaryFolder folder;
  const Case one = our_cases().front();
  const auto build = [&](std::int64_t classes) {
    std::vector<HyperParameter> values = one.description.hyper_parameters;
    values.push_back({"num_classes", classes});
    return build_model("vit", values, {.seed = 1});
  };
  const std::unique_ptr<Model> trained = build(1001), same = build(1000), other = build(7);
  save_weights(*trained, folder / "model.safetensors");
  const WeightFiles file(folder / "model.safetensors");
  CHECK_FALSE(load_weights(*same, file, {.new_head = true}).new_head);
  const auto head = [](const Model& model) {
    for (const Parameter* const parameter : model.parameters())
      if (parameter->path() == "head.weight") return parameter->tensor();
    return Tensor();
  };
  CHECK(head(*same).to_vector() == head(*trained).leading(1, 1001).to_vector());
  const LoadedWeights loaded = load_weights(*other, file, {.new_head = true});
  CHECK(loaded.new_head);
  CHECK(loaded.file_classes == 1001);
  // timm's label_offset says how many rows, of any number of classes.
  const std::unique_ptr<Model> fewer = build(999);
  CHECK_FALSE(load_weights(*fewer, file, {.new_head = true, .label_offset = 2}).new_head);
}

TEST_CASE("folders: round trips with timm and transformers") {
  const TemporaryFolder folder;
  if (!run_script(fmt::format("make '{}'", (folder / "theirs").string()))) return;
  check_cases(folder / "theirs");
  nlohmann::json cases = nlohmann::json::array();
  std::map<std::string, std::vector<double>> logits;  // by file of theirs
  for (const Case& one : our_cases()) {
    const std::unique_ptr<Model> model = drawn(one);
    const Tensor images = drawn_images(*model);
    const fs::path file = folder / (one.name + ".images.safetensors");
    write_safetensors(file, {{"images", images}});
    const std::vector<double> ours = logits_of(*model, channels_last(images));
    const auto add = [&](const fs::path& out, const std::string& library) {
      const std::string result = fmt::format("{}.{}.safetensors", out.string(), library);
      cases.push_back({{"folder", out.string()}, {"library", library}, {"images", file.string()}, {"logits", result}});
      logits[result] = ours;
    };
    if (one.timm) {
      const fs::path out = folder / (one.name + "-timm");
      write_model_folder(out, *model, one.description, Library::timm);
      add(out, "timm");
      add(out, "transformers");  // which reads folders of timm, too
    }
    if (one.transformers) {
      const fs::path out = folder / (one.name + "-hf");
      write_model_folder(out, *model, one.description, Library::transformers);
      add(out, "transformers");
    }
  }
  test::write_file(folder / "cases.json", cases.dump());
  REQUIRE(run_script(fmt::format("read '{}'", (folder / "cases.json").string())));
  for (const auto& [file, ours] : logits) {
    CAPTURE(file);
    CHECK(difference(ours, SafetensorsFile(file).load("logits").to_vector()) < 1e-5);
  }
}
