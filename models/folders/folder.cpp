#include "models/folders/folder.h"

#include "core/file.h"
#include "models/folders/timm.h"
#include "models/folders/transformers.h"
#include "models/task.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace lacuna {

namespace fs = std::filesystem;

std::optional<ModelFolder> read_model_folder(const fs::path& path) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  const fs::path file = (is_folder ? path : path.parent_path()) / "config.json";
  const auto json = read_json_object(file);
  if (!json) return {};
  if (!is_folder && !json->contains("architecture") && !json->contains("model_type"))
    return {};  // about something else
  return describe_config(*json, file);
}

ModelFolder describe_config(const nlohmann::ordered_json& config, const fs::path& origin) {
  ModelFolder folder =
      is_timm_config(config) ? read_timm_config(config, origin) : read_transformers_config(config, origin);
  const Tree* const classes = find_value(folder.hyper_parameters, "num_classes");
  if (!folder.labels.empty() && classes != nullptr && *classes != Tree(std::ssize(folder.labels))) {
    folder.notes.push_back(
        fmt::format("{} names of labels for {} classes are left out", folder.labels.size(), to_yaml(*classes)));
    folder.labels.clear();
  }
  return folder;
}

void require_head(const ModelFolder& folder, const std::vector<HyperParameter>& values) {
  const Tree* const head = find_value(values, "head");
  if (head == nullptr) return;
  if (const auto found = folder.refused.find(head->text); found != folder.refused.end()) reject("{}", found->second);
}

namespace {

constexpr std::pair<std::string_view, std::string_view> peft_tasks[] = {{"classification", "SEQ_CLS"},
                                                                        {"tokens", "TOKEN_CLS"},
                                                                        {"span", "QUESTION_ANS"},
                                                                        {"embedding", "FEATURE_EXTRACTION"},
                                                                        {"causal_lm", "CAUSAL_LM"}};

}  // namespace

std::string_view peft_task_of(std::string_view head) {
  for (const auto& [ours, theirs] : peft_tasks)
    if (ours == head) return theirs;
  return {};
}

std::string_view head_of_peft_task(std::string_view task_type, std::string_view origin) {
  for (const auto& [ours, theirs] : peft_tasks)
    if (theirs == task_type) return ours;
  if (!task_type.empty())
    reject("{}: expected a model of classes, answers, embeddings or next tokens, got {}", origin, task_type);
  return {};
}

std::string task_of(const ModelFolder& folder) {
  std::string problem = folder.problem;
  const ModelDescription description = describe_model(folder.model, folder.hyper_parameters);
  const std::vector<HyperParameter>& all = description.hyper_parameters;
  if (problem.empty()) {
    const Tree* const head = find_value(all, "head");
    const std::string_view usual = model_families().get(description.family).task;
    if (head == nullptr && usual != "classification") return std::string(usual);
    problem = head == nullptr ? "classification" : head->text;
  }
  if (problem == "classification") {
    const Tree* const outputs = find_value(all, "num_classes");
    problem = outputs != nullptr && *outputs == Tree(1) ? "regression" : "single_label_classification";
  }
  for (const std::string& name : tasks().names())
    if (const TaskKind& kind = tasks().get(name); kind.problem == problem && !kind.heads) return name;
  reject("{}: no task is known for the problem {}", folder.config.string(), problem);
}

FolderWeights open_weights(const fs::path& path, const std::optional<ModelFolder>& folder) {
  return named_weights(WeightFiles(path), folder);
}

FolderWeights named_weights(WeightFiles files, const std::optional<ModelFolder>& folder) {
  FolderWeights weights{.files = std::move(files), .options = {}};
  if (!folder) return weights;
  if (folder->names) weights.files.rename(*folder->names);
  weights.options.library = folder->library;
  weights.options.label_offset = folder->label_offset;
  return weights;
}

std::shared_ptr<const WeightFormats> formats_of(const std::string& model,
                                                const std::vector<HyperParameter>& hyper_parameters,
                                                const FolderWeights& weights, const WeightRules& rules) {
  if (rules.rules.empty() && !weights.files.holds_coded()) return {};
  const std::unique_ptr<Model> shape = build_model(model, hyper_parameters, {.device = Device::meta});
  for (Parameter* const parameter : shape->parameters()) parameter->set_trainable(false);
  return std::make_shared<const WeightFormats>(
      weight_formats(*shape, rules, stored_formats(*shape, weights.files, weights.options)));
}

std::map<std::string, std::string> texts_beside(const Model& model, const ModelFolder& description, Library library) {
  if (library == Library::timm) return {{"config.json", timm_config(model, description).dump(2) + "\n"}};
  return transformers_files(model, description).texts;
}

std::map<std::string, std::string> files_beside_weights(const Model& model, const ModelFolder& description) {
  const bool of_timm = timm_forms().contains(describe_model(description.model, description.hyper_parameters).family);
  const bool as_timm = of_timm || !transformers_refusal(description).empty();
  return texts_beside(model, description, as_timm ? Library::timm : Library::transformers);
}

void write_texts(const fs::path& folder, const std::map<std::string, std::string>& texts) {
  for (const auto& [name, text] : texts) {
    fs::create_directories((folder / name).parent_path());
    write_file_atomically(folder / name, text);
  }
}

namespace {

/// Part `part` of `parts`, by rows.
PendingTensor part_of(const std::string& name, const PendingTensor& whole, std::int64_t part, std::int64_t parts) {
  if (parts == 1) return {name, whole.dtype, whole.shape, whole.make};
  const std::int64_t rows = whole.shape.front() / parts;
  std::vector<std::int64_t> extents(whole.shape.begin(), whole.shape.end());
  extents.front() = rows;
  return {name, whole.dtype, Shape(extents),
          [whole, part, rows] { return whole.make().leading(part * rows, (part + 1) * rows); }};
}

/// The state as `type`, under transformers' names where a table of them is given.
std::vector<PendingTensor> state_to_write(const Model& model, DType type, const TensorNames* names) {
  std::vector<PendingTensor> state;
  for (const auto& [ours, tensor] : state_of(model)) {
    PendingTensor one = converted(ours, tensor, type);
    if (names == nullptr || names->body.empty()) {
      state.push_back(std::move(one));
      continue;
    }
    const std::vector<TensorNames::Place> places = names->theirs(ours);
    expect(!places.empty(), "{} has no name in transformers", ours);
    for (const TensorNames::Place& place : places) {
      PendingTensor part = part_of(place.name, one, place.part, place.parts);
      if (place.transposed && part.shape.rank() == 2) {
        part.shape = Shape{part.shape[1], part.shape[0]};
        part.make = [make = std::move(part.make)] { return transposed(make()); };
      }
      state.push_back(std::move(part));
    }
  }
  return state;
}

}  // namespace

void write_new_folder(const fs::path& path, const std::function<void(const fs::path&)>& fill) {
  const fs::path folder = (path / "").parent_path();  // without a slash at its end
  std::error_code failed;
  if (fs::exists(fs::symlink_status(folder, failed))) reject("{} exists already: name another folder", folder.string());
  const fs::path temporary = make_folder_beside(folder);
  try {
    fill(temporary);
    sync_folder(temporary);
    fs::rename(temporary, folder, failed);
    if (failed) reject("cannot move the folder to {}: {}", folder.string(), failed.message());
  } catch (...) {
    fs::remove_all(temporary, failed);
    throw;
  }
  sync_folder(folder.has_parent_path() ? folder.parent_path() : fs::path("."));
}

std::vector<PendingTensor> state_for(const Model& model, const ModelFolder& description, Library library) {
  if (library == Library::timm)
    if (const std::string refusal = timm_refusal(description); !refusal.empty())
      reject("timm has no such model: {}", refusal);
  return state_to_write(model, description.stored,
                        library == Library::timm ? nullptr : transformers_files(model, description).names);
}

std::vector<std::string> write_model_folder(const fs::path& path, const Model& model, const ModelFolder& description,
                                            Library library) {
  const std::vector<PendingTensor> state = state_for(model, description, library);
  TransformersFiles files;
  if (library == Library::timm)
    files.texts = texts_beside(model, description, library);
  else
    files = transformers_files(model, description);
  write_new_folder(path, [&](const fs::path& folder) {
    write_texts(folder, files.texts);
    write_one_by_one(folder / "model.safetensors", state, {{"format", "pt"}});
  });
  return std::move(files.notes);
}

}  // namespace lacuna
