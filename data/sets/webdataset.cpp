// WebDataset shards: tar archives in which a sample's files share their name without the extension (`7.jpg`, `7.cls`).
#include "core/text.h"
#include "data/class_names.h"
#include "data/encoded_images.h"
#include "data/files/file_tree.h"
#include "data/files/pattern.h"
#include "data/files/picture_names.h"
#include "data/labels.h"
#include "data/sets/image_folder_layout.h"

#include "core/error.h"
#include "core/json.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

namespace lacuna {
namespace {

namespace fs = std::filesystem;

struct WebDatasetOptions {
  std::string validation;
  double val_fraction = usual_fraction;
  std::string label = "label", labels;

  static Fields fields() {
    using O = WebDatasetOptions;
    return {
        field("validation", &O::validation, is_path,
              "shards to evaluate on, named as in data.path; empty: those in data.path with `val`, `test` or the "
              "like in their names"),
        field(
            "val_fraction", &O::val_fraction, val_fractions,
            "fraction of each class held out for evaluation, by the keys and data.seed, if there are no shards for it"),
        field("label", &O::label, "key of the label in the `.json` of samples without `.cls`"),
        field("labels", &O::labels, PathKind::if_text_file,
              "names of the classes in their order, or a file `.txt` of them; empty: detected")};
  }
};

bool is_tar(const fs::path& path) { return lower_case(path.extension().native()) == ".tar"; }

/// The shards of a path: a folder's shards, a single shard, or the matches of a pattern.
std::vector<fs::path> shards_of(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_directory(path, failed)) return expand_pattern(path.native());
  std::vector<fs::path> shards;
  fs::directory_iterator entry(path, failed);
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed))
    if (is_tar(entry->path())) shards.push_back(entry->path());
  if (failed) reject("{}: cannot be read: {}", path.native(), failed.message());
  std::ranges::sort(shards);
  return shards;
}

/// Whether a shard's name contains a word for validation.
bool is_for_validation(const fs::path& shard) {
  static const std::set<std::string> words{"val", "valid", "validation", "eval", "test"};
  std::string word;
  for (const char c : lower_case(shard.stem().native()) + "-") {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0)
      word += c;
    else if (words.contains(std::exchange(word, {})))
      return true;
  }
  return false;
}

struct Samples {
  std::vector<std::int32_t> images;              // file indices in the tree
  std::vector<std::string> labels;               // as written in the shards
  std::map<std::string, std::int64_t> others{};  // kinds of files that are left out
};

std::string label_in_json(const std::string& text, const std::string& key, const std::string& origin) {
  check_json_depth(text, origin);
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  const nlohmann::json* value = &json;
  if (json.is_object()) {
    const auto found = json.find(key);
    if (found == json.end()) reject("{}: expected a key `{}`: data.label names the label's", origin, key);
    value = &*found;
  }
  if (value->is_string()) return value->get<std::string>();
  if (value->is_number()) return value->dump();
  reject("{}: expected the label as a whole number or a name in `{}`, got {}", origin, key,
         json.is_discarded() ? "no JSON" : value->type_name());
}

/// A path without its last extension, which it may lack.
std::string_view key_of(std::string_view path) {
  const std::size_t base = path.rfind('/') + 1;  // 0 if there is no slash
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos || dot < base ? path : path.substr(0, dot);
}

/// The files of a key, -1 where there are none.
struct KeyFiles {
  std::int64_t image = -1, label = -1, json = -1;
  bool is_labelled() const { return label >= 0 || json >= 0; }
};

Samples samples_in(const FileTree& tree, const std::string& key) {
  std::map<std::string_view, KeyFiles, std::less<>> keys;
  Samples samples;
  std::vector<std::int64_t> further;  // images beside another one of their key
  for (std::int64_t file = 0; file < tree.size(); ++file) {
    const std::string_view path = tree.path(file), name = key_of(path);
    const std::string suffix = lower_case(path.substr(name.size()));
    if (const std::string_view format = unread_format(path); !format.empty())
      reject("{}: {} is not read: write the shards with PNG, JPEG or WebP", tree.origin(file), format);
    if (suffix == ".cls") keys[name].label = file;
    if (suffix == ".json") keys[name].json = file;
    if (is_image_name(path) && keys[name].image < 0)
      keys[name].image = file;
    else if (is_image_name(path))
      further.push_back(file);
    else if (suffix != ".cls" && suffix != ".json")
      ++samples.others[suffix.empty() ? "without extension" : suffix];
  }
  for (const auto& [name, files] : keys) {
    if (files.image < 0) {
      ++samples.others["label without an image"];
      continue;
    }
    if (!files.is_labelled()) {
      // A mask `7.seg.png` belongs to the sample `7`.
      const std::size_t base = name.rfind('/') + 1;
      const auto whole = keys.find(name.substr(0, name.find('.', base)));
      if (whole == keys.end() || !whole->second.is_labelled() || whole->second.image < 0)
        reject("{}: expected its label beside it, in .cls or .json", tree.origin(files.image));
      ++samples.others["image of a further kind"];
      continue;
    }
    samples.images.push_back(static_cast<std::int32_t>(files.image));
    samples.labels.push_back(files.label >= 0
                                 ? std::string(without_blanks(tree.read_text(files.label)))
                                 : label_in_json(tree.read_text(files.json), key, tree.origin(files.json)));
  }
  if (tree.replaced() > 0) samples.others["of a name that comes again in its shard"] = tree.replaced();
  if (!further.empty()) samples.others["further image of a key"] = std::ssize(further);
  return samples;
}

/// The split with the classes of its labels, which become known.
ImageSplit with_labels(std::shared_ptr<const FileTree> tree, const Samples& samples, const std::string& source,
                       KnownClasses& known) {
  WrittenLabels written;
  for (std::size_t i = 0; i < samples.labels.size(); ++i)
    written.try_emplace(samples.labels[i], static_cast<std::int64_t>(i));
  ImageSplit split{std::move(tree), samples.images, {}};
  if (written.empty()) return split;
  const LabelClasses classes(known, written, {.file = source, .where = [&](std::int64_t i) {
                                                return split.tree->origin(split.files[static_cast<std::size_t>(i)]);
                                              }});
  for (const std::string& label : samples.labels) split.labels.push_back(classes[label]);
  known = classes.known();
  return split;
}

struct Shards {
  std::vector<std::string> classes;
  ImageSplit train, validation;
  std::shared_ptr<const HeldOut> held_out;
  std::string description;
};

std::shared_ptr<const Shards> read_shards(const DatasetOptions& options, const std::vector<fs::path>& train,
                                          const std::vector<fs::path>& validation, const WebDatasetOptions& own) {
  auto shards = std::make_shared<Shards>();
  const auto tree = FileTree::of_archives(train);
  const Samples samples = samples_in(*tree, own.label);
  if (samples.images.empty()) reject("{}: expected images in the shards, got none", options.path.native());
  KnownClasses known{.names = class_names(own.labels)};
  shards->train = with_labels(tree, samples, options.path.native(), known);
  shards->classes = known.names;
  if (shards->classes.size() < 2)
    reject("{}: expected two classes at least, got {}", options.path.native(), fmt::join(shards->classes, ", "));
  const double fraction = own.val_fraction;
  if (!validation.empty()) {
    if (fraction != usual_fraction)
      reject("data.val_fraction is {}, but there are shards to evaluate on: {}", fraction, validation.front().native());
    const auto other = FileTree::of_archives(validation);
    shards->validation = with_labels(other, samples_in(*other, own.label), validation.front().native(), known);
    if (shards->validation.files.empty())
      reject("{}: expected images in the shards, got none", validation.front().native());
  } else if (options.hold_out == HoldOut::none) {
    shards->validation = shards->train;
  } else {
    std::vector<std::string> keys;  // without their shards, which may be packed anew
    for (const std::int32_t file : shards->train.files) {
      const std::string_view name = key_of(tree->path(file));
      keys.emplace_back(name.substr(name.find('/') + 1));
    }
    const std::vector<bool> held =
        held_out(keys, keys, shards->train.labels, {options.hold_out, fraction, options.seed, options.held_out_before});
    const ImageSplit all = std::exchange(shards->train, {tree, {}, {}});
    shards->validation.tree = tree;
    auto sides = std::make_shared<HeldOut>();
    for (std::size_t i = 0; i < held.size(); ++i) {
      ImageSplit& to = held[i] ? shards->validation : shards->train;
      to.files.push_back(all.files[i]);
      to.labels.push_back(all.labels[i]);
      if (held[i]) sides->names.push_back(keys[i]);
    }
    sides->trained_on = std::ssize(shards->train.files);
    shards->held_out = std::move(sides);
    if (shards->validation.files.empty())
      reject("{}: no image can be held out for evaluation, since each class has one: data.validation names shards",
             options.path.native());
  }
  const std::string left_out = describe_left_out(samples.others);
  shards->description = fmt::format(
      "webdataset {}: {} shards, {} classes, {} images: {} to train on, {} to evaluate on ({}){}{}",
      options.path.native(), train.size(), shards->classes.size(),
      shards->train.files.size() + (shards->held_out || !validation.empty() ? shards->validation.files.size() : 0),
      shards->train.files.size(), shards->validation.files.size(),
      shards->held_out     ? describe_held_out(*shards->held_out, fraction)
      : validation.empty() ? "all, in an evaluation"
                           : fmt::format("{} shards", validation.size()),
      left_out.empty() ? "" : "; ", left_out);
  return shards;
}

std::shared_ptr<const Shards> shards_of(const DatasetOptions& options) {
  const auto own = read_options<WebDatasetOptions>("data set webdataset", options.settings);
  if (options.path.empty())
    reject("data.path: expected shards: a folder of them, or a pattern as `train-{{000000..000146}}.tar`");
  const std::string name = fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", options.path.native(), own.validation,
                                       own.label, own.labels, own.val_fraction, options.seed,
                                       static_cast<int>(options.hold_out), fmt::ptr(options.held_out_before));
  return options.files->get<Shards>(name, [&] {
    std::vector<fs::path> train = shards_of(options.path), validation;
    if (!own.validation.empty()) {
      validation = shards_of(own.validation);
    } else {
      const auto others = std::stable_partition(train.begin(), train.end(),
                                                [](const fs::path& shard) { return !is_for_validation(shard); });
      validation.assign(others, train.end());
      train.erase(others, train.end());
      if (train.empty()) train = validation;  // there are only validation shards
    }
    if (train.empty()) reject("{}: expected tar archives, got none", options.path.native());
    return read_shards(options, train, validation, own);
  });
}

DatasetInfo describe_shards(const DatasetOptions& options) {
  const auto shards = shards_of(options);
  const bool training = options.split == Split::train;
  const auto held = std::ssize(training ? shards->train.files : shards->validation.files);
  if (options.size() > held)
    reject("data.{0}: {1} images were asked for, the shards hold {2}: data.{0}=0 takes all",
           training ? "train_size" : "val_size", options.size(), held);
  return {.name = "webdataset",
          .size = options.size() > 0 ? options.size() : held,
          .fields = encoded_image_fields(class_field(std::ssize(shards->classes))),
          .classes = shards->classes,
          .mean = {0.485F, 0.456F, 0.406F},
          .deviation = {0.229F, 0.224F, 0.225F},
          .description = training ? shards->description : "",
          .held_out = shards->held_out};
}

std::unique_ptr<const Dataset> open_shards(const DatasetOptions& options) {
  const std::shared_ptr<const Shards> shards = shards_of(options);
  const ImageSplit& split = options.split == Split::train ? shards->train : shards->validation;
  return open_split(describe_shards(options), {shards, &split}, options.seed);
}

/// Recognises archives, the first of which has a label next to an image.
Recognition recognize_shards(const fs::path& path, OpenedFiles&) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored) && !is_tar(path)) return {};
  const std::vector<fs::path> shards = shards_of(path);
  if (shards.empty() || !fs::is_regular_file(shards.front(), ignored)) return {};
  const auto tree = FileTree::of_archives({shards.front()});
  bool has_image = false, has_label = false;
  for (std::int64_t file = 0; file < tree->size() && !(has_image && has_label); ++file) {
    const std::string name = lower_case(tree->path(file));
    has_image = has_image || is_image_name(name);
    has_label = has_label || name.ends_with(".cls") || name.ends_with(".json");
  }
  return {.certainty = has_image && has_label ? 2 : 0};
}

const RegisterDataset webdataset("webdataset", {.describe = describe_shards,
                                                .open = open_shards,
                                                .options = WebDatasetOptions{},
                                                .recognize = recognize_shards});

}  // namespace
}  // namespace lacuna
