// Adapters exchanged with the library PEFT, on models of timm and of transformers.
#include "core/file.h"
#include "models/adapters.h"
#include "models/folders/transformers.h"
#include "models/io/adapter_folder.h"
#include "models/io/weights.h"
#include "models/registry.h"
#include "tests/models/tiny_models.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

using namespace lacuna;
using namespace lacuna::test;

namespace {

double relative_difference(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_vector(), y = b.to_vector();
  REQUIRE(x.size() == y.size());
  double difference = 0, magnitude = 1;
  for (std::size_t i = 0; i < x.size(); ++i) {
    difference = std::max(difference, std::abs(x[i] - y[i]));
    magnitude = std::max(magnitude, std::abs(y[i]));
  }
  return difference / magnitude;
}

}  // namespace

TEST_CASE("adapter folders: PEFT gives the same logits, in both directions") {
  const char* const python = std::getenv("PYTHON");
  const std::string script = LACUNA_SOURCE_DIR "/tests/models/peft_round_trip.py";
  const std::string program = std::string(python == nullptr ? "python3" : python) + " ";
  if (std::system((program + "-c 'import peft, timm, transformers' 2>/dev/null").c_str()) != 0) {
    MESSAGE("skipped: PEFT is not installed");
    return;
  }
  for (const std::string name :
       {"timm-vit", "timm-resnet", "timm-groups", "hf-vit", "hf-deit", "hf-swin", "hf-resnet"}) {
    INFO(name);
    const TemporaryFolder folder;
    const auto run = [&](const std::string& command) {
      const std::string line = fmt::format("{}{} {} {} {} > {} 2> {}", program, script, command, folder.path(), name,
                                           (folder / "out").string(), (folder / "log").string());
      const int code = std::system(line.c_str());
      REQUIRE_MESSAGE(code == 0, read_file(folder / "log"));
    };
    run("make");
    const std::optional<ModelFolder> base = read_model_folder(folder / "base");
    REQUIRE(base);
    const std::unique_ptr<Model> model = build_model(base->model, base->hyper_parameters, {.training = false});
    const FolderWeights weights = open_weights(folder / "base", base);
    load_weights(*model, weights.files, weights.options);
    const AdapterFolder theirs(folder / "theirs",
                               tensor_names_of(describe_model(base->model, base->hyper_parameters).family));
    add_adapters(*model, theirs.options(*model));
    theirs.load(*model);
    freeze_below_adapters(*model, {});
    const SafetensorsFile expected(folder / "theirs.safetensors");
    const auto now = [&] { return logits_of(*model, Variable(expected.load("images"))).tensor(); };
    CHECK(relative_difference(now(), expected.load("logits")) < 1e-5);

    for (const nn::Adaptable* const layer : adapted_layers(*model))
      for (const Parameter* const parameter : layer->adapter()->parameters())
        for (std::int64_t i = 0; i < parameter->tensor().count(); ++i) parameter->tensor().data<float>()[i] *= 1.5F;
    std::filesystem::create_directory(folder / "ours");
    const bool of_timm = base->library == Library::timm;
    write_adapter(folder / "ours", *model, of_timm ? nullptr : transformers_files(*model, *base).names);
    write_safetensors(folder / "ours.safetensors", {{"logits", now()}});
    const bool merges = name != "timm-groups";
    if (merges) {
      const std::unique_ptr<Model> plain = build_model(base->model, base->hyper_parameters, {.training = false});
      merge(*model, *plain);
      write_model_folder(folder / "merged", *plain, *base, base->library);
    }
    run("check");
    std::istringstream out(read_file(folder / "out"));
    for (int i = 0; i < (merges ? 2 : 1); ++i) {
      double difference = 1;
      REQUIRE(static_cast<bool>(out >> difference));
      CHECK(difference < 1e-5);
    }
  }
}
