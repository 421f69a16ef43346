// Decoders that bitsandbytes quantized, and adapters on them: coded_decoders.py.
#include "autograd/policy.h"
#include "autograd/tape.h"
#include "core/file.h"
#include "models/folders/folder.h"
#include "models/folders/transformers.h"
#include "models/io/adapter_folder.h"
#include "models/language_model.h"
#include "models/task.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lacuna {
namespace {

namespace fs = std::filesystem;

constexpr double most_apart = 1e-4;

/// The largest difference, in parts of the largest expected value or 1.
double apart(const Tensor& ours, const Tensor& theirs) {
  const std::vector<double> a = ours.to_vector(), b = theirs.to_vector();
  REQUIRE(a.size() == b.size());
  double difference = 0, largest = 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return difference / largest;
}

/// Rows of tokens [N, L] as packed sequences.
Batch batch_of(const SafetensorsFile& expected) {
  const Tensor ids = expected.load("input/ids"), labels = expected.load("target");
  std::vector<std::int64_t> ends;
  for (std::int64_t n = 0; n <= ids.shape()[0]; ++n) ends.push_back(n * ids.shape()[1]);
  Batch batch;
  batch.samples = ids.shape()[0];
  batch.set_packed("tokens", ids.reshape({ids.count()}));
  batch.set_packed("labels", labels.reshape({ids.count()}));
  batch.set("offsets", Tensor::from(std::span<const std::int64_t>(ends), {std::ssize(ends)}));
  return batch;
}

Tensor logits(Model& model, Batch batch) {
  const NoGrad no_grad;
  Inputs inputs(std::move(batch));
  inputs.take("labels");
  return logits_of(model.forward(std::move(inputs)), 0).tensor();
}

AdapterFolder adapter_in(const SafetensorsFile& expected, const fs::path& folder) {
  constexpr std::string_view prefix = "adapter/";
  std::vector<NamedTensor> tensors;
  for (const SafetensorsEntry& entry : expected.entries())
    if (entry.name.starts_with(prefix))
      tensors.emplace_back(entry.name.substr(prefix.size()), expected.load(entry.name));
  write_safetensors(folder / adapter_weights_file, std::move(tensors));
  write_file_atomically(folder / adapter_config_file, expected.metadata().at("adapter"));
  return AdapterFolder(folder, tensor_names_of("decoder"));
}

void check_decoder(const fs::path& path, bool as_stored) {
  const SafetensorsFile expected(path / "expected.safetensors");
  const fs::path file = path / "model.safetensors";
  for (const SafetensorsEntry& entry : expected.entries()) {
    constexpr std::string_view prefix = "dequantized/";
    if (!entry.name.starts_with(prefix)) continue;
    INFO(entry.name);
    const Tensor stored = WeightFiles(file).load(entry.name.substr(prefix.size()));
    CHECK(stored.is_coded());
    CHECK(stored.to(DType::f32).to_vector() == expected.load(entry.name).to_vector());
  }
  const std::optional<ModelFolder> folder = read_model_folder(file);
  REQUIRE(folder.has_value());
  const FolderWeights weights = open_weights(file, folder);
  ModelContext context;
  if (as_stored) context.formats = formats_of(folder->model, folder->hyper_parameters, weights);
  const std::unique_ptr<Model> model = build_model(folder->model, folder->hyper_parameters, context);
  load_weights(*model, weights.files, weights.options);
  CHECK(std::ranges::any_of(model->parameters(), [](const Parameter* one) { return one->tensor().is_coded(); }) ==
        as_stored);
  const Batch batch = batch_of(expected);
  CHECK(apart(logits(*model, batch), expected.load("base/logits")) < most_apart);

  const test::TemporaryFolder written;
  const AdapterFolder adapter = adapter_in(expected, written.path());
  add_adapters(*model, adapter.options(*model));
  const LoadedAdapter loaded = adapter.load(*model);
  freeze_below_adapters(*model, {});
  CHECK(apart(logits(*model, batch), expected.load("output/logits")) < most_apart);
  const std::unique_ptr<Task> task = make_task("causal_lm", {}, *model);
  const std::unique_ptr<MemoryPolicy> policy = make_policy("exact");
  Tape tape(*policy);
  {
    const Recording recording(tape);
    const TaskResult result = task->run(*model, batch, TaskMode::train);
    CHECK(apart(result.loss.tensor(), expected.load("output/loss")) < most_apart);
    tape.backward(result.loss);
  }
  for (const Parameter* const parameter : model->parameters()) {
    if (!parameter->trainable()) continue;
    INFO(parameter->path());
    CHECK(apart(parameter->grad(), expected.load("grad/" + loaded.names.at(parameter->path()))) < most_apart);
  }
}

}  // namespace

TEST_CASE("coded decoders: what bitsandbytes quantized has its values, logits and gradients of adapters") {
  for (const auto& entry : fs::directory_iterator(fs::path(LACUNA_SOURCE_DIR) / "tests/models/coded_decoders"))
    for (const bool as_stored : {false, true}) {
      CAPTURE(entry.path().filename().string());
      CAPTURE(as_stored);
      check_decoder(entry.path(), as_stored);
    }
}

}  // namespace lacuna
