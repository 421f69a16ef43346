#include "models/folders/transformers.h"

#include "models/image_model.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace lacuna {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

Registry<TransformersType>& transformers_types() {
  static Registry<TransformersType> types("model_type of transformers");
  return types;
}

namespace {

/// The numbers of Pillow's filters.
constexpr std::pair<std::int64_t, std::string_view> filters[] = {{0, "nearest"}, {1, "lanczos"}, {2, "bilinear"},
                                                                  {3, "bicubic"}, {4, "box"},     {5, "hamming"}};

std::string default_label(std::int64_t number) { return fmt::format("LABEL_{}", number); }

/// `id2label`: the classes, and their names where they have any.
void read_labels(const ConfigReader& config, ModelFolder& folder) {
  constexpr std::int64_t classes_unsaid = 2;
  if (!config.says("id2label")) {
    folder.hyper_parameters.push_back({"num_classes", config.integer("num_labels", classes_unsaid)});
    return;
  }
  const ordered_json& labels = config.json().at("id2label");
  if (!labels.is_object()) config.refuse("id2label", "labels by number");
  bool named = false;
  for (std::int64_t i = 0; i < std::ssize(labels); ++i) {
    const auto label = labels.find(std::to_string(i));
    if (label == labels.end() || !label->is_string()) config.refuse("id2label", "a label for each number from 0");
    folder.labels.push_back(label->get<std::string>());
    named = named || folder.labels.back() != default_label(i);
  }
  folder.hyper_parameters.push_back({"num_classes", std::int64_t{std::ssize(labels)}});
  if (!named) folder.labels.clear();
}

/// A side of `size`: a number, or `height` and `width` alike; 0: not said.
std::int64_t side_in(const ConfigReader& config, const char* key, const char* part) {
  if (!config.says(key)) return 0;
  const ordered_json& size = config.json().at(key);
  if (size.is_number_integer()) return size.get<std::int64_t>();
  if (!size.is_object()) config.refuse(key, "a size");
  return ConfigReader(size, config.file()).integer(part, 0);
}

/// Refuses another scale of pixels than that from 0 to 1, which the models here take.
void check_scale(const ConfigReader& config) {
  constexpr double usual = 1.0 / 255, rounding = 1e-5;  // some files have few digits
  if (!config.flag("do_rescale", true)) config.refuse("do_rescale", "true");
  if (std::abs(config.real("rescale_factor", usual) / usual - 1) > rounding) config.refuse("rescale_factor", "1/255");
}

/// preprocessor_config.json. Returns the side of the images; 0: not said.
std::int64_t read_preparation(const fs::path& file, ImagePreparation& images) {
  const std::optional<ordered_json> json = read_json_object(file);
  if (!json) return 0;
  const ConfigReader config(*json, file);
  check_scale(config);
  images.mean = config.numbers("image_mean");
  images.std = config.numbers("image_std");
  const auto channels = std::max<std::size_t>(images.mean.size(), 3);
  if (!config.flag("do_normalize", true)) {
    images.mean.assign(channels, 0.0);
    images.std.assign(channels, 1.0);
  }
  for (const auto& [number, name] : filters)
    if (config.says("resample") && config.integer("resample", 0) == number) images.interpolation = name;
  if (config.says("resample") && images.interpolation.empty())
    config.refuse("resample", "a filter of Pillow, from 0 to 5");
  const std::int64_t crop = config.flag("do_center_crop", false) ? side_in(config, "crop_size", "height") : 0;
  const std::int64_t squashed = side_in(config, "size", "height"), shortest = side_in(config, "size", "shortest_edge");
  constexpr std::int64_t never_cropped = 384;  // ConvNeXt's processor squashes from here on
  if (shortest > 0 && config.says("crop_pct")) {
    images.crop_mode = shortest < never_cropped ? "center" : "squash";
    images.crop_pct = shortest < never_cropped ? config.real("crop_pct", 1) : 1;
    return shortest;
  }
  if (crop > 0 && shortest + squashed > 0) {
    images.crop_mode = shortest > 0 ? "center" : "squash";
    images.crop_pct = static_cast<double>(crop) / static_cast<double>(std::max(shortest, squashed));
    return crop;
  }
  images.crop_mode = shortest > 0 ? "center" : squashed > 0 ? "squash" : "";
  images.crop_pct = shortest + squashed > 0 ? 1 : 0;
  return std::max(shortest, squashed);
}

ordered_json preprocessor_of(const ImageModel& model, const ImagePreparation& images) {
  const auto [height, width] = model.image_size();
  const ordered_json size{{"height", height}, {"width", width}};
  const bool cropped = images.crop_mode == "center" && images.crop_pct > 0;
  ordered_json json{{"image_processor_type", cropped ? "BitImageProcessor" : "ViTImageProcessor"}, {"do_resize", true}};
  if (cropped) {
    const auto side = static_cast<double>(std::min(height, width));
    json["size"] = {{"shortest_edge", static_cast<std::int64_t>(std::floor(side / images.crop_pct))}};
    json["do_center_crop"] = true;
    json["crop_size"] = size;
  } else {
    json["size"] = size;
  }
  for (const auto& [number, name] : filters)
    if (images.interpolation == name) json["resample"] = number;
  json["do_rescale"] = true;
  json["rescale_factor"] = 1.0 / 255;
  json["do_normalize"] = true;
  if (!images.mean.empty()) json["image_mean"] = images.mean;
  if (!images.std.empty()) json["image_std"] = images.std;
  return json;
}

/// How sentence-transformers makes one vector of a text.
constexpr const char* pooling_file = "1_Pooling/config.json";

/// `1_Pooling/config.json` of a folder of sentence-transformers, for models that pool.
void read_pooling(const fs::path& folder, ModelFolder& description) {
  const fs::path file = folder / pooling_file;
  const std::optional<ordered_json> json = read_json_object(file);
  if (!json) return;
  const ConfigReader config(*json, file);
  std::string mode = config.text("pooling_mode", "");  // of later versions
  for (const auto& [key, flag] : json->items())
    if (key.starts_with("pooling_mode_") && flag == true)
      mode += (mode.empty() ? "" : "+") + key.substr(std::string_view("pooling_mode_").size());
  if (mode == "cls_token" || mode == "cls")
    description.hyper_parameters.push_back({"pooling", std::string("first")});
  else if (mode == "mean_tokens" || mode == "mean")
    description.hyper_parameters.push_back({"pooling", std::string("mean")});
  else
    description.notes.push_back(
        fmt::format("{}: expected the mean or the first token, got {}; model.pooling says which is taken",
                    file.string(), mode.empty() ? "none" : mode));
}

/// The types of a family, with what makes them refuse the model.
struct Written {
  std::string model_type{}, refusal{}, architecture{};
  ordered_json config{};
};
Written written(const ModelFolder& description) {
  const ModelDescription model = describe_model(description.model, description.hyper_parameters);
  Written last{.refusal = fmt::format("transformers has no model like {}", model.family)};
  for (const std::string& model_type : transformers_types().names()) {
    const TransformersType& type = transformers_types().get(model_type);
    if (type.family != model.family || !type.write) continue;
    last = {.model_type = model_type};
    last.refusal = type.write(model.options, last.config);
    last.architecture = type.class_of ? type.class_of(model.options) : std::string(type.architecture);
    if (last.refusal.empty()) return last;
  }
  return last;
}

/// `id2label` and `label2id`.
void write_labels(const Model& model, const ModelFolder& description, ordered_json& config) {
  ordered_json labels = ordered_json::object(), numbers = ordered_json::object();
  const bool named = std::ssize(description.labels) == model.num_classes();
  for (std::int64_t i = 0; i < model.num_classes(); ++i) {
    const std::string label = named ? description.labels[static_cast<std::size_t>(i)] : default_label(i);
    labels[std::to_string(i)] = label;
    numbers[label] = i;
  }
  config["id2label"] = std::move(labels);
  config["label2id"] = std::move(numbers);
}

}  // namespace

std::vector<TensorNames> tensor_names_of(std::string_view family) {
  std::vector<TensorNames> tables;
  for (const std::string& model_type : transformers_types().names())
    if (const TransformersType& type = transformers_types().get(model_type); type.family == family)
      tables.push_back(type.names);
  return tables;
}

std::string activation_of(const ConfigReader& config) {
  const std::string name = config.text("hidden_act", "gelu");
  if (name == "gelu" || name == "quick_gelu") return name;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return "gelu_tanh";
  config.refuse("hidden_act", "gelu, gelu_new, gelu_pytorch_tanh or quick_gelu");
}

std::string hidden_act_of(const std::string& activation) {
  return activation == "gelu_tanh" ? "gelu_pytorch_tanh" : activation;
}

ModelFolder read_transformers_config(const ordered_json& json, const fs::path& file) {
  const ConfigReader config(json, file);
  const std::string model_type = config.text("model_type", "");
  if (!transformers_types().contains(model_type))
    reject(
        "{}: expected the `architecture` of a model of timm, or a `model_type` of transformers that Lacuna has ({}), "
        "got {}",
        file.string(), fmt::join(transformers_types().names(), ", "),
        model_type.empty() ? "neither" : "model_type " + model_type);
  const TransformersType& type = transformers_types().get(model_type);
  ModelFolder folder{.config = file, .library = Library::transformers, .model = std::string(type.family)};
  folder.hyper_parameters = type.read(config);
  read_labels(config, folder);
  const std::int64_t side = read_preparation(file.parent_path() / "preprocessor_config.json", folder.images);
  if (side > 0 && !config.says("image_size")) folder.hyper_parameters.push_back({"image_size", side});
  folder.problem = config.text("problem_type", "");
  const Options options = describe_model(folder.model, folder.hyper_parameters).options;
  if (options.find("pooling") != nullptr) read_pooling(file.parent_path(), folder);
  if (!type.names.body.empty()) folder.names = std::make_shared<const TensorNames>(type.names);
  if (type.notes) folder.notes = type.notes(options);
  return folder;
}

std::string transformers_refusal(const ModelFolder& description) { return written(description).refusal; }

TransformersFiles transformers_files(const Model& model, const ModelFolder& description) {
  Written type = written(description);
  if (!type.refusal.empty()) reject("transformers has no such model: {}", type.refusal);
  const TransformersType& kind = transformers_types().get(type.model_type);
  ordered_json config{{"architectures", ordered_json::array({type.architecture})}, {"model_type", type.model_type}};
  if (type.architecture.find("Classification") != std::string::npos) write_labels(model, description, config);
  if (!description.problem.empty() && type.architecture.find("SequenceClassification") != std::string::npos)
    config["problem_type"] = description.problem;
  config.update(type.config);
  config["dtype"] = "float32";
  TransformersFiles files{.texts = description.tokenizer, .names = &kind.names};
  const auto add = [&](const char* name, const ordered_json& json) { files.texts[name] = json.dump(2) + "\n"; };
  add("config.json", config);
  if (const auto* const images = dynamic_cast<const ImageModel*>(&model))
    add("preprocessor_config.json", preprocessor_of(*images, description.images));
  const auto values = describe_model(description.model, description.hyper_parameters).hyper_parameters;
  const Tree* const pooling = find_value(values, "pooling");
  if (pooling != nullptr && *find_value(values, "head") == Tree("embedding")) {
    const bool first = *pooling == Tree("first");
    add("modules.json",
        ordered_json::array(
            {{{"idx", 0}, {"name", "0"}, {"path", ""}, {"type", "sentence_transformers.models.Transformer"}},
             {{"idx", 1}, {"name", "1"}, {"path", "1_Pooling"}, {"type", "sentence_transformers.models.Pooling"}}}));
    add(pooling_file, {{"word_embedding_dimension", model.num_classes()},
                       {"pooling_mode_cls_token", first},
                       {"pooling_mode_mean_tokens", !first},
                       {"pooling_mode_max_tokens", false},
                       {"pooling_mode_mean_sqrt_len_tokens", false}});
  }
  return files;
}

}  // namespace lacuna
