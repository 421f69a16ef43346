#include "apps/checkpoint.h"

#include "core/file.h"
#include "models/weights.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include <xxhash.h>

namespace lacuna::apps {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::string_view optimizer_file = "optimizer.safetensors";
constexpr std::string_view manifest_file = "checkpoint.json";

std::string hash_of(const fs::path& file) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::ifstream stream(file, std::ios::binary);
  std::array<char, 1 << 16> block;
  while (stream.read(block.data(), block.size()) || stream.gcount() > 0)
    XXH3_64bits_update(state.get(), block.data(), static_cast<std::size_t>(stream.gcount()));
  if (!stream.eof()) reject("cannot read {}", file.string());
  return fmt::format("{:016x}", XXH3_64bits_digest(state.get()));
}

ordered_json to_json(const std::optional<Evaluation>& evaluation) {
  if (!evaluation) return nullptr;
  return {{"loss", evaluation->loss}, {"accuracy", evaluation->accuracy}, {"samples", evaluation->samples}};
}

std::optional<Evaluation> evaluation_from(const ordered_json& json) {
  if (json.is_null()) return {};
  return Evaluation{json.at("loss"), json.at("accuracy"), json.at("samples")};
}

ordered_json to_json(const Place& place) {
  return {{"step", place.step},          {"epochs_evaluated", place.epochs_evaluated},
          {"loss_sum", place.loss_sum},  {"correct", place.correct},
          {"samples", place.samples},    {"train_loss", place.train_loss},
          {"last", to_json(place.last)}, {"best", to_json(place.best)}};
}

Place place_from(const ordered_json& json) {
  return {.step = json.at("step"),
          .epochs_evaluated = json.at("epochs_evaluated"),
          .loss_sum = json.at("loss_sum"),
          .correct = json.at("correct"),
          .samples = json.at("samples"),
          .train_loss = json.at("train_loss"),
          .last = evaluation_from(json.at("last")),
          .best = evaluation_from(json.at("best"))};
}

ordered_json read_manifest(const fs::path& folder) {
  const fs::path path = folder / manifest_file;
  std::ifstream stream(path);
  if (!stream) reject("{} holds no checkpoint: there is no {}", folder.string(), manifest_file);
  try {
    return ordered_json::parse(stream);
  } catch (const nlohmann::json::exception& error) {
    reject("{}: {}", path.string(), error.what());
  }
}

void write_manifest(const fs::path& folder, const Place& place, const ordered_json& files) {
  const ordered_json manifest = {{"place", to_json(place)}, {"files", files}};
  write_file_atomically(folder / manifest_file, manifest.dump(2) + "\n");
}

/// The files of a checkpoint that is as it was written; refuses any other.
Place checked_place(const fs::path& folder, const ordered_json& manifest) {
  try {
    for (const auto& [name, hash] : manifest.at("files").items())
      if (hash_of(folder / name) != hash.get<std::string>())
        reject("{} has changed since it was written: its hash is another", (folder / name).string());
    return place_from(manifest.at("place"));
  } catch (const nlohmann::json::exception& error) {
    reject("{}: {}", (folder / manifest_file).string(), error.what());
  }
}

}  // namespace

void write_checkpoint(const fs::path& folder, const Model& model, const Optimizer& optimizer, const Place& place) {
  if (fs::exists(folder)) {
    const ordered_json manifest = read_manifest(folder);
    expect(checked_place(folder, manifest).step == place.step, "{} is not of step {}", folder.string(), place.step);
    return write_manifest(folder, place, manifest.at("files"));
  }
  fs::path temporary = folder;
  temporary += ".tmp";
  std::error_code failed;
  fs::remove_all(temporary, failed);
  if (!fs::create_directories(temporary, failed)) reject("cannot create {}: {}", temporary.string(), failed.message());
  try {
    save_weights(model, temporary / weights_file);
    std::vector<NamedTensor> state;
    for (Optimizer::StateTensor& one : optimizer.state())
      state.emplace_back(std::move(one.name), std::move(one.tensor));
    write_safetensors(temporary / optimizer_file, std::move(state));
    ordered_json files;
    for (const std::string_view name : {weights_file, optimizer_file})
      files[std::string(name)] = hash_of(temporary / name);
    write_manifest(temporary, place, files);
    fs::rename(temporary, folder);
  } catch (...) {
    fs::remove_all(temporary, failed);
    throw;
  }
  sync_folder(folder.parent_path());
}

Place read_place(const fs::path& folder) { return checked_place(folder, read_manifest(folder)); }

Place load_checkpoint(const fs::path& folder, Model& model, Optimizer& optimizer) {
  const Place place = read_place(folder);
  load_weights(model, SafetensorsFile(folder / weights_file));
  const SafetensorsFile file(folder / optimizer_file);
  for (const Optimizer::StateTensor& state : optimizer.state()) {
    const SafetensorsEntry* const entry = file.find(state.name);
    if (entry == nullptr || entry->shape != state.tensor.shape())
      reject("{}: expected {} {}, got {}: was this run trained with another optimizer or other frozen parameters?",
             file.path().string(), state.name, state.tensor.shape(),
             entry == nullptr ? "nothing" : to_string(entry->shape));
    state.tensor.copy_from(file.load(state.name));
  }
  return place;
}

}  // namespace lacuna::apps
