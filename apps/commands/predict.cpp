// lacuna predict: predictions of a trained model for texts or images.
#include "apps/command.h"
#include "apps/commands/class_masks.h"
#include "apps/commands/continuation.h"
#include "apps/commands/found_boxes.h"
#include "apps/commands/opened_model.h"
#include "apps/commands/predict_inputs.h"
#include "apps/config/resolve.h"
#include "apps/output/host.h"
#include "apps/output/output.h"
#include "autograd/tape.h"
#include "data/collate.h"
#include "data/graphs/node_graph.h"
#include "models/prediction.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

namespace lacuna::apps {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

/// Outputs of models, as bits: an option is for some of them.
enum Output : unsigned {
  image_labels = 1,
  pixel_classes = 2,
  found_boxes = 4,
  text_labels = 8,
  new_texts = 16,
  node_labels = 32
};
std::string in_words(unsigned outputs) {
  std::vector<std::string> words;
  for (const auto& [output, word] : {std::pair{image_labels, "labels of images"},
                                     {pixel_classes, "masks"},
                                     {found_boxes, "boxes"},
                                     {text_labels, "labels of texts"},
                                     {new_texts, "texts"},
                                     {node_labels, "labels of nodes"}})
    if ((outputs & output) != 0) words.emplace_back(word);
  return fmt::format("{}", fmt::join(words, " or "));
}

/// Thrown where nobody reads the predictions any more, as behind `head`.
struct ReaderLeft {};

/// The classes, the most probable first.
std::vector<Prediction::Class> ranked(const Prediction& prediction) {
  std::vector<Prediction::Class> classes = prediction.classes;
  std::ranges::stable_sort(classes, std::greater{}, &Prediction::Class::probability);
  return classes;
}

bool is_finite(const Prediction& prediction) {
  const auto finite = [](double value) { return std::isfinite(value); };
  return std::ranges::all_of(prediction.classes, finite, &Prediction::Class::probability) &&
         std::ranges::all_of(prediction.values, [&](const auto& named) {
           if (const auto* const number = std::get_if<double>(&named.second)) return finite(*number);
           const auto* const numbers = std::get_if<std::vector<double>>(&named.second);
           return numbers == nullptr || std::ranges::all_of(*numbers, finite);
         });
}

/// `top` 0: all classes.
void add_to(ordered_json& line, const Prediction& prediction, std::int64_t top) {
  if (const std::vector<Prediction::Class> classes = ranked(prediction); !classes.empty()) {
    if (top > 0 || prediction.several.empty()) {
      line["label"] = classes.front().name;
      line["probability"] = classes.front().probability;
    } else {
      ordered_json& listed = line[std::string(prediction.several)] = ordered_json::array();
      for (const auto& [name, probability] : prediction.classes)
        if (probability >= 0.5) listed.push_back(name);
    }
    for (const auto& [name, probability] : classes)
      if (top > 0 && std::ssize(line["top"]) < top)
        line["top"].push_back({{"label", name}, {"probability", probability}});
    if (top == 0)
      for (const auto& [name, probability] : prediction.classes) line["probabilities"][name] = probability;
  }
  for (const auto& [name, value] : prediction.values)
    line[name] = std::visit([](const auto& one) { return ordered_json(one); }, value);
}

std::string to_text(const Prediction& prediction, std::int64_t top) {
  std::vector<std::string> words;
  for (const auto& [name, probability] : ranked(prediction))
    if (std::ssize(words) < top) words.push_back(fmt::format("{} {:.4f}", name, probability));
  for (const auto& [name, value] : prediction.values)
    words.push_back(std::visit(
        [&](const auto& one) {
          if constexpr (std::is_same_v<std::decay_t<decltype(one)>, double>)
            return fmt::format("{} {:.4f}", name, one);
          else
            return fmt::format("{} {}", name, one);
        },
        value));
  return fmt::format("{}", fmt::join(words, ", "));
}

class Predict {
 public:
  explicit Predict(CLI::App& app) {
    app.add_option("model", from_,
                   "a run, whose best checkpoint is taken, one of its checkpoints (RUN/last), or a folder with a model "
                   "and its tokenizer")
        ->type_name("RUN | RUN/last | FOLDER")
        ->required();
    const auto is_for = [this](unsigned outputs, CLI::Option* option) {
      limited_.emplace_back(outputs, option);
      return option;
    };
    constexpr unsigned has_inputs = image_labels | pixel_classes | found_boxes | text_labels | new_texts;
    is_for(has_inputs,
           app.add_option("input", inputs_,
                          "images: files, folders, tar archives; or texts, without any the lines of standard input"))
        ->type_name("IMAGES | TEXTS");
    top_option_ = is_for(
        image_labels | pixel_classes | node_labels,
        app.add_option("--top", top_, "classes that are named for each image; without it 5, or all in JSON of masks"));
    top_option_->type_name("K")->check(CLI::Range(1, 1'000'000));
    app.add_flag("--json", json_, "a line of JSON for each image; texts always have one");
    is_for(has_inputs, app.add_option("--input", file_,
                                      "a file with a text on each line, or a table of texts or pictures (.csv, .tsv, "
                                      ".jsonl), whose rows stand with their predictions; -: standard input"))
        ->type_name("FILE");
    is_for(has_inputs, app.add_option("--column", columns_,
                                      "column of a table's texts or pictures, by name or by number from 1; given "
                                      "again, that of second ones; without it the run's or a usual one"))
        ->type_name("NAME")
        ->expected(1)
        ->take_all();
    is_for(text_labels, app.add_flag("--pairs", pairs_, "each input is two texts with a tab between them"));
    app.add_option("--base", base_, "folder or file with the base of an adapter, where that has moved")
        ->type_name("FOLDER");
    is_for(text_labels, app.add_option("--max-length", max_length_,
                                       "tokens of a text at most, the rest is cut off; 0: as many as the model takes"))
        ->type_name("N")
        ->check(CLI::Range(0, 1 << 20));
    auto* const out =
        is_for(pixel_classes | found_boxes, app.add_option("--out", masks_.folder,
                                                           "segmentation: folder for a mask of each image, a PNG of "
                                                           "its classes; detection: for the image with its boxes"));
    out->type_name("FOLDER");
    is_for(pixel_classes,
           app.add_flag("--overlay", masks_.overlays, "segmentation, with --out: the image under its classes, too"))
        ->needs(out);
    is_for(found_boxes,
           app.add_option("--score", least_score_, "detection: least score of an object; 0: all that the model finds"))
        ->type_name("S")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    is_for(pixel_classes,
           app.add_flag("--add-one", masks_.add_one,
                        "segmentation, with --out: class k has the value k + 1, where 0 counts for nothing, as in "
                        "ADE20K"))
        ->needs(out);
    auto* const windows = is_for(
        pixel_classes, app.add_flag("--windows", windows_,
                                    "segmentation: show the model overlapping parts of an image at its own shape"));
    is_for(pixel_classes, app.add_flag("--whole", whole_, "segmentation: show the model the whole image at once"))
        ->excludes(windows);
    app.footer(
        "Writes a line for each input, with what the model's task predicts: classes and probabilities, a value, an "
        "embedding, a label of each token, the shares of pixels of each class, boxes of objects. A language model goes "
        "on with each "
        "text, as `lacuna generate` does.");
  }

  ExitCode operator()() {
    const OpenedModel opened = open_model(from_, available_device({}), base_);
    if (find_field(opened.model->inputs(), FieldKind::edges) != nullptr) return predict_nodes(opened);
    if (!inputs_.empty() && !file_.empty()) reject("expected inputs or --input, got both");
    const std::optional<TableFormat> table = table_format(file_);
    if (!columns_.empty() && !table) reject("--column: expected --input with a table (.csv, .tsv, .jsonl)");
    if (auto* const model = dynamic_cast<LanguageModel*>(opened.model.get())) return go_on(*model, opened);
    const bool images = opened.reads_images();
    const std::unique_ptr<const InputReader> reader = opened.reader(max_length_);
    const std::unique_ptr<Task> task = opened.task(reader->vocabulary());
    const auto gives = [&](FieldKind kind) { return find_field(task->targets(), kind) != nullptr; };
    const Output output = gives(FieldKind::boxes)  ? found_boxes
                          : gives(FieldKind::mask) ? pixel_classes
                          : images                 ? image_labels
                                                   : text_labels;
    refuse_options_of_others(output);
    if (images && !file_.empty() && !table)
      reject("--input: expected a table of pictures (.csv, .tsv, .jsonl), as {} is a model of images; got {}", from_,
             file_);
    if (const std::size_t most = images ? 1 : 2; columns_.size() > most)
      reject("--column: expected {} at most, got {}", most, columns_.size());
    if (pairs_ && table) reject("--pairs: expected --column twice, which names the two columns of a table");
    const std::vector<std::string>& learned = opened.folder.columns;
    constexpr std::int64_t most_named = 5;
    if (images && top_ == 0) top_ = most_named;
    json_ = json_ || !images || table;
    if (output == found_boxes) return predict_boxes(opened);
    if (output == pixel_classes) return predict_masks(opened);
    constexpr std::size_t most_samples = 16;
    std::vector<Sample> samples(most_samples);
    std::vector<Input> batch;
    const auto run_batch = [&] {
      const NoGrad no_grad;
      if (!batch.empty())
        print(batch, task->predict(*opened.model, collate(std::span(samples).first(batch.size()), reader->fields())),
              images ? "image" : "text");
      batch.clear();
    };
    const auto note_pairs = [&](bool are_pairs) {
      if (learned.size() == 2 && !are_pairs)
        print_error(fmt::format("lacuna: note: the model learned pairs of texts ({}): --pairs, or --column twice\n",
                                fmt::join(learned, ", ")));
    };
    const auto take = [&](Input input) {
      stop_if_host_wants();
      if (!read(input, *reader, samples[batch.size()])) return;
      batch.push_back(std::move(input));
      if (batch.size() == most_samples) run_batch();
    };
    return each_input([&] {
      if (images && table) {
        each_picture_row(file_, columns_.empty() ? "" : columns_.front(), opened.configuration, take, say_unread());
      } else if (images) {
        each_image(inputs_, take);
      } else if (table) {
        const TextColumns columns = columns_to_read(file_, columns_, learned);
        note_pairs(!columns.pair.empty());
        each_text_row(file_, columns, take, say_unread());
      } else {
        note_pairs(pairs_);
        each_text(inputs_, file_, take);
      }
      run_batch();
    });
  }

 private:
  /// Refuses options that have no effect on a model with this output.
  void refuse_options_of_others(Output output) const {
    for (const auto& [outputs, option] : limited_)
      if (option->count() > 0 && (outputs & output) == 0)
        reject("{}: {} is for models that give {}, and this one gives {}", from_, option->get_name(), in_words(outputs),
               in_words(output));
  }

  /// A JSON line for each node of the run's graph.
  ExitCode predict_nodes(const OpenedModel& opened) const {
    if (!opened.run) reject("{}: expected a run, whose data set has the graph", from_);
    refuse_options_of_others(node_labels);
    const Experiment past = experiment_of(*opened.run);
    const auto graph = open_dataset(past.data.name, dataset_options(past, Split::validation));
    Sample sample;
    sample.begin(0);
    graph->read(0, sample);
    const auto* const nodes = dynamic_cast<const NodeGraphDataset*>(graph.get());
    const NoGrad no_grad;
    std::int64_t node = 0;
    for (const Prediction& prediction :
         opened.task()->predict(*opened.model, collate(std::span(&sample, 1), graph->info().fields))) {
      if (!is_finite(prediction)) fail("node {}: the model's output is not finite", node);
      ordered_json line{{"node", node}};
      if (nodes != nullptr && !nodes->ids().empty()) line["id"] = nodes->ids()[static_cast<std::size_t>(node)];
      ++node;
      add_to(line, prediction, top_);
      if (!print_output(to_line(line) + "\n")) return 0;
    }
    return 0;
  }

  /// Runs `f`, which reads the inputs.
  ExitCode each_input(const std::function<void()>& f) const {
    try {
      f();
    } catch (const ReaderLeft&) {
      return 0;
    }
    if (unread_ > 0) reject("{} input{} could not be read", unread_, unread_ == 1 ? "" : "s");
    return 0;
  }
  TakeUnread say_unread() {
    return [this](const Error& error) {
      print_error(fmt::format("lacuna: {}\n", error.what()));
      ++unread_;
    };
  }

  /// The masks of images.
  ExitCode predict_masks(const OpenedModel& opened) {
    if (windows_) masks_.showing = Showing::windows;
    if (whole_) masks_.showing = whole_showing(opened.image_options().crop_mode);
    if (top_option_->count() > 0) masks_.most = top_;
    masks_.inputs = inputs_;
    ClassMasks masks(opened, masks_);
    return each_picture(opened, [&](const Input& input) {
      ordered_json found = masks.predict(input.name, input.read());
      std::string words = shares_in_words(found, top_);
      return std::pair(std::move(found), std::move(words));
    });
  }

  /// The objects of images.
  ExitCode predict_boxes(const OpenedModel& opened) {
    FoundBoxes boxes(opened, {.folder = masks_.folder, .least_score = least_score_, .inputs = inputs_});
    return each_picture(opened, [&](const Input& input) { return boxes.predict(input.name, input.read()); });
  }

  /// Prints what `predict` says of each image, as JSON or in words.
  ExitCode each_picture(const OpenedModel& opened,
                        const std::function<std::pair<ordered_json, std::string>(const Input&)>& predict) {
    const auto take = [&](const Input& input) {
      stop_if_host_wants();
      std::pair<ordered_json, std::string> found;
      if (!try_to_read(input, [&] { found = predict(input); })) return;
      if (!print_output(json_ ? line_of(input, "image", found.first)
                              : fmt::format("{}: {}\n", input.name, found.second)))
        throw ReaderLeft{};
    };
    return each_input([&] {
      if (table_format(file_))
        each_picture_row(file_, columns_.empty() ? "" : columns_.front(), opened.configuration, take, say_unread());
      else
        each_image(inputs_, take);
    });
  }

  /// The texts that a language model makes of prompts.
  ExitCode go_on(LanguageModel& model, const OpenedModel& opened) {
    refuse_options_of_others(new_texts);
    if (columns_.size() > 1) reject("--column: expected one, as {} goes on with single texts", from_);
    const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(opened.texts);
    const GenerationOptions options = generation_options(opened, *tokenizer);
    const auto take = [&](const Input& input) {
      ordered_json made;
      if (!try_to_read(input, [&] {
            const std::vector<std::int32_t> prompt = tokenizer->encode(input.read()).tokens;
            made = continuation(model, *tokenizer, prompt, options);
          }))
        return;
      made = {{"continuation", made.at("text")}, {"ids", made.at("ids")}, {"ended_by", made.at("ended_by")}};
      if (!print_output(line_of(input, "text", made))) throw ReaderLeft{};
    };
    return each_input([&] {
      if (table_format(file_))
        each_text_row(file_, columns_to_read(file_, columns_, {"prompt"}), take, say_unread());
      else
        each_text(inputs_, file_, take);
    });
  }

  /// Says why an input cannot be read; the others are predicted all the same.
  bool try_to_read(const Input& input, const std::function<void()>& f) {
    try {
      f();
      return true;
    } catch (const Error& error) {
      if (error.fault() != Fault::input) throw;
      const std::string why = error.what();
      const bool names_it = why.find(input.place) != std::string::npos;
      print_error(fmt::format("lacuna: {}{}\n", names_it ? "" : input.place + ": ", why));
      ++unread_;
      return false;
    }
  }

  bool read(const Input& input, const InputReader& reader, Sample& sample) {
    sample.begin(0);
    sample.origin = input.place;
    return try_to_read(input, [&] {
      const std::string bytes = input.read();
      if (input.pair) return reader.read_pair(bytes, *input.pair, sample);
      if (!pairs_) return reader.read(bytes, sample);
      const std::size_t tab = bytes.find('\t');
      if (tab == std::string::npos) reject("expected two texts with a tab between them");
      reader.read_pair(std::string_view(bytes).substr(0, tab), std::string_view(bytes).substr(tab + 1), sample);
    });
  }

  /// A JSON line: the input's name under `key`, and its prediction.
  static std::string line_of(const Input& input, const char* key, const ordered_json& predicted) {
    ordered_json line{{key, input.name}};
    if (input.pair) line["pair"] = *input.pair;
    std::string text = to_line(line);
    text.pop_back();
    if (!input.row.empty()) text += ",\"row\":" + input.row;
    return fmt::format("{}{}{}\n", text, predicted.empty() ? "" : ",", to_line(predicted).substr(1));
  }

  void print(const std::vector<Input>& inputs, const std::vector<Prediction>& predictions, const char* key) const {
    expect(predictions.size() == inputs.size(), "{} predictions for {} inputs", predictions.size(), inputs.size());
    std::string lines;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (top_option_->count() > 0 && predictions[i].classes.empty())
        reject("--top: names classes, and {} predicts none", from_);
      if (!is_finite(predictions[i])) fail("{}: the model's output is not finite", inputs[i].place);
      if (!json_) {
        lines += fmt::format("{}: {}\n", inputs[i].name, to_text(predictions[i], top_));
        continue;
      }
      ordered_json predicted = ordered_json::object();
      add_to(predicted, predictions[i], top_);
      lines += line_of(inputs[i], key, predicted);
    }
    if (!print_output(lines)) throw ReaderLeft{};
  }

  std::string from_, base_, file_;
  std::vector<std::string> inputs_, columns_;
  std::int64_t max_length_ = 0, top_ = 0, unread_ = 0;
  ClassMaskOptions masks_;
  double least_score_ = 0.5;
  std::vector<std::pair<unsigned, const CLI::Option*>> limited_;  // options and the outputs that they are for
  CLI::Option* top_option_ = nullptr;
  bool pairs_ = false, json_ = false, windows_ = false, whole_ = false;
};

const RegisterCommand predict(22, "predict", "print a trained model's predictions for images or texts",
                              declare<Predict>);

}  // namespace
}  // namespace lacuna::apps
