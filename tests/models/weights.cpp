#include "models/io/weights.h"

#include "core/error.h"
#include "models/registry.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <algorithm>

using namespace lacuna;
using lacuna::test::TemporaryFolder;

namespace {

std::unique_ptr<Model> tiny_resnet(std::uint64_t seed, std::int64_t classes = 5) {
  return build_model("resnet",
                     {{"image_size", std::int64_t{8}},
                      {"num_classes", classes},
                      {"block", "basic"},
                      {"layers", std::vector<std::int64_t>{1}},
                      {"channels", std::vector<std::int64_t>{4}},
                      {"stem", "cifar"},
                      {"stem_width", std::int64_t{4}}},
                     {.seed = seed});
}

bool same_state(const Module& a, const Module& b) {
  const std::vector<NamedTensor> ours = state_of(a), theirs = state_of(b);
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (ours[i].first != theirs[i].first || ours[i].second.to_vector() != theirs[i].second.to_vector()) return false;
  return ours.size() == theirs.size();
}

std::string refusal(Model& model, const std::filesystem::path& path, const LoadOptions& options = {}) {
  try {
    load_weights(model, SafetensorsFile(path), options);
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::input);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("weights: what is saved comes back, running statistics included") {
  const TemporaryFolder folder;
  const auto path = folder / "model.safetensors";
  const std::unique_ptr<Model> one = tiny_resnet(1), two = tiny_resnet(2);
  one->forward(
      Batch{{"images", Tensor::full({2, 8, 8, 3}, 1, DType::f32, Device::cpu)}});  // moves the running statistics
  save_weights(*one, path);
  CHECK_FALSE(same_state(*one, *two));
  load_weights(*two, SafetensorsFile(path));
  CHECK(same_state(*one, *two));
}

TEST_CASE("weights: half precision is converted, counters may be missing, prefixes are stripped") {
  for (const DType stored : {DType::bf16, DType::f16}) {
    const TemporaryFolder folder;
    const auto path = folder / "model.safetensors";
    const std::unique_ptr<Model> one = tiny_resnet(1), two = tiny_resnet(2);
    std::vector<NamedTensor> halves{{"other", Tensor::full({1}, 0, DType::f32, Device::cpu)}};
    for (const auto& [name, tensor] : state_of(*one))
      if (is_floating(tensor.dtype())) halves.emplace_back("model/" + name, tensor.to(stored));
    write_safetensors(path, halves);
    load_weights(*two, SafetensorsFile(path), {.prefix = "model/"});
    for (const Parameter* parameter : two->parameters())
      if (parameter->path() == "fc.weight") {
        CHECK(parameter->tensor().dtype() == DType::f32);
        CHECK(parameter->tensor().to_vector() ==
              one->parameters()[one->parameters().size() - 2]->tensor().to(stored).to_vector());
      }
  }
}

TEST_CASE("weights: missing, unexpected and differently shaped names are listed, and nothing is loaded") {
  const TemporaryFolder folder;
  const auto path = folder / "model.safetensors";
  const std::unique_ptr<Model> model = tiny_resnet(1), untouched = tiny_resnet(1);
  std::vector<NamedTensor> state;
  for (const auto& [name, tensor] : state_of(*tiny_resnet(2))) {
    if (name == "bn1.weight" || name == "layer1.0.bn2.running_var") continue;
    if (name == "conv1.weight")
      state.emplace_back(name, Tensor::zeros({4, 3, 7, 7}, DType::f32, Device::cpu));
    else if (name == "bn1.bias")
      state.emplace_back(name, Tensor::zeros({4}, DType::i64, Device::cpu));
    else
      state.emplace_back(name, tensor);
  }
  state.emplace_back("layer2.0.conv1.weight", Tensor::zeros({8, 4, 3, 3}, DType::f32, Device::cpu));
  write_safetensors(path, state);
  const std::string message = refusal(*model, path);
  std::size_t at = 0;
  for (const char* const part :
       {"conv1.weight: expected f32 [4, 3, 3, 3], got F32 [4, 3, 7, 7]", "bn1.bias: expected f32 [4], got I64 [4]",
        "bn1.weight [4]", "layer1.0.bn2.running_var [4]", "layer2.0.conv1.weight [8, 4, 3, 3]"}) {
    CHECK_MESSAGE(message.find(part, at) != std::string::npos, part);
    at = message.find(part, at);
  }
  CHECK(same_state(*model, *untouched));
}

TEST_CASE("weights: of a file of another model the first differences are named, and how many more there are") {
  const TemporaryFolder folder;
  const auto path = folder / "model.safetensors";
  const std::unique_ptr<Model> model = tiny_resnet(1);
  write_safetensors(path, std::vector<NamedTensor>{{"one", Tensor::zeros({1}, DType::f32, Device::cpu)}});
  const std::string message = refusal(*model, path);
  CHECK(std::count(message.begin(), message.end(), '\n') < 16);
  const auto tensors = std::ranges::count_if(
      state_of(*model), [](const NamedTensor& t) { return !std::get<0>(t).ends_with("num_batches_tracked"); });
  test::check_says(message, fmt::format("\n    and {} more\n  unknown to the model:\n    one [1]", tensors - 8));
}

TEST_CASE("weights: a classifier for other classes is named as such, or starts anew") {
  const TemporaryFolder folder;
  const auto path = folder / "model.safetensors";
  const std::unique_ptr<Model> model = tiny_resnet(1, 5), other = tiny_resnet(2, 7);
  save_weights(*other, path);
  for (const std::string_view part : {std::string_view(path.native()), std::string_view("7 classes (fc.weight [7, 4])"),
                                      std::string_view("num_classes")})
    test::check_says(refusal(*model, path), part);
  const std::vector<double> head = model->parameters().back()->tensor().to_vector();
  CHECK(refusal(*model, path, {.new_head = true}) == "");
  CHECK(model->parameters().back()->tensor().to_vector() == head);
  CHECK(model->parameters().front()->tensor().to_vector() == other->parameters().front()->tensor().to_vector());
}

TEST_CASE("weights: a classifier starts anew as a whole, or where the file has none") {
  const TemporaryFolder folder;
  const auto path = folder / "model.safetensors";
  const std::unique_ptr<Model> other = tiny_resnet(2, 7), same = tiny_resnet(2, 5);
  const auto load_without = [&](const Model& from, std::vector<std::string> left_out) {
    std::vector<NamedTensor> state = state_of(from);
    std::erase_if(state, [&](const NamedTensor& t) { return std::ranges::find(left_out, t.first) != left_out.end(); });
    write_safetensors(path, state);
    const std::unique_ptr<Model> model = tiny_resnet(1, 5), untouched = tiny_resnet(1, 5);
    const LoadedWeights loaded = load_weights(*model, SafetensorsFile(path), {.new_head = true});
    for (std::size_t i = 0; i < model->parameters().size(); ++i) {
      const Parameter& parameter = *model->parameters()[i];
      const bool anew = loaded.new_head && parameter.path().starts_with("fc.");
      const Model& expected = anew ? *untouched : from;
      CHECK(parameter.tensor().to_vector() == expected.parameters()[i]->tensor().to_vector());
    }
    return loaded;
  };
  CHECK_FALSE(load_without(*same, {}).new_head);
  for (const std::vector<std::string>& left_out :
       {std::vector<std::string>{"fc.bias"}, {"fc.weight"}, {"fc.weight", "fc.bias"}}) {
    const LoadedWeights loaded = load_without(*same, left_out);
    CHECK(loaded.new_head);
    CHECK(loaded.file_classes == (left_out.front() == "fc.bias" ? 5 : 0));
  }
  const LoadedWeights loaded = load_without(*other, {});
  CHECK(loaded.new_head);
  CHECK(loaded.file_classes == 7);
}

namespace {

std::vector<NamedTensor> renamed(const Module& model, const std::string& prefix) {
  std::vector<NamedTensor> state;
  for (auto& [name, tensor] : state_of(model)) state.emplace_back(prefix + name, tensor);
  return state;
}

std::unique_ptr<Model> tiny_vit(std::uint64_t seed, std::int64_t image_size) {
  return build_model("vit",
                     {{"image_size", image_size},
                      {"num_classes", std::int64_t{5}},
                      {"patch_size", std::int64_t{4}},
                      {"embed_dim", std::int64_t{8}},
                      {"depth", std::int64_t{1}},
                      {"num_heads", std::int64_t{2}}},
                     {.seed = seed});
}

}  // namespace

TEST_CASE("weights: a prefix that all names share is left out") {
  const TemporaryFolder folder;
  const std::unique_ptr<Model> one = tiny_resnet(1);
  for (const char* const prefix : {"module.", "model.", "module._orig_mod."}) {
    write_safetensors(folder / "p.safetensors", renamed(*one, prefix));
    const std::unique_ptr<Model> two = tiny_resnet(2);
    CHECK(load_weights(*two, WeightFiles(folder / "p.safetensors")).prefix == prefix);
    CHECK(same_state(*one, *two));
  }
}

TEST_CASE("weights: counters of any type and shape are taken") {
  const TemporaryFolder folder;
  const std::unique_ptr<Model> one = tiny_resnet(1);
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::i32})
    for (const Shape& shape : {Shape{}, Shape{1}}) {
      std::vector<NamedTensor> state = state_of(*one);
      for (auto& [name, tensor] : state)
        if (name.ends_with("num_batches_tracked")) tensor = Tensor::full(shape, 7, dtype, Device::cpu);
      write_safetensors(folder / "c.safetensors", state);
      const std::unique_ptr<Model> two = tiny_resnet(2);
      load_weights(*two, WeightFiles(folder / "c.safetensors"));
      for (const Buffer* buffer : two->buffers())
        if (buffer->path().ends_with("num_batches_tracked")) CHECK(buffer->tensor().item() == 7);
    }
}

TEST_CASE("weights: shards with an index, without one, and a file by another name in a folder") {
  const TemporaryFolder folder;
  const std::unique_ptr<Model> one = tiny_resnet(1);
  std::vector<NamedTensor> first = state_of(*one), second;
  while (second.size() < first.size()) {
    second.push_back(first.back());
    first.pop_back();
  }
  std::filesystem::create_directories(folder / "s");
  const std::string names[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
  std::string map;
  for (const std::vector<NamedTensor>* const part : {&first, &second}) {
    const std::string& file = names[part == &first ? 0 : 1];
    write_safetensors(folder / "s" / file, *part);
    for (const auto& [name, tensor] : *part) map += (map.empty() ? "" : ", ") + ('"' + name + "\": \"" + file + '"');
  }
  const auto loads = [&](const char* path) {
    const std::unique_ptr<Model> two = tiny_resnet(2);
    load_weights(*two, WeightFiles(folder / path));
    return same_state(*one, *two);
  };
  CHECK(loads("s"));
  test::write_file(folder / "s/model.safetensors.index.json", "{\"weight_map\": {" + map + "}}");
  CHECK(loads("s"));
  CHECK(loads("s/model.safetensors.index.json"));
  std::filesystem::remove(folder / "s" / names[1]);
  CHECK_THROWS_WITH_AS(WeightFiles(folder / "s"), doctest::Contains(names[1].c_str()), Error);
  std::filesystem::create_directories(folder / "other");
  save_weights(*one, folder / "other/pytorch.safetensors");
  CHECK(loads("other"));
  save_weights(*one, folder / "other/ema.safetensors");
  CHECK_THROWS_WITH_AS(WeightFiles(folder / "other"), doctest::Contains("ema.safetensors"), Error);
  save_weights(*one, folder / "other/model.safetensors");
  CHECK(loads("other"));
  std::filesystem::create_directories(folder / "none");
  CHECK_THROWS_AS(WeightFiles(folder / "none"), Error);
}

TEST_CASE("weights: a file of torch.save is told apart, with the command that converts it") {
  const TemporaryFolder folder;
  for (const char* const begin : {"PK\x03\x04 and more of it", "\x80\x02\x8a\x0al and more of it"}) {
    test::write_file(folder / "w.pth", begin);
    CHECK_THROWS_WITH_AS(WeightFiles(folder / "w.pth"), doctest::Contains("torch.load"), Error);
  }
  const std::filesystem::path index = folder / "pytorch_model.bin.index.json";  // its shards are w.pth
  test::write_file(index, R"({"weight_map": {"a": "w.pth"}})");
  CHECK_THROWS_WITH_AS(WeightFiles{index}, doctest::Contains("torch.load"), Error);
  test::write_file(folder / "w.pth", "version https://git-lfs.github.com/spec/v1\n");
  CHECK_THROWS_WITH_AS(WeightFiles{index}, doctest::Contains("git lfs pull"), Error);
}

TEST_CASE("weights: a pipe without a writer is refused") {
  const TemporaryFolder folder;
  for (const char* const name : {"w.safetensors", "w.pth"}) {
    REQUIRE(::mkfifo((folder / name).c_str(), 0600) == 0);
    CHECK_THROWS_AS(WeightFiles(folder / name), Error);
  }
}

TEST_CASE("weights: an index that is too large or a pipe is refused before it is read") {
  const TemporaryFolder folder;
  const std::filesystem::path large = folder / "large.safetensors.index.json",
                              pipe = folder / "p.safetensors.index.json";
  test::write_file(large, "{}");
  std::filesystem::resize_file(large, 200'000'000);  // a hole
  CHECK_THROWS_WITH_AS(WeightFiles{large}, doctest::Contains("200000000"), Error);
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_AS(WeightFiles{pipe}, Error);
}

TEST_CASE("weights: positions of another image size are resampled, and said") {
  const TemporaryFolder folder;
  const std::unique_ptr<Model> one = tiny_vit(1, 8), two = tiny_vit(2, 16);
  save_weights(*one, folder / "a.safetensors");
  const LoadedWeights loaded = load_weights(*two, WeightFiles(folder / "a.safetensors"));
  REQUIRE(loaded.adapted.size() == 1);
  CHECK(loaded.adapted[0].starts_with("pos_embed"));
  const std::unique_ptr<Model> back = tiny_vit(3, 16);
  save_weights(*two, folder / "b.safetensors");
  CHECK(load_weights(*back, WeightFiles(folder / "b.safetensors")).adapted.empty());
  CHECK(same_state(*two, *back));
}

TEST_CASE("weights: as they were saved, nothing is resampled and no prefix is left out") {
  const TemporaryFolder folder;
  const std::unique_ptr<Model> one = tiny_vit(1, 8), large = tiny_vit(2, 16), two = tiny_vit(3, 8);
  save_weights(*one, folder / "a.safetensors");
  test::check_says(refusal(*large, folder / "a.safetensors", {.as_saved = true}), "pos_embed");
  std::vector<NamedTensor> prefixed = state_of(*one);
  for (NamedTensor& entry : prefixed) entry.first = "module." + entry.first;
  write_safetensors(folder / "b.safetensors", prefixed);
  test::check_says(refusal(*two, folder / "b.safetensors", {.as_saved = true}), "module.");
  load_weights(*two, WeightFiles(folder / "a.safetensors"), {.as_saved = true});
  CHECK(same_state(*one, *two));
}

TEST_CASE("weights: what differs is named first") {
  const TemporaryFolder folder;
  const std::unique_ptr<Model> one = tiny_vit(1, 8);
  std::vector<NamedTensor> state = state_of(*one);
  for (auto& [name, tensor] : state)
    if (name == "pos_embed") tensor = Tensor::zeros({1, 7, 8}, DType::f32, Device::cpu);
  write_safetensors(folder / "a.safetensors", state);
  const std::string message = refusal(*tiny_vit(2, 8), folder / "a.safetensors");
  test::check_says(message, "fits except for");
  CHECK(message.find("pos_embed") < message.find("\n", message.find("pos_embed")));
}
