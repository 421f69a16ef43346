// Weights in few bits in files: a round trip keeps every bit, and parts that contradict each other are refused.
#include "core/coded/maps.h"
#include "core/ledger.h"
#include "core/random.h"
#include "models/io/coded_entries.h"
#include "models/io/halves.h"
#include "models/io/weights.h"
#include "nn/weight_formats.h"
#include "tests/models/tiny_models.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <functional>

using namespace lacuna;
using namespace lacuna::test;

namespace {

Tensor drawn(const Shape& shape, const WeightFormat& format) {
  const RandomStream stream{.seed = 1, .step = 0, .site = 2};
  std::vector<float> values(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = stream.uniform(i) - 0.5F;
  const Tensor coded = Tensor::coded(shape, format, Device::cpu);
  coded.copy_from(Tensor::from(std::span<const float>(values), shape));
  return coded;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), static_cast<std::size_t>(a.bytes())) == 0;
}

}  // namespace

TEST_CASE("weights in few bits are read as they were written") {
  const TemporaryFolder folder;
  for (const Shape& shape : {Shape{7, 37}, Shape{130, 130}, Shape{8, 4, 3, 3}}) {
    const std::int64_t row = shape.count() / shape.front();
    const WeightFormat plain{.code = WeightCode::nf4, .rounding = DType::bf16, .block = 64};
    for (const WeightFormat& format :
         {format_in_8_bits(row), format_in_4_bits(WeightCode::nf4), format_in_4_bits(WeightCode::int4), plain}) {
      CAPTURE(name_of(format.code));
      const Tensor coded = drawn(shape, format);
      write_safetensors(folder / "w.safetensors",
                        {{"layer.weight", coded}, {"layer.bias", Tensor::zeros({3}, DType::f32, Device::cpu)}});
      const WeightFiles files(folder / "w.safetensors");
      REQUIRE(files.entries().size() == 2);
      const SafetensorsEntry* const entry = files.find("layer.weight");
      REQUIRE(entry != nullptr);
      CHECK(entry->shape == shape);
      CHECK(entry->format == format);
      CHECK(same_bytes(files.load("layer.weight"), coded));
    }
    // bf16 is a type of the file's own.
    write_safetensors(folder / "b.safetensors", {{"layer.weight", drawn(shape, {})}});
    CHECK(WeightFiles(folder / "b.safetensors").load("layer.weight").dtype() == DType::bf16);
  }
}

TEST_CASE("parts of a weight in few bits that do not fit each other are refused") {
  const TemporaryFolder folder;
  const Tensor coded = drawn({16, 64}, format_in_4_bits(WeightCode::nf4));
  const std::string name = "layer.weight";
  const auto refuses = [&](const std::function<void(std::vector<StoredPart>&)>& change, std::string_view word) {
    std::vector<StoredPart> parts = stored_parts(name, coded);
    change(parts);
    std::vector<NamedTensor> tensors;
    for (const StoredPart& part : parts) tensors.emplace_back(part.name, part.tensor);
    write_safetensors(folder / "w.safetensors", tensors);
    CAPTURE(word);
    check_says(refusal_of([&] { const WeightFiles files(folder / "w.safetensors"); }), word);
  };
  const auto part = [](std::vector<StoredPart>& parts, std::string_view end) -> StoredPart& {
    for (StoredPart& one : parts)
      if (one.name.ends_with(end)) return one;
    FAIL("no part ", end);
    return parts.front();
  };
  const auto state = [&](std::vector<StoredPart>& parts, std::string_view from, const std::string& to) {
    StoredPart& one = part(parts, "__nf4");
    std::string json(reinterpret_cast<const char*>(one.tensor.data<const std::byte>()),
                     static_cast<std::size_t>(one.tensor.bytes()));
    json.replace(json.find(from), from.size(), to);
    one.tensor = Tensor::empty({static_cast<std::int64_t>(json.size())}, DType::u8, Device::cpu);
    std::memcpy(one.tensor.raw(), json.data(), json.size());
  };
  for (const char* const end : {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"})
    refuses([&](auto& parts) { std::erase_if(parts, [&](const StoredPart& one) { return one.name == name + end; }); },
            end);
  refuses([&](auto& parts) { part(parts, ".weight.quant_map").tensor.fill(0.5); }, "quant_map");
  refuses([&](auto& parts) { part(parts, ".weight.absmax").tensor = Tensor::zeros({3}, DType::u8, Device::cpu); },
          "blocks of 64");
  refuses([&](auto& parts) { state(parts, "[16,64]", "[16,65]"); }, "[16, 65]");
  refuses([&](auto& parts) { state(parts, "[16,64]", "[16,-64]"); }, "shape");
  refuses([&](auto& parts) { state(parts, "\"blocksize\":64", "\"blocksize\":0"); }, "block sizes");
  refuses([&](auto& parts) { state(parts, "float32", "float8"); }, "float8");
  refuses([&](auto& parts) { state(parts, "{", "["); }, "JSON");
  refuses([&](auto& parts) { part(parts, "__nf4").name = name + ".quant_state.other__nf5"; }, "not known");
}

TEST_CASE("files of converted weights are written tensor by tensor, and refuse what their type cannot hold") {
  const TemporaryFolder folder;
  const std::unique_ptr<Model> model = build_model("vit_tiny_patch16_224", {}, {});
  std::int64_t largest = 0;
  for (const Parameter* const parameter : model->parameters()) largest = std::max(largest, parameter->tensor().bytes());
  Ledger& account = ledger(Device::cpu);
  const auto extra = [&](const std::function<void()>& write) {
    const std::int64_t before = account.total();
    account.reset_peak();
    write();
    return account.peak() - before;
  };
  CHECK(extra([&] { save_halves(*model, folder.path()); }) <= largest);
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    CHECK(extra([&] { save_weights(*model, folder / "w.safetensors", type); }) <= 2 * largest);
  const WeightFiles files(folder / "model.safetensors");
  for (const auto& [name, tensor] : state_of(*model)) CHECK(same_bytes(files.load(name), tensor));

  const Tensor& bias = model->parameters().back()->tensor();
  bias.fill(3.4e38);
  for (const DType type : {DType::bf16, DType::f16})
    CHECK_THROWS_WITH_AS(save_weights(*model, folder / "r.safetensors", type), doctest::Contains("cannot hold"), Error);
}

TEST_CASE("halves that were written with other weights are refused") {
  const TemporaryFolder folder;
  const auto save = [&](std::uint64_t seed) {
    std::unique_ptr<Model> model = build_model(tiny_vit().name, tiny_vit().hyper_parameters, {.seed = seed});
    save_halves(*model, folder.path());
    return model;
  };
  const auto model = save(1);
  CHECK(WeightFiles(folder.path()).load("head.weight").dtype() == DType::f32);
  const std::string low = read_file(folder / "low_halves.safetensors");
  save(2);
  write_file(folder / "low_halves.safetensors", low);
  check_says(refusal_of([&] { WeightFiles(folder.path()); }), "low_halves.safetensors");
  save_weights(*model, folder / "model.safetensors", DType::bf16);  // another program's file
  check_says(refusal_of([&] { WeightFiles(folder.path()); }), "low_halves.safetensors");
  std::filesystem::remove(folder / "low_halves.safetensors");
  CHECK(WeightFiles(folder.path()).load("head.weight").dtype() == DType::bf16);
}

TEST_CASE("loading weights in few bits holds no more than one tensor in f32 and its copy above the result") {
  const TemporaryFolder folder;
  const Description description = tiny_vit({{"embed_dim", 96}, {"depth", 12}});
  const auto make = [&](const ModelContext& context) {
    return build_model(description.name, description.hyper_parameters, context);
  };
  save_weights(*make({}), folder / "w.safetensors");
  const std::unique_ptr<Model> shape = make({.device = Device::meta});
  std::int64_t largest = 0;
  for (Parameter* const parameter : shape->parameters()) {
    parameter->set_trainable(false);
    largest = std::max(largest, parameter->tensor().bytes());
  }
  const std::string type = "nf4";
  const auto formats = std::make_shared<const WeightFormats>(weight_formats(*shape, {std::span(&type, 1)}));
  Ledger& account = ledger(Device::cpu);
  const std::int64_t before = account.total();
  account.reset_peak();
  const std::unique_ptr<Model> model = make({.formats = formats});
  load_weights(*model, WeightFiles(folder / "w.safetensors"));
  const std::int64_t result = account.total() - before;
  CHECK(result < 6 * largest);  // 12 blocks in f32 have 36
  CHECK(account.peak() - before <= result + 2 * largest);
}
