// Runs on weights in few bits: as freeze.weights stores them, and as folders have them; checkpoints in bf16.
#include "models/io/safetensors.h"
#include "tests/apps/train/train_run.h"

namespace lacuna::test {
namespace {

std::string wide_vit(int width = 64) {
  std::string wide(vit);
  return wide.replace(wide.find("embed_dim: 8"), 12, "embed_dim: " + std::to_string(width));
}

/// Quantizes the matrices of a folder as bitsandbytes does, except those with `skipped` in their names.
void quantize(const fs::path& folder, const WeightFormat& format, std::string_view skipped) {
  const fs::path path = folder / "model.safetensors";
  std::vector<NamedTensor> tensors;
  {
    const SafetensorsFile file(path);
    for (const SafetensorsEntry& entry : file.entries()) {
      Tensor tensor = file.load(entry.name);
      const bool skips = !skipped.empty() && entry.name.find(skipped) != std::string::npos;
      if (!skips && tensor.shape().rank() == 2 && tensor.count() >= 4096) {
        const Tensor coded = Tensor::coded(tensor.shape(), format, Device::cpu);
        coded.copy_from(tensor);
        tensor = coded;
      }
      tensors.emplace_back(entry.name, tensor);
    }
  }
  write_safetensors(path, std::move(tensors));
}

double loss_of(const TemporaryFolder& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "eval");
  arguments.insert(arguments.end(), {"--json", "-"});
  return test::run(folder, arguments).json().at("val_loss");
}

std::set<std::string> stored_types(const fs::path& file) {
  const SafetensorsFile weights(file);
  std::set<std::string> types;
  for (const SafetensorsEntry& entry : weights.entries()) types.insert(entry.stored_dtype);
  return types;
}

}  // namespace

TEST_CASE("train: a folder in few bits stays in them where it is frozen") {
  WeightFormat format = format_in_4_bits(WeightCode::nf4);
  format.rounding = DType::bf16;
  // transformers' folders hold q, k and v by themselves, and some of them may be left in f32.
  const std::pair<std::string, std::string_view> folders[] = {
      {"timm", ""}, {"transformers", ""}, {"transformers", ".key."}};
  for (const auto& [library, skipped] : folders) {
    CAPTURE(library);
    CAPTURE(skipped);
    const TemporaryFolder folder(wide_vit());
    test::run(folder, train({"train.steps=1", "output.dir=r"}));
    test::run(folder, {"export", "r", "base", "--format", library});
    quantize(folder / "base", format, skipped);
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.end(), {"-c", "c.yaml", "model.from=base"});
      return more;
    };
    const auto types = [&](const char* given) {
      return test::run(folder, with({"plan", given, "adapter.name=lora", "--json", "-"})).json().at("weights");
    };
    const nlohmann::json kept = types("freeze.weights=[]"), decoded = types("freeze.weights=f32");
    CHECK(kept.contains("nf4"));
    CHECK_FALSE(decoded.contains("nf4"));
    CHECK(kept.at("f32").at("bytes").get<std::int64_t>() <
          decoded.at("f32").at("bytes").get<std::int64_t>() / (skipped.empty() ? 3 : 2));
    // The same values, in the file's bits or decoded.
    const double loss = loss_of(folder, with({}));
    CHECK(loss == doctest::Approx(loss_of(folder, with({"freeze.weights=f32"}))).epsilon(1e-5));
    CHECK(loss != loss_of(folder, {"r"}));

    test::run(folder, with({"train", "adapter={name: lora, rank: 2}", "output.dir=whole"}));
    test::run(folder, with({"train", "adapter={name: lora, rank: 2}", "output.dir=parts", "train.steps=5"}));
    test::run(folder, {"train", "--resume", "parts", "train.steps=0"});
    for (const char* const file : {"adapter_model.safetensors", "optimizer.safetensors"})
      CHECK(read_file(folder / "whole/last" / file) == read_file(folder / "parts/last" / file));
    const double trained = read_json(folder / "whole/summary.json").at("val_loss");
    CHECK(loss_of(folder, {"whole/last"}) == doctest::Approx(trained));
    for (const std::string type : {"f32", "bf16", "f16"}) {
      test::run(folder, {"export", "whole/last", type, "--dtype", type});
      const double bound = type == "f32" ? 1e-4 : 2e-2;
      CHECK(loss_of(folder, {"-c", "c.yaml", "model.from=" + type}) == doctest::Approx(trained).epsilon(bound));
      CHECK(stored_types(folder / type / "model.safetensors") == std::set<std::string>{type == "f32"    ? "F32"
                                                                                       : type == "bf16" ? "BF16"
                                                                                                        : "F16"});
    }
    test::run(folder, {"export", "base", "whole-base"});
    CHECK(loss_of(folder, {"-c", "c.yaml", "model.from=whole-base"}) == doctest::Approx(loss).epsilon(1e-5));
  }
}

TEST_CASE("train: biases, heads on features and a student learn beside weights in few bits") {
  const TemporaryFolder folder(wide_vit());
  test::run(folder, train({"train.steps=1", "output.dir=base"}));
  const std::string from = "model.from=base/last";
  // All but the biases is frozen: the checkpoint holds the codes.
  const std::vector<std::string> bit_fit{from, "freeze={train: [\"@bias\", \"@head\"], weights: nf4}"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), bit_fit.begin(), bit_fit.end());
    return train(std::move(more));
  };
  test::run(folder, with({"output.dir=whole"}));
  test::run(folder, with({"output.dir=parts", "train.steps=5"}));
  test::run(folder, {"train", "--resume", "parts", "train.steps=0"});
  check_same_checkpoint(folder, "whole", "parts");
  CHECK(stored_types(folder / "whole/last/model.safetensors").contains("nf4"));
  check_refused(folder, {"train", "--resume", "whole", "train.epochs=4", "freeze.weights=[]"}, {"freeze.weights"});
  // Trained weights would be encoded.
  test::run(folder, train({from, "freeze={train: [\"blocks.1.*\", \"@head\"], weights: nf4}", "output.dir=block"}));
  check_refused(folder, {"train", "--resume", "block", "train.epochs=4", "freeze.train=[\"@head\"]"},
                {"freeze.weights"});
  test::run(folder, {"train", "--resume", "parts", "train.epochs=4", "freeze.weights=[\"*=nf4\"]"});
  check_refused(folder, {"train", "--resume", "base", "train.epochs=4", "train.weights=bf16"}, {"train.weights"});
  CHECK(loss_of(folder, {"whole/last"}) ==
        doctest::Approx(read_json(folder / "whole/summary.json").at("val_loss").get<double>()));

  const std::string probe = "task={name: probe, rates: [0.1, 1]}";
  test::run(folder, train({from, probe, "train.clip_norm=0", "freeze.weights=int8", "output.dir=probe",
                           "optimizer={name: sgd, lr: 0.1}", "data.augment=none"}));
  CHECK(test::run(folder, {"eval", "probe/last", "--json", "-"}).json().at("val_accuracy") ==
        read_json(folder / "probe/summary.json").at("val_accuracy"));

  std::set<double> losses;
  std::map<std::string, std::int64_t> bytes;
  for (const std::string type : {"f32", "int8", "nf4"}) {
    const std::string task = "task={name: distillation, teacher_from: base/last, teacher_weights: " + type + "}";
    test::run(folder, train({task, "train.steps=2", "output.dir=student-" + type}));
    losses.insert(noted(folder / ("student-" + type)).front().at("loss").get<double>());
    bytes[type] = test::run(folder, {"plan", "-c", "c.yaml", task, "--json", "-"}).json().at("memory").at("parameters");
  }
  CHECK(losses.size() == 3);
  CHECK(bytes["nf4"] < bytes["int8"]);
  CHECK(bytes["int8"] < bytes["f32"]);
}

TEST_CASE("train: checkpoints in bf16 go on to the bits of those in f32") {
  for (const std::string more : {"train.ema_decay=0", "train.ema_decay=0.9"}) {
    const TemporaryFolder folder(vit);
    test::run(folder, train({more, "output.dir=whole"}));
    const std::string in_bf16 = "output.weights=bf16";
    test::run(folder, train({more, "output.dir=parts", in_bf16, "train.steps=5"}));
    CHECK(stored_types(folder / "parts/last/model.safetensors") == std::set<std::string>{"BF16"});
    test::run(folder, {"train", "--resume", "parts", "train.steps=0"});
    const double loss = read_json(folder / "parts/summary.json").at("val_loss");
    CHECK(loss_of(folder, {"parts/last"}) == loss);
    CHECK(loss_of(folder, {"-c", "c.yaml", "model.from=parts/last"}) == loss);
    CHECK(read_file(folder / "whole/last/optimizer.safetensors") ==
          read_file(folder / "parts/last/optimizer.safetensors"));
    CHECK(noted(folder / "whole").back() == noted(folder / "parts").back());
    // Back in f32.
    test::run(folder, {"train", "--resume", "parts", "train.epochs=4", "output.weights=f32"});
    test::run(folder, {"train", "--resume", "whole", "train.epochs=4"});
    check_same_checkpoint(folder, "whole", "parts");
    check_refusals(folder, train({"output.dir=s", in_bf16}), {{"adapter.name=lora", "output.weights"}});
  }
}

TEST_CASE("train: a base in few bits goes on to the same bits, is evaluated and merged as it was trained") {
  const std::vector<std::string> types[] = {{"freeze.weights=nf4"}, {"freeze.weights=[\"*qkv*=bf16\", int8]"}};
  for (const std::vector<std::string>& more : types) {
    const TemporaryFolder folder(wide_vit());
    test::run(folder, train({"train.steps=1", "output.dir=base"}));
    fs::copy_file(folder / "base/last/model.safetensors", folder / "base.safetensors");
    const auto with = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.end(), more.begin(), more.end());
      arguments.insert(arguments.end(), {"model.from=base.safetensors", "adapter={name: lora, rank: 2}"});
      return train(std::move(arguments));
    };
    test::run(folder, with({"output.dir=whole"}));
    test::run(folder, with({"output.dir=parts", "train.steps=5"}));
    test::run(folder, {"train", "--resume", "parts", "train.steps=0"});
    for (const char* const file : {"adapter_model.safetensors", "optimizer.safetensors"})
      CHECK(read_file(folder / "whole/last" / file) == read_file(folder / "parts/last" / file));
    const double loss = read_json(folder / "whole/summary.json").at("val_loss");
    const CommandResult evaluated = test::run(folder, {"eval", "whole/last", "--json", "-"});
    CHECK(evaluated.json().at("val_loss").get<double>() == doctest::Approx(loss));
    test::run(folder, {"export", "whole/last", "merged"});
    const CommandResult merged = test::run(folder, {"eval", "-c", "c.yaml", "model.from=merged", "--json", "-"});
    CHECK(merged.json().at("val_loss").get<double>() == doctest::Approx(loss).epsilon(1e-4));
    // On another type the adapter would mean something else.
    CHECK(read_json(folder / "whole/last/checkpoint.json").at("progress").at("identity").contains("freeze.weights"));
    check_refused(folder, {"train", "--resume", "parts", "train.epochs=4", "freeze.weights=int4"},
                  {"freeze.weights", "adapter.from"});
    check_refused(folder, {"eval", "whole/last", "freeze.weights=int4"}, {"int4"});
    const CommandResult other = test::run(
        folder, train({"train.steps=1", "output.dir=other", "model.from=base.safetensors", "adapter.from=whole/last"}));
    check_says(other.out + other.error, "the adapter was trained on weights in");
  }
}

TEST_CASE("train: types of frozen weights that have no effect are refused") {
  const TemporaryFolder folder(vit);
  check_refusals(folder, train({}),
                 {{"freeze.weights=nf4", "freeze.weights"},
                  {"freeze.weights=auto\nmemory.budget=1GiB", "auto"},
                  {"freeze.weights=f8", "f8"},
                  {"freeze.weights=auto\nadapter.name=lora", "memory.budget"},
                  {"freeze.weights=[\"blocks.0.*=nf4\"]\nadapter.name=lora", "blocks.0"}});
}

TEST_CASE("plan: a budget chooses the type of frozen weights") {
  const TemporaryFolder folder(wide_vit(256));
  const auto planned = [&](const std::string& type, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"plan",   "-c", "c.yaml", "adapter.name=lora", "freeze.weights=" + type,
                                       "--json", "-"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return test::run(folder, arguments).json();
  };
  for (const std::string type : {"f32", "bf16", "int8", "nf4"}) {
    const nlohmann::json alone = planned(type, {});
    const auto budget = alone.at("peak_in_training").get<std::int64_t>();
    const nlohmann::json chosen =
        planned("auto", {"memory.policy=auto", "memory.budget=" + std::to_string(budget + 1000) + "B"});
    CHECK(chosen.at("weights") == alone.at("weights"));
    CHECK(chosen.at("weights").contains(type));
  }
  // On a GPU the budget of `auto` is its memory.
  const auto on_card = [&](const std::string& type) {
    return planned(type, {"memory.policy=auto", "train.device=cuda", "--card", "8GiB"}).at("memory");
  };
  CHECK(on_card("auto") == on_card("f32"));
}

}  // namespace lacuna::test
