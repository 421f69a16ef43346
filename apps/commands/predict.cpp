// lacuna predict: predictions of a trained model for texts or images.
#include "apps/command.h"
#include "apps/commands/class_masks.h"
#include "apps/commands/continuation.h"
#include "apps/commands/found_boxes.h"
#include "apps/commands/opened_model.h"
#include "apps/config/resolve.h"
#include "apps/config/yaml.h"
#include "apps/output/host.h"
#include "apps/output/output.h"
#include "autograd/tape.h"
#include "core/text.h"
#include "data/collate.h"
#include "data/files/file_tree.h"
#include "data/files/input_file.h"
#include "data/files/picture_names.h"
#include "data/graphs/node_graph.h"
#include "data/images/image_reader.h"
#include "data/sets/image_table.h"
#include "data/text/text_columns.h"
#include "models/prediction.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

namespace lacuna::apps {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

struct Input {
  std::string name, place;  // in results, and in messages
  std::function<std::string()> read;
  std::optional<std::string> pair{};  // a second text
  std::string row{};                  // of a table: an object of JSON
};
/// Thrown where nobody reads the predictions any more, as behind `head`.
struct ReaderLeft {};
using TakeInput = std::function<void(Input)>;

/// A file, a pipe or a device, as `<(command)`; `-`: standard input.
std::string read_whole(const std::string& name) {
  const std::string path = name == "-" ? "/dev/stdin" : name;
  std::error_code ignored;
  if (!fs::is_fifo(path, ignored) && !fs::is_character_file(path, ignored)) {
    const InputFile file(path);
    std::string bytes(static_cast<std::size_t>(file.size()), '\0');
    file.read(0, {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()});
    return bytes;
  }
  std::ifstream stream(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(stream), {});
  if (!stream && !stream.eof()) reject("{}: cannot be read", path);
  return bytes;
}

bool is_picture(const FileTree& tree, std::int64_t file) {
  if (!has_no_kind(tree.path(file))) return is_image_name(tree.path(file));
  std::array<std::uint8_t, 32> bytes{};
  return image_format(tree.read_begin(file, bytes)).is_read;
}

bool is_tar_name(const std::string& path) {
  const std::string name = lower_case(path);
  return std::ranges::any_of(std::initializer_list<std::string_view>{".tar", ".tgz", ".tar.gz", ".tar.xz", ".tar.zst"},
                             [&](std::string_view end) { return name.ends_with(end); });
}

void each_image(const std::vector<std::string>& paths, const TakeInput& take) {
  if (paths.empty()) reject("expected images: files, folders or tar archives");
  for (const std::string& path : paths) {
    std::error_code ignored;
    const bool is_folder = fs::is_directory(path, ignored);
    if (!is_folder && !is_tar_name(path)) {
      take({path, path, [&] { return read_whole(path); }});
      continue;
    }
    const auto tree = FileTree::open(path);
    std::int64_t images = 0;
    for (std::int64_t file = 0; file < tree->size(); ++file) {
      if (!is_picture(*tree, file)) continue;
      ++images;
      const std::string name =
          is_folder ? (fs::path(path) / tree->path(file)).native() : fmt::format("{}: {}", path, tree->path(file));
      take({name, name, [&] { return tree->read_text(file, std::numeric_limits<std::int64_t>::max()); }});
    }
    if (images == 0) reject("{}: expected images, got none", path);
    if (const std::int64_t others = tree->size() - images; others > 0)
      print_error(fmt::format("lacuna: note: {}: {} file{} no picture{}\n", path, others, others == 1 ? " is" : "s are",
                              others == 1 ? "" : "s"));
  }
}

std::string to_line(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// A row by column, its values as they stand in the file.
std::string row_of(const TableRow& row, const lacuna::Table& table, TableFormat format) {
  if (format == TableFormat::json_lines) {
    std::string object(row.record);
    std::ranges::replace_if(
        object, [](char c) { return c == '\n' || c == '\r'; }, ' ');  // never within a text
    return object;
  }
  ordered_json values;
  for (std::size_t i = 0; i < row.cells.size(); ++i) values[table.columns()[i]] = row.cells[i].text;
  return to_line(values);
}

/// The columns of texts: those of the command line, those that the run learned from, or usual ones.
TextColumns columns_to_read(const std::string& file, const std::vector<std::string>& given,
                            const std::vector<std::string>& learned) {
  const std::vector<std::string> there = lacuna::Table(file, {.format = format_of_table(file)}).columns();
  const bool are_there = std::ranges::all_of(learned, [&](const std::string& column) {
    const bool is_number = column.find_first_not_of("0123456789") == std::string::npos;
    return is_number || std::ranges::find(there, column) != there.end();
  });
  const std::vector<std::string>& named = given.empty() && are_there ? learned : given;
  TextColumns columns;
  if (!named.empty()) columns.text = named.front();
  if (named.size() == 2) columns.pair = named.back();
  columns =
      text_columns(file, std::move(columns), given.empty() && learned.size() == 2 ? RowsOf::pairs : RowsOf::texts);
  for (const std::string& column : {columns.text, columns.pair})
    if (columns.table.header && !column.empty() && std::ranges::find(there, column) == there.end())
      reject("{}: expected --column with the name of a column of texts: there are {}", file, fmt::join(there, ", "));
  return columns;
}

using TakeUnread = std::function<void(const Error&)>;

/// Hands on each row of a table: its texts in the columns `names`, its place, and itself. A row that cannot be read, or
/// has no such text, goes to `unread`.
template <class Take>
void each_row(const std::string& file, const TableOptions& options, const std::vector<std::string>& names,
              const TakeUnread& unread, const Take& take) {
  lacuna::Table table(file, options);
  const bool is_json = options.format == TableFormat::json_lines;
  table.select(is_json ? names : table.columns());  // no other values of an object are judged
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < names.size(); ++i)
    places.push_back(
        is_json ? i : static_cast<std::size_t>(std::ranges::find(table.columns(), names[i]) - table.columns().begin()));
  table.scan(
      [&](const TableRow& row) {
        const std::string place = fmt::format("{}:{}", file, row.line);
        std::vector<std::string> texts;
        for (std::size_t i = 0; i < names.size(); ++i) {
          const Cell& cell = row.cells[places[i]];
          if (cell.is_list || cell.text.empty()) {
            unread(Error(Fault::input, fmt::format("{}: expected a text in `{}`, got {}", place, names[i],
                                                   cell.is_list ? "a list" : "none")));
            return false;
          }
          texts.push_back(cell.text);
        }
        take(std::move(texts), place, row_of(row, table, options.format));
        return false;
      },
      unread);
}

void each_text_row(const std::string& file, const TextColumns& columns, const TakeInput& take,
                   const TakeUnread& unread) {
  std::vector<std::string> names{columns.text};
  if (!columns.pair.empty()) names.push_back(columns.pair);
  each_row(file, columns.table, names, unread,
           [&](std::vector<std::string> texts, const std::string& place, std::string row) {
             take({.name = texts[0],
                   .place = place,
                   .read = [text = texts[0]] { return text; },
                   .pair = texts.size() == 2 ? std::optional(texts[1]) : std::nullopt,
                   .row = std::move(row)});
           });
}

/// The pictures that a table names, relative to its folder or to that of the run's. `given`: their column; empty: the
/// run's, or the one that has names of pictures.
void each_picture_row(const std::string& file, std::string given, const Tree& run, const TakeInput& take,
                      const TakeUnread& unread) {
  const auto of_run = [&](std::string_view key) {
    const Tree* const value = value_of(run, "data", key);
    return value == nullptr ? std::string() : value->text;
  };
  const TableFormat format = format_of_table(file);
  const auto rows = first_rows(file, format, 2);
  const auto names_picture = [](const std::string& cell) { return is_image_name(cell); };
  const bool header = format == TableFormat::json_lines || std::ranges::none_of(rows.front(), names_picture);
  const std::vector<std::string> columns = lacuna::Table(file, {.format = format, .header = header}).columns();
  const auto has = [&](const std::string& column) { return std::ranges::find(columns, column) != columns.end(); };
  if (given.empty() && has(of_run(picture_table::column))) given = of_run(picture_table::column);
  if (given.empty())
    if (const auto found = std::ranges::find_if(rows.back(), names_picture); found != rows.back().end())
      given = columns[static_cast<std::size_t>(found - rows.back().begin())];
  if (!has(given))
    reject("{}: expected --column with the name of the column of pictures: there are {}", file,
           fmt::join(columns, ", "));
  const fs::path beside = fs::path(file).parent_path(), folder = of_run(picture_table::folder);
  each_row(file, {.format = format, .header = header}, {given}, unread,
           [&](const std::vector<std::string>& texts, const std::string& place, std::string row) {
             std::error_code ignored;
             const std::string name = texts[0] + of_run(picture_table::extension);
             const fs::path path = folder.empty() || fs::exists(beside / name, ignored) ? beside / name : folder / name;
             take({.name = path.native(),
                   .place = place,
                   .read = [path] { return read_whole(path.native()); },
                   .row = std::move(row)});
           });
}

/// Texts of the command line, or the lines of a file or of standard input.
void each_text(const std::vector<std::string>& texts, const std::string& input, const TakeInput& take) {
  const auto take_text = [&](const std::string& text, std::string place) {
    take({text, std::move(place), [&] { return text; }});
  };
  for (const std::string& text : texts)
    if (std::error_code ignored; fs::is_regular_file(text, ignored))
      reject("{0}: is a file, not a text: `--input {0}` takes its lines, or the rows of a table", text);
  for (const std::string& text : texts) take_text(text, fmt::format("`{}`", text));
  if (!texts.empty()) return;
  const bool standard = input.empty() || input == "-";
  const std::string name = standard ? "standard input" : input;
  std::ifstream file;
  if (!standard) {
    file.open(input);
    if (!file) reject("{}: cannot be read", input);
  }
  std::istream& stream = standard ? std::cin : file;
  std::int64_t line = 0;
  for (std::string text; std::getline(stream, text);) {
    if (!text.empty() && text.back() == '\r') text.pop_back();
    take_text(text, fmt::format("{}:{}", name, ++line));
  }
  if (stream.bad()) reject("{}: cannot be read beyond line {}", name, line);
}

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
    app.add_option("input", inputs_,
                   "images: files, folders, tar archives; or texts, without any the lines of standard input")
        ->type_name("IMAGES | TEXTS");
    app.add_option("--top", top_, "classes that are named for each image; 5 unless given")
        ->type_name("K")
        ->check(CLI::Range(1, 1'000'000));
    app.add_flag("--json", json_, "a line of JSON for each image; texts always have one");
    app.add_option("--input", file_,
                   "a file with a text on each line, or a table of texts or pictures (.csv, .tsv, .jsonl), whose rows "
                   "stand with their predictions; -: standard input")
        ->type_name("FILE");
    app.add_option("--column", columns_,
                   "column of a table's texts or pictures, by name or by number from 1; given again, that of second "
                   "ones; without it the "
                   "run's or a usual one")
        ->type_name("NAME")
        ->expected(1)
        ->take_all();
    app.add_flag("--pairs", pairs_, "each input is two texts with a tab between them");
    app.add_option("--base", base_, "folder or file with the base of an adapter, where that has moved")
        ->type_name("FOLDER");
    app.add_option("--max-length", max_length_,
                   "tokens of a text at most, the rest is cut off; 0: as many as the model takes")
        ->type_name("N")
        ->check(CLI::Range(0, 1 << 20));
    app.add_option("--out", masks_.folder,
                   "segmentation: folder for a mask of each image, a PNG of its classes; detection: for the "
                   "image with its boxes")
        ->type_name("FOLDER");
    app.add_flag("--overlay", masks_.overlays, "with --out: the image under its classes or boxes, too");
    app.add_option("--score", least_score_, "detection: least score of an object; 0: all that the model finds")
        ->type_name("S")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    app.add_flag("--add-one", masks_.add_one,
                 "with --out: class k has the value k + 1, where 0 counts for nothing, as in ADE20K");
    auto* const windows = app.add_flag("--windows", windows_,
                                       "segmentation: show the model overlapping parts of an image at its own shape");
    app.add_flag("--whole", whole_, "segmentation: show the model the whole image at once")->excludes(windows);
    app.footer(
        "Writes a line for each input, with what the model's task predicts: classes and probabilities, a value, an "
        "embedding, a label of each token, the shares of pixels of each class, boxes of objects. A language model goes "
        "on with each "
        "text, as `lacuna generate` does.");
  }

  ExitCode operator()() {
    const OpenedModel opened = open_model(from_, available_device({}), base_);
    if (find_field(opened.model->inputs(), FieldKind::edges) != nullptr) return predict_nodes(opened);
    const bool images = opened.reads_images();
    if (!images && top_ > 0) reject("{}: is a model of texts, and --top is for images", from_);
    if (!inputs_.empty() && !file_.empty()) reject("expected texts or --input, got both");
    const std::optional<TableFormat> table = table_format(file_);
    if (images && ((!file_.empty() && !table) || pairs_ || max_length_ > 0))
      reject("{}: is a model of images: --input takes a table, and --pairs and --max-length are for texts", from_);
    if (!columns_.empty() && !table) reject("--column: expected --input with a table (.csv, .tsv, .jsonl)");
    if (const std::size_t most = images ? 1 : 2; columns_.size() > most)
      reject("--column: expected {} at most, got {}", most, columns_.size());
    if (pairs_ && table) reject("--pairs: expected --column twice, which names the two columns of a table");
    const std::vector<std::string>& learned = opened.folder.columns;
    constexpr std::int64_t most_named = 5;
    if (images && top_ == 0) top_ = most_named;
    json_ = json_ || !images || table;
    if (auto* const model = dynamic_cast<LanguageModel*>(opened.model.get())) return go_on(*model, opened);
    const std::unique_ptr<const InputReader> reader = opened.reader(max_length_);
    const std::unique_ptr<Task> task = opened.task(reader->vocabulary());
    if (find_field(task->targets(), FieldKind::boxes) != nullptr) return predict_boxes(opened);
    const bool gives_masks = find_field(task->targets(), FieldKind::mask) != nullptr;
    if (!gives_masks && (!masks_.folder.empty() || masks_.overlays || masks_.add_one || windows_ || whole_))
      reject("{}: is no model of segmentation: expected no --out, --overlay, --add-one, --windows or --whole", from_);
    if (gives_masks) return predict_masks(opened);
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
  /// A JSON line for each node of the run's graph.
  ExitCode predict_nodes(const OpenedModel& opened) const {
    if (!opened.run) reject("{}: expected a run, whose data set has the graph", from_);
    if (!inputs_.empty() || !file_.empty() || pairs_ || !columns_.empty() || max_length_ > 0 ||
        !masks_.folder.empty() || masks_.overlays || masks_.add_one || windows_ || whole_)
      reject("{}: is a model of the run's graph: expected no inputs, and no option but --top", from_);
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
    if (masks_.folder.empty() && (masks_.overlays || masks_.add_one))
      reject("--overlay and --add-one: expected --out with a folder for the files");
    if (windows_) masks_.showing = Showing::windows;
    if (whole_) masks_.showing = Showing::fit;
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
    if (masks_.add_one || windows_ || whole_)
      reject("{}: is no model of segmentation: expected no --add-one, --windows or --whole", from_);
    if (masks_.folder.empty() && masks_.overlays) reject("--overlay: expected --out with a folder for the files");
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
    if (pairs_ || columns_.size() > 1 || max_length_ > 0)
      reject("{}: is a language model, which goes on with single texts as they are: expected no {}", from_,
             max_length_ > 0 ? "--max-length" : "pairs");
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
  bool pairs_ = false, json_ = false, windows_ = false, whole_ = false;
};

const RegisterCommand predict(22, "predict", "print a trained model's predictions for images or texts",
                              declare<Predict>);

}  // namespace
}  // namespace lacuna::apps
