#include "models/folders/transformers.h"

#include "models/folders/sentence_modules.h"
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
struct Filter {
  std::int64_t number;
  std::string_view name;
};
constexpr Filter filters[] = {{0, "nearest"}, {1, "lanczos"}, {2, "bilinear"},
                              {3, "bicubic"}, {4, "box"},     {5, "hamming"}};

constexpr const char* token_keys[] = {"bos_token_id", "eos_token_id"};
constexpr const char* columns_key = "lacuna_text_columns";  // transformers keeps keys that it does not know

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
  if (config.integer("num_labels", std::ssize(labels)) != std::ssize(labels))
    config.refuse("num_labels", fmt::format("the {} of `id2label`", labels.size()));
  bool named = false;
  for (std::int64_t i = 0; i < std::ssize(labels); ++i) {
    const auto label = labels.find(std::to_string(i));
    if (label == labels.end() || !label->is_string()) config.refuse("id2label", "a label for each number from 0");
    folder.labels.push_back(label->get<std::string>());
    named = named || folder.labels.back() != default_label(i);
  }
  folder.hyper_parameters.push_back({"num_classes", std::int64_t{std::ssize(labels)}});
  if (config.says("label2id") && config.json().at("label2id").is_object())
    for (const auto& [label, number] : config.json().at("label2id").items())
      if (const auto at = std::ranges::find(folder.labels, label);
          at != folder.labels.end() && std::ranges::count(folder.labels, label) == 1 && number.is_number_integer() &&
          number.get<std::int64_t>() != at - folder.labels.begin())
        config.refuse("label2id", fmt::format("as `id2label` with {} for {}", at - folder.labels.begin(), label));
  if (!named) folder.labels.clear();
}

/// A `size` or `crop_size`: the shorter side, or both; 0: not said.
struct ProcessorSize {
  std::int64_t shorter = 0;
  ImageSize both{0, 0};
  bool is_square() const { return both.height == both.width; }
  ImageSize least() const { return shorter > 0 ? ImageSize(shorter) : both; }
};

/// Whether the processor's class takes a size that is a number as both sides; otherwise it is the shorter one.
bool number_is_both_sides(const ConfigReader& config, const std::string& model_type) {
  std::string name = config.text("image_processor_type", config.text("feature_extractor_type", ""));
  for (const char* const end : {"ImageProcessor", "FeatureExtractor"})
    if (const std::size_t at = name.find(end); at != std::string::npos) name.erase(at);
  if (name.empty()) name = model_type == "convnext" || model_type == "resnet" ? "ConvNext" : "ViT";
  for (const char* const both : {"ViT", "DeiT", "Beit", "EfficientNet", "Blip", "Segformer", "Flava"})
    if (name == both) return true;
  for (const char* const shorter : {"ConvNext", "Bit", "CLIP", "Levit", "PoolFormer", "MobileNetV1", "MobileNetV2",
                                    "MobileViT", "VideoMAE", "ChineseCLIP"})
    if (name == shorter) return false;
  config.refuse("size",
                fmt::format("`height` and `width`, or `shortest_edge`, since Lacuna does not know the class {}", name));
}

ProcessorSize size_in(const ConfigReader& config, const char* key, bool number_is_both) {
  if (!config.says(key)) return {};
  const ordered_json& size = config.json().at(key);
  if (size.is_number_integer() && number_is_both) return {.both = ImageSize(size.get<std::int64_t>())};
  if (size.is_number_integer()) return {.shorter = size.get<std::int64_t>()};
  if (size.is_array()) return {.both = ImageSize(config.side(key, 0))};
  if (!size.is_object()) config.refuse(key, "a size");
  const ConfigReader sides(size, config.file());
  const std::int64_t height = sides.integer("height", 0), width = sides.integer("width", 0),
                     shorter = sides.integer("shortest_edge", 0);
  const bool known = size.size() == (shorter > 0 ? 1 : 2);
  if ((height > 0) != (width > 0) || !known || height + shorter <= 0)
    config.refuse(key, "`height` and `width`, or `shortest_edge`");
  return {.shorter = shorter, .both = {height, width}};
}

/// Refuses another scale of pixels than that from 0 to 1, which the models here take.
void check_scale(const ConfigReader& config) {
  constexpr double usual = 1.0 / 255, rounding = 1e-5;  // some files have few digits
  if (!config.flag("do_rescale", true)) config.refuse("do_rescale", "true");
  if (std::abs(config.real("rescale_factor", usual) / usual - 1) > rounding) config.refuse("rescale_factor", "1/255");
}

/// preprocessor_config.json. Returns the size of the images; 0: not said.
ImageSize read_preparation(const fs::path& file, const std::string& model_type, ModelFolder& folder) {
  const std::optional<ordered_json> json = read_json_object(file);
  if (!json) return {0, 0};
  const ConfigReader config(*json, file);
  ImagePreparation& images = folder.images;
  check_scale(config);
  for (const char* const key : {"do_reduce_labels", "reduce_labels"})  // older files have the second
    if (config.flag(key, false))
      folder.notes.push_back(
          fmt::format("`{}` true of {} is not taken, since it depends on the masks: data.zero_label=ignore does that",
                      key, file.filename().string()));
  if (!config.flag("do_resize", true)) config.refuse("do_resize", "true");
  if (config.flag("do_flip_channel_order", false)) config.refuse("do_flip_channel_order", "false");
  images.mean = config.numbers("image_mean");
  images.std = config.numbers("image_std");
  const auto channels = std::max<std::size_t>(images.mean.size(), 3);
  if (!config.flag("do_normalize", true)) {
    images.mean.assign(channels, 0.0);
    images.std.assign(channels, 1.0);
  }
  if (config.says("resample")) {
    const auto* const filter = std::ranges::find(filters, config.integer("resample", 0), &Filter::number);
    if (filter == std::end(filters)) config.refuse("resample", "a filter of Pillow, from 0 to 5");
    images.interpolation = filter->name;
  }
  const bool is_number = config.says("size") && config.json().at("size").is_number();
  const ProcessorSize size = size_in(config, "size", is_number && number_is_both_sides(config, model_type));
  const ProcessorSize cropped = size_in(config, "crop_size", true);
  const std::int64_t crop = config.flag("do_center_crop", false) ? cropped.least().height : 0;
  for (const auto& [key, one] : {std::pair("size", &size), {"crop_size", &cropped}})
    if (crop > 0 && !one->is_square()) config.refuse(key, "`height` and `width` alike");
  constexpr std::int64_t never_cropped = 384;  // ConvNeXt's processor squashes from here on
  if (size.shorter > 0 && config.says("crop_pct")) {
    images.crop_mode = size.shorter < never_cropped ? "center" : "squash";
    images.crop_pct = size.shorter < never_cropped ? config.real("crop_pct", 1) : 1;
    return size.shorter;
  }
  const std::int64_t side = size.least().height;
  if (crop > 0 && side > 0) {
    images.crop_mode = size.shorter > 0 ? "center" : "squash";
    images.crop_pct = static_cast<double>(crop) / static_cast<double>(side);
    return crop;
  }
  images.crop_mode = size.shorter > 0 ? "center" : side > 0 ? "squash" : "";
  images.crop_pct = side > 0 ? 1 : 0;
  return size.least();
}

/// Whether a key says a value of masks, which is a whole number, or -100: none.
bool says_index(const SettingKey& key) { return key.section == &ModelFolder::data; }

void read_settings(const ConfigReader& config, const std::vector<SettingKey>& keys, ModelFolder& folder) {
  for (const SettingKey& key : keys) {
    const double said = config.real(key.theirs, key.usual);
    if (said == key.usual) continue;
    Tree& value = (folder.*key.section)[std::string(key.ours)];
    if (says_index(key)) {
      if (said != std::floor(said)) config.refuse(key.theirs, "a whole number");
      value = said < 0 ? Tree("none") : Tree(static_cast<std::int64_t>(said));
    } else {
      if (said < 0) config.refuse(key.theirs, "0 or more");
      value = Tree(said);
    }
  }
}

void write_settings(const ModelFolder& folder, const std::vector<SettingKey>& keys, ordered_json& config) {
  for (const SettingKey& key : keys) {
    const auto found = (folder.*key.section).find(key.ours);
    // A list of values has no form there, and is not written.
    Tree value = found == (folder.*key.section).end() ? Tree() : found->second;
    value.quoted = false;
    const double said = value.text == "none" ? -100 : number_in(value).value_or(key.usual);
    config[key.theirs] = said;
    if (says_index(key)) config[key.theirs] = static_cast<std::int64_t>(said);  // its type there
  }
}

/// preprocessor_config.json of type `processor`; empty: of the one that crops as `images` says. BitImageProcessor
/// resizes an image's shorter side to that of the crop, so that a crop that is no square may reach beyond the image.
ordered_json preprocessor_of(const ImageModel& model, const ImagePreparation& images, std::string_view processor,
                             std::vector<std::string>& notes) {
  const auto [height, width] = model.image_size();
  const ordered_json size{{"height", height}, {"width", width}};
  const bool cropped = processor.empty() && images.crop_mode == "center" && images.crop_pct > 0 && height == width;
  if (processor.empty()) processor = cropped ? "BitImageProcessor" : "ViTImageProcessor";
  if (!cropped && !images.crop_mode.empty() && images.crop_mode != "squash")
    notes.push_back(
        fmt::format("transformers' {} squashes images to {}x{} pixels, where data.crop_mode {} shows them otherwise: "
                    "predictions differ on images of another shape; with data.crop_mode=squash they are equal",
                    processor, height, width, images.crop_mode));
  ordered_json json{{"image_processor_type", processor}, {"do_resize", true}};
  if (cropped) {
    const auto side = static_cast<double>(height);
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

/// The types of a family, with what makes them refuse the model.
struct Written {
  std::string model_type{}, refusal{}, architecture{};
  ordered_json config{};
};
Written written(const ModelDescription& model) {
  Written last{.refusal = fmt::format("transformers has no model like {}", model.family)};
  for (const std::string& model_type : transformers_types().names()) {
    const TransformersType& type = transformers_types().get(model_type);
    if (type.family != model.family || !type.write) continue;
    last = {.model_type = model_type};
    last.refusal = type.write(model.options, last.config);
    const Tree* const size = find_value(model.hyper_parameters, "image_size");
    if (last.refusal.empty() && last.config.contains("image_size") && size->kind == Tree::Kind::list)  // two sides
      last.refusal = "its images are no squares";
    last.architecture = type.class_of ? type.class_of(model.options) : std::string(type.architecture);
    if (last.refusal.empty()) return last;
    last.refusal = fmt::format("transformers has no such {}: {}", model.family, last.refusal);
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

std::vector<std::string> usual_adapter_targets(const ModelDescription& model) {
  const Written type = written(model);
  if (type.refusal.empty())
    if (const auto& targets = transformers_types().get(type.model_type).adapter_targets; !targets.empty())
      return targets;
  return {"all-linear"};
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
  if (config.says("pruned_heads") && !json.at("pruned_heads").empty()) config.refuse("pruned_heads", "none");
  if (config.says("quantization_config")) {
    const ordered_json& quantization = json.at("quantization_config");
    const bool known = quantization.is_object() && quantization.contains("quant_method") &&
                       quantization["quant_method"] == "bitsandbytes";
    if (!quantization.empty() && !known)
      config.refuse("quantization_config",
                    "`quant_method` bitsandbytes (save the folder without other quantizations: `model.dequantize()` of "
                    "transformers)");
  }
  folder.hyper_parameters = type.read(config);
  const bool has_classes = describe_model(folder.model, folder.hyper_parameters).options.find("num_classes") != nullptr;
  if (has_classes) read_labels(config, folder);
  const fs::path preparation = file.parent_path() / "preprocessor_config.json";
  const ImageSize size = read_preparation(preparation, model_type, folder);
  read_settings(config, type.settings, folder);
  // Some types, as SegFormer, do not read the `image_size` that their files have.
  if (config.says("image_size") && find_value(folder.hyper_parameters, "image_size") != nullptr) {
    if (size.height != size.width)
      reject("{}: `size`: expected `height` and `width` alike, as `image_size` of {} is one side", preparation.string(),
             file.filename().string());
  } else if (size.height > 0) {
    std::erase_if(folder.hyper_parameters, [](const HyperParameter& one) { return one.key == "image_size"; });
    folder.hyper_parameters.push_back({"image_size", codec_of<ImageSize>().write(&size)});
  }
  folder.problem = config.text("problem_type", std::string(type.problem));
  folder.columns = config.texts(columns_key);
  if (!type.problem.empty()) {
    for (const char* const key : token_keys)
      if (json.contains(key)) folder.tokens[key] = json.at(key).dump();
    constexpr const char* generation = "generation_config.json";
    if (const auto said = read_json_object(file.parent_path() / generation))
      folder.tokenizer[generation] = said->dump(2) + "\n";
  }
  if (!config.flag("tie_word_embeddings", true))
    folder.refused["masked_lm"] =
        fmt::format("{}: expected a decoder that is the embedding, got `tie_word_embeddings` false", file.string());
  const Options options = describe_model(folder.model, folder.hyper_parameters).options;
  if (options.find("pooling") != nullptr) read_sentence_modules(file.parent_path(), folder);
  if (const TensorNames& names = type.names_of ? *type.names_of(options) : type.names; !names.body.empty())
    folder.names = std::make_shared<const TensorNames>(names);
  if (type.notes)
    for (std::string& note : type.notes(options)) folder.notes.push_back(std::move(note));
  return folder;
}

std::string transformers_refusal(const ModelFolder& description) {
  return written(describe_model(description.model, description.hyper_parameters)).refusal;
}

TransformersFiles transformers_files(const Model& model, const ModelFolder& description) {
  const ModelDescription described = describe_model(description.model, description.hyper_parameters);
  Written type = written(described);
  if (!type.refusal.empty()) reject("{}", type.refusal);
  const TransformersType& kind = transformers_types().get(type.model_type);
  ordered_json config{{"architectures", ordered_json::array({type.architecture})}, {"model_type", type.model_type}};
  if (type.architecture.find("Classification") != std::string::npos ||
      type.architecture.find("Segmentation") != std::string::npos)
    write_labels(model, description, config);
  for (const char* const what : {"ForSequenceClassification", "ForImageClassification"})
    if (!description.problem.empty() && type.architecture.find(what) != std::string::npos)
      config["problem_type"] = description.problem;
  config.update(type.config);
  write_settings(description, kind.settings, config);
  for (const auto& [key, token] : description.tokens) config[key] = ordered_json::parse(token);
  config["dtype"] = description.stored == DType::f32    ? "float32"
                    : description.stored == DType::bf16 ? "bfloat16"
                                                        : "float16";
  if (!description.columns.empty()) config[columns_key] = description.columns;
  TransformersFiles files{.texts = description.tokenizer,
                          .names = kind.names_of ? kind.names_of(described.options) : &kind.names};
  const auto add = [&](const char* name, const ordered_json& json) { files.texts[name] = json.dump(2) + "\n"; };
  add("config.json", config);
  if (const auto* const images = dynamic_cast<const ImageModel*>(&model))
    add("preprocessor_config.json", preprocessor_of(*images, description.images, kind.image_processor, files.notes));
  const auto& values = described.hyper_parameters;
  if (find_value(values, "pooling") == nullptr) return files;
  write_longest(values, files.texts);
  if (*find_value(values, "head") == Tree("embedding"))
    for (const auto& [name, text] : sentence_modules(values, model.num_classes())) files.texts[name] = text;
  else
    files.texts.erase("config_sentence_transformers.json");
  return files;
}

}  // namespace lacuna
