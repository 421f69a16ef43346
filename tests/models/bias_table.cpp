#include "models/io/resample.h"

#include "models/io/weights.h"
#include "models/registry.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace lacuna;

TEST_CASE("bias tables: resampled as timm's resize_rel_pos_bias_table does (make_bias_tables.py)") {
  const SafetensorsFile file(LACUNA_SOURCE_DIR "/tests/models/bias_tables.safetensors");
  const Tensor stored = file.load("stored");
  for (const auto& [height, width] : {std::pair{8, 8}, {12, 12}, {3, 3}, {6, 9}, {1, 5}}) {
    CAPTURE(height);
    CAPTURE(width);
    const std::vector<double> theirs = file.load(fmt::format("{}x{}", height, width)).to_vector();
    const std::vector<double> ours = resample_bias_table(stored, height, width, 2).to_vector();
    REQUIRE(ours.size() == theirs.size());
    double difference = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) difference = std::max(difference, std::abs(ours[i] - theirs[i]));
    CHECK(difference < 1e-5);
  }
}

TEST_CASE("bias tables: a table of other heads or of no square windows is refused") {
  CHECK_FALSE(resample_bias_table(Tensor::zeros({81, 2}, DType::f32, Device::meta), 7, 7, 3).defined());
  CHECK_FALSE(resample_bias_table(Tensor::zeros({80, 2}, DType::f32, Device::meta), 7, 7, 2).defined());
}

TEST_CASE("swin: weights of windows of another size load, with their tables resampled") {
  const auto build = [](std::int64_t image_size, std::int64_t window, std::uint64_t seed) {
    return build_model("swin",
                       {{"image_size", image_size},
                        {"embed_dim", std::int64_t{4}},
                        {"depths", std::vector<std::int64_t>{1}},
                        {"num_heads", std::vector<std::int64_t>{2}},
                        {"window_size", window},
                        {"num_classes", std::int64_t{3}}},
                       {.seed = seed});
  };
  const test::TemporaryFolder folder;
  const std::unique_ptr<Model> small = build(24, 3, 1), large = build(40, 5, 2);
  save_weights(*small, folder / "small.safetensors");
  load_weights(*large, SafetensorsFile(folder / "small.safetensors"));
  const auto named = [](const Model& model, std::string_view name) {
    for (const auto& [path, tensor] : state_of(model))
      if (path == name) return tensor;
    return Tensor();
  };
  const std::string table = "layers.0.blocks.0.attn.relative_position_bias_table";
  CHECK(named(*large, table).to_vector() == resample_bias_table(named(*small, table), 5, 5, 2).to_vector());
  CHECK(named(*large, "head.fc.weight").to_vector() == named(*small, "head.fc.weight").to_vector());
}
