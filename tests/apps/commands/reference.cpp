// Whole models against timm and transformers: tests/models/references/ (make_*references.py beside it write them), and
// any further folder of reference files that the environment names.
#include "apps/commands/reference.h"

#include "core/error.h"
#include "models/registry.h"
#include "models/task.h"
#include "nn/functional.h"
#include "nn/init.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lacuna {
namespace {

std::vector<std::filesystem::path> reference_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string family_of(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  return nlohmann::json::parse(file.metadata().at("model")).at("family").get<std::string>();
}

bool is_in_f64(const std::filesystem::path& path) { return path.stem().string().ends_with("-f64"); }

/// The tensor of a file that differs most.
ReferenceTensor worst_of(const std::filesystem::path& path, const std::string& policy) {
  return compare_with_reference(SafetensorsFile(path), policy, is_in_f64(path) ? DType::f64 : DType::f32).worst();
}

struct NoOptions {
  static Fields fields() { return {}; }
  void check(HyperProblems&) const {}
};

/// scale · nodes, with fields of many kinds.
class Graph final : public Model {
 public:
  Graph(const ModelContext& context, const NoOptions&)
      : Model(context,
              {.inputs = {{.name = "nodes", .shape = {8, 2}, .collation = Collation::packed},
                          {.name = "links",
                           .kind = FieldKind::edges,
                           .dtype = DType::i64,
                           .shape = {8, 2},
                           .collation = Collation::packed,
                           .lengths = "link_offsets"},
                          {.name = "frames", .kind = FieldKind::boxes, .shape = {8, 4}, .collation = Collation::packed},
                          {.name = "regions", .kind = FieldKind::mask, .dtype = DType::u8, .shape = {2, 2}}},
               .num_classes = 1,
               .heads = {}}),
        scale_(*this, "scale", {1}, init::constant(0)) {}
  Outputs forward(Inputs inputs) override {
    Outputs outputs;
    outputs.set("sum", static_cast<double>(inputs.take("nodes").shape()[0]) * scale_.variable());
    return outputs;
  }

 private:
  Parameter scale_;
};
const RegisterFamily<Graph, NoOptions> graph("reference_graph");

class Goal final : public Task {
 public:
  Goal() : Task({}) {}
  SampleFields targets() const override { return {{.name = "goal"}}; }
  TaskResult run(Model& model, Inputs batch, TaskMode) const override {
    batch.take("goal");
    TaskResult result;
    result.loss = model.forward(std::move(batch)).take("sum").reshape({});
    return result;
  }
};
const RegisterTask goal("reference_goal", {.options = NoOptions{}, .make = [](const Options&, const Model&) {
                                             return std::unique_ptr<Task>(std::make_unique<Goal>());
                                           }});

}  // namespace

TEST_CASE("reference: in f64 all but the files with a step of an optimizer agree") {
  const std::filesystem::path folder = LACUNA_SOURCE_DIR "/tests/models/references";
  const ReferenceReport report =
      compare_with_reference(SafetensorsFile(folder / "swin_v2-only-scales.safetensors"), "keep", DType::f64);
  CHECK(report.worst().relative() <= reference_tolerance);
  for (const std::filesystem::path& path : reference_files(folder)) {
    const SafetensorsFile file(path);
    if (!file.metadata().contains("optimizer")) continue;
    CHECK_THROWS_WITH_AS(compare_with_reference(file, "keep", DType::f64), doctest::Contains("f64"), Error);
    break;
  }
}

TEST_CASE("reference: every model agrees with its library, in gradients and after a step") {
  const std::vector<std::filesystem::path> files = reference_files(LACUNA_SOURCE_DIR "/tests/models/references");
  REQUIRE(!files.empty());
  for (const std::filesystem::path& path : files) {
    for (const char* const policy : {"exact", "keep"}) {
      const ReferenceTensor worst = worst_of(path, policy);
      INFO(path.filename().string(), " under ", policy, ": ", worst.name);
      CHECK(worst.relative() < (is_in_f64(path) ? reference_tolerance_f64 : reference_tolerance));
    }
  }
}

TEST_CASE("reference: a file that compares too little, or the wrong names, is refused") {
  const SafetensorsFile whole(LACUNA_SOURCE_DIR "/tests/models/references/vit-token.safetensors");
  const test::TemporaryFolder folder;
  using Change = std::function<void(std::vector<NamedTensor>&, std::map<std::string, std::string>&)>;
  const auto refusal = [&](const Change& change) -> std::string {
    std::vector<NamedTensor> tensors;
    for (const SafetensorsEntry& entry : whole.entries()) tensors.emplace_back(entry.name, whole.load(entry.name));
    std::map<std::string, std::string> metadata = whole.metadata();
    change(tensors, metadata);
    write_safetensors(folder / "changed.safetensors", tensors, metadata);
    try {
      compare_with_reference(SafetensorsFile(folder / "changed.safetensors"), "exact");
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::input);
      return error.what();
    }
    return "";
  };
  const auto without = [&](const std::string& name) {
    return refusal([&](auto& tensors, auto&) {
      std::erase_if(tensors, [&](const NamedTensor& tensor) { return tensor.first == name; });
    });
  };
  for (const std::string name : {"grad/head.weight", "after/norm.bias", "output/loss", "output/logits"})
    CHECK(without(name).ends_with("has no `" + name + "` to compare with"));
  const std::string unseen = refusal([](auto& tensors, auto&) {
    tensors.emplace_back("grad/head.wieght", Tensor::zeros({1}, DType::f32, Device::cpu));
  });
  CHECK(unseen.ends_with("has nothing to compare with grad/head.wieght"));
  const std::string nested = R"({"family": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  test::check_says(refusal([&](auto&, auto& metadata) { metadata["model"] = nested; }), "nested more than");
}

TEST_CASE("reference: a batch of named inputs of any kind, with the task that the file names") {
  const test::TemporaryFolder folder;
  const auto numbers = [](std::vector<std::int64_t> values, const Shape& shape) {
    return Tensor::from(std::span<const std::int64_t>(values), shape);
  };
  using Tensors = std::map<std::string, Tensor>;
  /// The tensors of a reference file under the names of fields.
  const auto named = [&](const std::string& file, const std::map<std::string, std::string>& names) {
    const SafetensorsFile whole(LACUNA_SOURCE_DIR "/tests/models/references/" + file);
    Tensors tensors;
    for (const SafetensorsEntry& entry : whole.entries()) {
      const auto renamed = names.find(entry.name);
      tensors[renamed == names.end() ? entry.name : renamed->second] = whole.load(entry.name);
    }
    return std::pair(tensors, whole.metadata());
  };
  const auto compare = [&](const Tensors& tensors, std::map<std::string, std::string> metadata, const char* task) {
    metadata["task"] = task;
    write_safetensors(folder / "named.safetensors", {tensors.begin(), tensors.end()}, metadata);
    return compare_with_reference(SafetensorsFile(folder / "named.safetensors"), "exact").worst().relative();
  };

  SUBCASE("pixels and labels") {
    auto [tensors, metadata] = named("vit-token.safetensors", {{"target", "input/labels"}});
    CHECK(compare(tensors, metadata, R"({"name": "classification"})") < reference_tolerance);
    CHECK(compare(tensors, metadata, R"({"name": "classification", "label_smoothing": 0.5})") > reference_tolerance);
    const Tensor planes = tensors.extract("input/image").mapped();
    const std::int64_t count = planes.shape()[0], side = planes.shape()[2], channels = planes.shape()[1];
    const Tensor images = Tensor::empty({count, side, side, channels}, DType::f32, Device::cpu);
    for (std::int64_t i = 0; i < images.count(); ++i) {
      const std::int64_t c = i % channels, pixel = i / channels % (side * side), n = i / channels / (side * side);
      images.data<float>()[i] = planes.data<const float>()[(n * channels + c) * side * side + pixel];
    }
    tensors["input/images"] = images;
    CHECK(compare(tensors, metadata, R"({"name": "classification"})") < reference_tolerance);

    const auto refusal = [&](const std::function<void(Tensors&)>& change) {
      Tensors changed = tensors;
      change(changed);
      return test::refusal_of([&] { compare(changed, metadata, R"({"name": "classification"})"); });
    };
    const std::map<std::string, std::string> refused{
        {"`input/mask`", refusal([&](Tensors& t) { t["input/mask"] = numbers({1}, {1}); })},
        {"missing", refusal([](Tensors& t) { t.erase("input/labels"); })},
        {"shape", refusal([&](Tensors& t) { t["input/images"] = planes; })},
        {"samples", refusal([&](Tensors& t) { t["input/labels"] = numbers({1}, {1}); })},
        {"F32", refusal([&](Tensors& t) { t["input/labels"] = Tensor::zeros({count}, DType::f32, Device::cpu); })}};
    for (const auto& [word, message] : refused) {
      test::check_says(message, word);
      test::check_says(message, "expected `input/images` f32 [N,");  // what is declared, and what there is
      test::check_says(message, "got `input/images` F32 [");
    }
    test::check_says(test::refusal_of([&] { compare(tensors, metadata, R"({"name": "clasification"})"); }),
                     "classification");
  }

  SUBCASE("packed tokens with their types, and the same with a mask") {
    const std::map<std::string, std::string> names{
        {"input/ids", "input/tokens"}, {"input/types", "input/token_types"}, {"target", "input/labels"}};
    auto [tensors, metadata] = named("bert-classification.safetensors", names);
    const char* const task = R"({"name": "classification"})";
    CHECK(compare(tensors, metadata, task) < reference_tolerance);
    const Tensor mask = tensors.extract("input/mask").mapped();
    std::vector<std::int64_t> rows, offsets{0};
    for (std::int64_t i = 0; i < mask.count(); ++i) {
      if (mask.data<const std::int64_t>()[i] != 0) rows.push_back(i);
      if ((i + 1) % mask.shape()[1] == 0) offsets.push_back(std::ssize(rows));
    }
    for (const char* const name : {"input/tokens", "input/token_types"}) {
      std::vector<std::int64_t> packed;
      for (const std::int64_t row : rows) packed.push_back(tensors.at(name).data<const std::int64_t>()[row]);
      tensors[name] = numbers(packed, {std::ssize(packed)});
    }
    test::check_says(test::refusal_of([&] { compare(tensors, metadata, task); }), "`input/offsets` is missing");
    tensors["input/offsets"] = numbers(offsets, {std::ssize(offsets)});
    CHECK(compare(tensors, metadata, task) < reference_tolerance);
    offsets.back() += 1;
    tensors["input/offsets"] = numbers(offsets, {std::ssize(offsets)});
    test::check_says(test::refusal_of([&] { compare(tensors, metadata, task); }), "shape");
    offsets[1] = -1;
    tensors["input/offsets"] = numbers(offsets, {std::ssize(offsets)});
    test::check_says(test::refusal_of([&] { compare(tensors, metadata, task); }), "ascend");
  }

  SUBCASE("a model and a task of other kinds: packed numbers, edges, boxes and a mask") {
    const std::map<std::string, std::string> metadata{{"model", R"({"family": "reference_graph"})"}};
    Tensors tensors{{"input/nodes", Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2})},
                    {"input/offsets", numbers({0, 2, 3}, {3})},
                    {"input/links", numbers({1, 0, 2, 2}, {2, 2})},
                    {"input/link_offsets", numbers({0, 1, 2}, {3})},
                    {"input/frames", Tensor::zeros({3, 4}, DType::f32, Device::cpu)},
                    {"input/regions", Tensor::zeros({2, 2, 2}, DType::u8, Device::cpu)},
                    {"input/goal", Tensor::from(std::vector<float>{1, 2}, {2})},
                    {"weight/scale", Tensor::from(std::vector<float>{2}, {1})},
                    {"output/sum", Tensor::from(std::vector<float>{6}, {1})},
                    {"output/loss", Tensor::from(std::vector<float>{6}, {1}).reshape({})},
                    {"grad/scale", Tensor::from(std::vector<float>{3}, {1})}};
    const char* const task = R"({"name": "reference_goal"})";
    CHECK(compare(tensors, metadata, task) == 0);
    tensors["input/links"] = numbers({1, 0, 3, 2}, {2, 2});
    test::check_says(test::refusal_of([&] { compare(tensors, metadata, task); }), "`input/links`");
    tensors["input/links"] = numbers({1, 0, 2, 2}, {2, 2});
    tensors["input/regions"] = Tensor::zeros({2, 2, 3}, DType::u8, Device::cpu);
    test::check_says(test::refusal_of([&] { compare(tensors, metadata, task); }), "`input/regions`");
    tensors.erase("input/regions");
    test::check_says(test::refusal_of([&] { compare(tensors, metadata, task); }), "`input/regions`");
  }
}

TEST_CASE("reference: files of the folder LACUNA_REFERENCES, where it is set") {
  const char* const folder = std::getenv("LACUNA_REFERENCES");
  if (folder == nullptr) {
    MESSAGE("skipped: LACUNA_REFERENCES names no folder");
    return;
  }
  for (const std::filesystem::path& path : reference_files(folder)) {
    const std::string family = family_of(path);
    if (family != "preset" && !model_families().contains(family)) {
      MESSAGE(fmt::format("{} skipped: no family {} yet", path.filename().string(), family));
      continue;
    }
    const ReferenceTensor worst = worst_of(path, "exact");
    INFO(path.filename().string(), ": ", worst.name);
    CHECK(worst.relative() < reference_tolerance);
  }
}

}  // namespace lacuna
