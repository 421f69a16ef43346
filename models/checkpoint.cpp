#include "models/checkpoint.h"

#include "autograd/policy.h"
#include "core/collectives.h"
#include "core/file.h"
#include "models/folders/folder.h"
#include "models/io/adapter_folder.h"
#include "models/io/halves.h"
#include "models/io/json_fields.h"
#include "models/io/weights.h"

#include <fmt/ranges.h>

#include <fcntl.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include <xxhash.h>

namespace lacuna {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::string_view optimizer_file = "optimizer.safetensors";
constexpr std::string_view memory_file = "memory.safetensors";  // state of the memory policy

/// The files of a checkpoint without an average. A model with adapters leaves out its base weights.
std::vector<std::string> content_files(bool adapted) {
  std::vector<std::string> files{std::string(optimizer_file), std::string(memory_file)};
  if (!adapted) files.emplace_back(weights_file);
  if (adapted) files.insert(files.end(), {std::string(adapter_weights_file), std::string(adapter_config_file)});
  return files;
}

/// The files of the averaged weights.
std::vector<std::string> average_files(bool adapted) {
  if (!adapted) return {std::string(average_file)};
  return {fmt::format("{}/{}", average_folder, adapter_weights_file),
          fmt::format("{}/{}", average_folder, adapter_config_file)};
}

/// The low halves beside weights in bf16, in both folders.
std::vector<std::string> low_halves(bool averaged) {
  std::vector<std::string> files{std::string(low_halves_file)};
  if (averaged) files.push_back(fmt::format("{}/{}", average_folder, low_halves_file));
  return files;
}

constexpr std::int64_t format = 2;             // of checkpoint.json; raised when its meaning changes
const LoadOptions as_saved{.as_saved = true};  // a run goes on with its own weights, not with ones made to fit

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

std::map<std::string, double> numbers_in(const ordered_json& json, const char* key, std::string_view origin) {
  std::map<std::string, double> numbers;
  const ordered_json& object = object_in(json, key, origin);
  for (const auto& entry : object.items()) numbers[entry.key()] = number_in(object, entry.key().c_str(), origin);
  return numbers;
}

ordered_json to_json(const std::optional<Evaluation>& evaluation) {
  if (!evaluation) return nullptr;
  return {{"loss", evaluation->loss}, {"metrics", evaluation->metrics}, {"samples", evaluation->samples}};
}

std::optional<Evaluation> evaluation_in(const ordered_json& json, const char* key, std::string_view origin) {
  const ordered_json& value = field(json, key, origin);
  if (value.is_null()) return {};
  return Evaluation{number_in(value, "loss", origin), numbers_in(value, "metrics", origin),
                    count_in(value, "samples", origin)};
}

TaskTotals totals_in(const ordered_json& json, const char* key, std::string_view origin) {
  const ordered_json& value = field(json, key, origin);
  TaskTotals totals{.loss_sum = number_in(value, "loss_sum", origin), .samples = count_in(value, "samples", origin)};
  // Earlier checkpoints weigh losses by samples.
  totals.weight = value.contains("weight") ? number_in(value, "weight", origin) : static_cast<double>(totals.samples);
  const auto read_numbers = [&](const char* name, std::map<std::string, std::vector<double>>& by_metric) {
    for (const auto& [metric, numbers] : object_in(value, name, origin).items()) {
      if (!numbers.is_array() ||
          !std::ranges::all_of(numbers, [](const ordered_json& each) { return each.is_number(); }))
        reject("{}: expected the {} of `{}` to be a list of numbers", origin, name, metric);
      by_metric[metric] = numbers.get<std::vector<double>>();
    }
  };
  read_numbers("sums", totals.sums);
  if (value.contains("kept")) read_numbers("kept", totals.kept);  // since 0.2
  return totals;
}

ordered_json to_json(const Progress& progress) {
  const TaskTotals& totals = progress.totals;
  return {{"step", progress.step},
          {"epochs_evaluated", progress.epochs_evaluated},
          {"totals",
           {{"loss_sum", totals.loss_sum},
            {"weight", totals.weight},
            {"samples", totals.samples},
            {"sums", totals.sums},
            {"kept", totals.kept}}},
          {"train_loss", progress.train_loss},
          {"evaluated", progress.evaluated},
          {"last", to_json(progress.last)},
          {"best", to_json(progress.best)},
          {"best_epoch", progress.best_epoch},
          {"identity", progress.identity}};
}

Progress progress_in(const ordered_json& manifest, std::string_view origin) {
  const ordered_json& json = field(manifest, "progress", origin);
  Progress progress{.step = count_in(json, "step", origin),
                    .epochs_evaluated = count_in(json, "epochs_evaluated", origin),
                    .totals = totals_in(json, "totals", origin),
                    .train_loss = number_in(json, "train_loss", origin),
                    .last = evaluation_in(json, "last", origin),
                    .best = evaluation_in(json, "best", origin),
                    .identity = texts_in(json, "identity", origin)};
  // Checkpoints were evaluated at the ends of epochs alone before this was written down.
  progress.evaluated = json.contains("evaluated")     ? count_in(json, "evaluated", origin)
                       : progress.totals.samples == 0 ? progress.step
                                                      : 0;
  // Earlier checkpoints do not say it: patience begins with them.
  progress.best_epoch = json.contains("best_epoch") ? count_in(json, "best_epoch", origin) : progress.epochs_evaluated;
  if (progress.epochs_evaluated > progress.step)
    reject("{}: {} epochs cannot end within {} steps", origin, progress.epochs_evaluated, progress.step);
  return progress;
}

void write_manifest(const fs::path& folder, const Manifest& manifest) {
  const ordered_json json = {{"format", format}, {"progress", to_json(manifest.progress)}, {"files", manifest.files}};
  write_file_atomically(folder / manifest_file, json.dump(2) + "\n");
}

/// The manifest of a checkpoint that is as it was written; refuses any other.
Manifest checked_manifest(const fs::path& folder) {
  Manifest manifest = read_manifest(folder);
  for (const auto& [name, hash] : manifest.files)
    if (hash_of(folder / name) != hash)
      reject("{} has changed since it was written: its hash is another", (folder / name).string());
  return manifest;
}

/// The parameter that a tensor of an optimizer's state belongs to.
std::string parameter_of(const std::string& state_name) { return state_name.substr(0, state_name.rfind('.')); }

/// Refuses the state of another optimizer; returns for how many parameters the file has none.
std::int64_t check_state(const SafetensorsFile& file, const Model& model, const Optimizer& optimizer) {
  std::set<std::string> stored, frozen, anew, known;  // `frozen`, or another rank's
  for (const SafetensorsEntry& entry : file.entries()) stored.insert(parameter_of(entry.name));
  for (const Parameter* parameter : model.parameters())
    if (!parameter->trainable() || !optimizer.holds(*parameter)) frozen.insert(parameter->path());
  std::string differences;
  bool other_names = false;
  for (const auto& [name, tensor] : optimizer.state()) {
    known.insert(name);
    const SafetensorsEntry* const entry = file.find(name);
    if (entry == nullptr && parameter_of(name) == Optimizer::loss_scale_name) continue;  // it begins anew
    if (entry == nullptr && !stored.contains(parameter_of(name))) {
      anew.insert(parameter_of(name));
    } else if (entry == nullptr || entry->dtype != tensor.dtype() || !(entry->shape == tensor.shape())) {
      other_names = other_names || entry == nullptr;
      differences += fmt::format("\n  {}: expected {} {}, got {}", name, name_of(tensor.dtype()), tensor.shape(),
                                 entry == nullptr ? "nothing" : entry->stored_dtype + " " + to_string(entry->shape));
    }
  }
  frozen.emplace(Optimizer::loss_scale_name);  // of f16: a run goes on in another precision without it
  for (const SafetensorsEntry& entry : file.entries())
    if (!known.contains(entry.name) && !frozen.contains(parameter_of(entry.name))) {
      other_names = true;
      differences += fmt::format("\n  {}: expected nothing, got {} {}", entry.name, entry.stored_dtype, entry.shape);
    }
  if (!differences.empty())
    reject("{}: {}, which this run cannot go on from:{}", file.path().string(),
           other_names ? "this is the state of another optimizer" : "optimizer.state was another when this was written",
           first_lines(differences));
  return std::ssize(anew);
}

/// Names begin with the policy's: another policy finds none.
std::string state_prefix(const MemoryPolicy& policy) { return std::string(policy.name()) + ": "; }

std::vector<NamedTensor> state_of(const MemoryPolicy& policy) {
  std::vector<NamedTensor> state;
  for (auto& [name, tensor] : policy.state()) state.emplace_back(state_prefix(policy) + name, tensor);
  return state;
}

/// Restores the policy's state if it is the same policy; another one begins anew.
void load_state(const SafetensorsFile& file, MemoryPolicy& policy) {
  const std::string prefix = state_prefix(policy);
  std::map<std::string, Tensor> state;
  for (const SafetensorsEntry& entry : file.entries())
    if (entry.name.starts_with(prefix)) state.emplace(entry.name.substr(prefix.size()), file.load(entry.name));
  try {
    policy.set_state(state);
  } catch (const Error& error) {
    throw Error(error.fault(), fmt::format("{}: {}", file.path().string(), error.what()));
  }
}

}  // namespace

Manifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / manifest_file;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) reject("{} holds no checkpoint: there is no {}", folder.string(), manifest_file);
  return parse_manifest(std::string{std::istreambuf_iterator<char>(stream), {}}, path.string());
}

Manifest parse_manifest(std::string_view text, std::string_view origin) {
  const ordered_json json = ordered_json::parse(text, nullptr, false);
  if (json.is_discarded()) reject("{} is no JSON: it has changed since it was written", origin);
  if (const std::int64_t version = count_in(json, "format", origin); version != format)
    reject(
        "{}: expected a checkpoint of format {}, got one of format {}: another version of Lacuna wrote it. Its weights "
        "can be trained on as a new run: model.from={}",
        origin, format, version, fs::path(origin).parent_path().string());
  Manifest manifest{progress_in(json, origin), texts_in(json, "files", origin)};
  const bool adapted = manifest.files.contains(std::string(adapter_weights_file));
  const std::vector<std::string> expected = content_files(adapted), averages = average_files(adapted);
  std::set<std::string, std::less<>> others;
  for (const auto& [name, hash] : manifest.files) others.insert(name);
  const auto take = [&](const std::vector<std::string>& names) {
    if (!std::ranges::all_of(names, [&](const std::string& name) { return others.contains(name); })) return false;
    for (const std::string& name : names) others.erase(name);
    return true;
  };
  const bool whole = take(expected);
  const bool averaged = take(averages);
  if (!averaged) take({std::string(former_average_file)});
  take(low_halves(averaged));
  take({std::string(heads_file)});
  if (!whole || !others.empty())
    reject("{}: expected `files` to name {}, perhaps {}, and nothing else", origin, fmt::join(expected, ", "),
           fmt::join(averages, ", "));
  return manifest;
}

namespace {

/// In the place of a checkpoint that is there, at one moment where the file system can exchange folders.
void move_into_place(const fs::path& temporary, const fs::path& folder) {
  std::error_code failed;
  if (fs::exists(folder / manifest_file, failed)) {
    if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) == 0) {
      fs::remove_all(temporary, failed);
      return;
    }
    fs::remove_all(folder, failed);
  }
  fs::rename(temporary, folder, failed);
  if (failed) reject("cannot move a checkpoint to {}: {}", folder.string(), failed.message());
}

/// The state of the optimizer. Where each rank has a part of it, each writes its own into one file; rank 0 says which.
void write_optimizer(const fs::path& file, const TrainedState& state) {
  std::vector<NamedTensor> mine;
  for (Optimizer::StateTensor& one : state.optimizer.state())
    mine.emplace_back(std::move(one.name), std::move(one.tensor));
  if (!state.optimizer.is_sharded()) return write_safetensors(file, std::move(mine));
  Communicator& ranks = state.ranks;
  ranks.describe("checkpoint");
  std::vector<TensorDescription> descriptions, all;
  for (const auto& [name, tensor] : mine) descriptions.push_back({name, tensor.dtype(), tensor.shape(), {}});
  for (const std::string& of_rank : all_gather_texts(ranks, to_json(descriptions)))
    std::ranges::move(parse_descriptions(of_rank), std::back_inserter(all));
  const SafetensorsLayout layout = safetensors_layout(std::move(all));
  const fs::path path = broadcast_text(ranks, ranks.rank() == 0 ? fs::absolute(file).string() : "");
  if (ranks.rank() == 0) write_part(path, layout, mine, true);
  ranks.barrier();
  if (ranks.rank() != 0) write_part(path, layout, mine, false);
  ranks.barrier();
}

}  // namespace

void write_checkpoint(const fs::path& folder, const TrainedState& state, const Progress& progress) {
  if (state.ranks.rank() != 0) {
    if (state.average != nullptr && state.average->is_sharded())
      const WeightAverage::Exchange shared(state.average);  // rank 0 writes it
    if (state.optimizer.is_sharded()) write_optimizer({}, state);
    return;
  }
  const fs::path temporary = make_folder_beside(folder);
  std::error_code failed;
  try {
    Manifest manifest{progress, {}};
    const auto note = [&](std::string_view name) { manifest.files.emplace(name, hash_of(temporary / name)); };
    const bool adapted = state.model.adaptation().has_value();
    const auto save = [&](const fs::path& into) {
      fs::create_directories(into);
      write_texts(into, state.texts);
      if (adapted) return write_adapter(into, state.model);
      if (state.classifier != nullptr) return save_weights(*state.classifier, into / weights_file, state.stored);
      if (state.stored == DType::f32) return save_weights(state.model, into / weights_file);
      save_halves(state.model, into);
    };
    save(temporary);
    if (state.classifier != nullptr) {
      save_weights(state.model, temporary / heads_file);
      note(heads_file);
    }
    if (state.average != nullptr) {
      const WeightAverage::Exchange exchange(state.average);
      save(temporary / average_folder);
      for (const std::string& name : average_files(adapted)) note(name);
      sync_folder(temporary / average_folder);
    }
    if (!adapted && state.classifier == nullptr && state.stored != DType::f32)
      for (const std::string& name : low_halves(state.average != nullptr)) note(name);
    write_optimizer(temporary / optimizer_file, state);
    write_safetensors(temporary / memory_file, state_of(state.policy));
    for (const std::string& name : content_files(adapted)) note(name);
    write_manifest(temporary, manifest);
    move_into_place(temporary, folder);
  } catch (...) {
    fs::remove_all(temporary, failed);
    throw;
  }
  sync_folder(folder.parent_path());
}

void update_progress(const fs::path& folder, const Progress& progress) {
  Manifest manifest = checked_manifest(folder);
  expect(manifest.progress.step == progress.step, "{} is not of step {}", folder.string(), progress.step);
  manifest.progress = progress;
  write_manifest(folder, manifest);
}

Progress read_progress(const fs::path& folder) { return checked_manifest(folder).progress; }

bool is_whole(const fs::path& folder) {
  try {
    checked_manifest(folder);
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool is_damaged(const fs::path& folder) {
  std::ifstream stream(folder / manifest_file, std::ios::binary);
  const ordered_json json =
      ordered_json::parse(std::string{std::istreambuf_iterator<char>(stream), {}}, nullptr, false);
  const bool other_version = json.is_object() && json.contains("format") && json["format"] != format;
  return !other_version && !is_whole(folder);
}

LoadedCheckpoint load_checkpoint(const fs::path& folder, const TrainedState& state) {
  const Manifest manifest = checked_manifest(folder);
  const bool adapted = manifest.files.contains(std::string(adapter_weights_file));
  if (adapted != state.model.adaptation().has_value())
    reject("{}: expected a checkpoint {} adapters, got one {}", folder.string(), adapted ? "without" : "with",
           adapted ? "with" : "without");
  const auto kept = [&](std::string_view name) { return manifest.files.contains(std::string(name)); };
  // A folder, or of an earlier checkpoint a file.
  const fs::path average = kept(average_files(adapted).front()) ? folder / average_folder
                           : kept(former_average_file)          ? folder / former_average_file
                                                                : folder / (adapted ? "" : weights_file);
  const std::string_view trained_file = state.classifier != nullptr ? heads_file : weights_file;
  const SafetensorsFile optimizer(folder / optimizer_file);
  const auto file_of = [&](const fs::path& from) { return fs::is_directory(from) ? from / trained_file : from; };
  const auto check = [&](const fs::path& from) {
    if (adapted)
      AdapterFolder(from).check(state.model);
    else
      check_weights(state.model, WeightFiles(file_of(from)), as_saved);
  };
  const auto load = [&](const fs::path& from) {
    if (adapted)
      AdapterFolder(from).load(state.model);
    else
      load_weights(state.model, WeightFiles(file_of(from)), as_saved);
  };
  // All is judged before anything changes; the policy judges its state as it takes it.
  check(folder);
  if (state.average != nullptr) check(average);
  std::int64_t started_anew = check_state(optimizer, state.model, state.optimizer);
  if (state.optimizer.is_sharded()) started_anew = sum_of_ranks(state.ranks, started_anew);
  load_state(SafetensorsFile(folder / memory_file), state.policy);
  if (state.average != nullptr) {  // first: what is frozen by now has no average, and takes its weights below
    const WeightAverage::Exchange exchange(state.average);
    load(average);
  }
  load(folder);
  for (const auto& [name, tensor] : state.optimizer.state())
    if (optimizer.contains(name)) tensor.copy_from(optimizer.load(name));
  return {manifest.progress, started_anew};
}

}  // namespace lacuna
