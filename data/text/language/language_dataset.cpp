#include "data/text/language/language_dataset.h"

#include "core/error.h"
#include "core/parallel.h"
#include "data/text/json_list.h"
#include "data/text/split_rows.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

namespace lacuna {
namespace {

constexpr std::int32_t no_loss = -100;

std::int64_t tokens_of(const EncodedRow& row) {
  std::int64_t tokens = 0;
  for (const TokenSequence& sequence : row.sequences) tokens += std::ssize(sequence.tokens);
  return tokens;
}

RowExamples examples_of(const RowFiles& files, std::int64_t row, AlpacaAs alpaca) {
  std::string record = files.record(row);
  return files.is_line(row) ? read_line(std::move(record)) : read_row(record, alpaca);
}

EncodedRows encode_all(const RowFiles& files, const RowEncoder& encoder, const LanguageRows& how) {
  const AlpacaAs alpaca = how.alpaca;
  const bool preference = how.preference;
  EncodedRows out{.encoder = encoder.description()};
  std::vector<std::vector<EncodedRow>> encoded(static_cast<std::size_t>(files.size()));
  const auto at_row = [&](std::int64_t row, const auto& f) {
    try {
      f();
    } catch (const Error& error) {
      if (error.fault() != Fault::input) throw;
      reject("{}: {}", files.where(row), error.what());
    }
  };
  at_row(0, [&] {
    const RowExamples first = examples_of(files, 0, alpaca);
    out.form = first.form;
    out.has_chats = !first.sequences.front().chat.messages.is_null();
    out.has_texts = first.sequences.front().kind == Example::Kind::text;
    if ((out.form == RowForm::preference) != preference)
      reject("expected rows {} `chosen` and `rejected`: data.name={} reads these", preference ? "with" : "without",
             preference ? "language" : "preference");
  });
  std::mutex mutex;
  const auto encode = [&](std::int64_t row) {
    at_row(row, [&] {
      const RowExamples examples = examples_of(files, row, alpaca);
      if (examples.form != out.form) {
        std::set<std::string> keys;
        const nlohmann::ordered_json object = nlohmann::ordered_json::parse(files.record(row), nullptr, false);
        if (object.is_object())
          for (const auto& [key, value] : object.items()) keys.insert(key);
        reject("expected a row of the form `{}`, as the first row is, got `{}` with the keys {}", name_of(out.form),
               name_of(examples.form), keys.empty() ? "none" : fmt::format("{}", fmt::join(keys, ", ")));
      }
      encoded[static_cast<std::size_t>(row)] = encoder.encode(examples);
      std::set<std::string> unread = encoder.unread_keys(examples);
      unread.insert(examples.unread.begin(), examples.unread.end());
      if (!unread.empty()) {
        const std::scoped_lock lock(mutex);
        out.unread.merge(unread);
      }
    });
  };
  constexpr std::int64_t block = 4096;  // a mistake is found early
  for (std::int64_t begin = 0; begin < files.size(); begin += block)
    parallel_for(std::min(block, files.size() - begin), 8, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) encode(begin + row);
    });
  out.first.push_back(0);
  for (std::vector<EncodedRow>& row : encoded) {
    for (EncodedRow& one : row) out.rows.push_back(std::move(one));
    row.clear();
    out.first.push_back(static_cast<std::int32_t>(out.rows.size()));
  }
  return out;
}

std::string counted(std::int64_t count, std::string_view noun, std::string_view what) {
  return count == 0 ? std::string() : fmt::format("; {} {}{} {}", count, noun, count == 1 ? "" : "s", what);
}

/// Drops the rows that teach nothing, and says how many.
std::string keep_learned(const EncodedRows& encoded, const LanguageOptions& own, std::vector<std::int32_t>& rows) {
  std::int64_t cut = 0, dropped = 0, unlabelled = 0, twice = 0, control = 0, tokens = 0, learned = 0;
  std::vector<std::int32_t> kept;
  for (const std::int32_t i : rows) {
    const EncodedRow& row = encoded.rows[static_cast<std::size_t>(i)];
    twice += row.begins_twice ? 1 : 0;
    control += row.has_control ? 1 : 0;
    dropped += row.is_dropped ? 1 : 0;
    if (row.is_dropped) continue;
    cut += row.was_cut ? 1 : 0;
    unlabelled += row.is_unlabelled ? 1 : 0;
    if (row.is_unlabelled) continue;
    kept.push_back(i);
    tokens += tokens_of(row);
    for (const TokenSequence& sequence : row.sequences)
      learned += std::count(sequence.learned.begin() + 1, sequence.learned.end(), true);
  }
  const std::string_view noun = encoded.rows.size() + 1 == encoded.first.size() ? "row" : "window";
  std::string text = fmt::format("{} {}s of {}, {} tokens, of which {} are learned", kept.size(), noun,
                                 name_of(encoded.form), tokens, learned);
  if (encoded.has_chats && !encoded.encoder.empty()) text += "; " + encoded.encoder;
  text += counted(cut, noun, fmt::format("cut at {} tokens, so without an end (data.too_long)", own.max_length));
  text += counted(dropped, noun, fmt::format("left out, longer than {} tokens", own.max_length));
  text += counted(unlabelled, noun, "left out, in which nothing is learned");
  text += counted(twice, noun, "with two BOS tokens at the start, from the template and the text");
  text += counted(control, noun, "with special tokens written in a message, which become these tokens");
  if (!encoded.unread.empty()) text += fmt::format("; keys that are not read: {}", fmt::join(encoded.unread, ", "));
  rows = std::move(kept);
  return text;
}

/// A line about settings that these rows do not read; empty: there are none.
std::string warning_of_settings(const EncodedRows& encoded, const LanguageOptions& own, const LanguageRows& how,
                                const TokenizerConfig& config) {
  std::vector<std::string_view> unread;
  if (how.alpaca == AlpacaAs::chat && encoded.form != RowForm::alpaca) unread.emplace_back("data.alpaca");
  if (how.loss_on == LossOn::all && encoded.form == RowForm::tokens) unread.emplace_back("data.loss_on");
  if (!own.add_eos && !encoded.has_texts) unread.emplace_back("data.add_eos");
  if (!own.chat_template.empty() && !encoded.has_chats) unread.emplace_back("data.chat_template");
  const auto asks_date = [&] {
    const auto text = chat_template_text(own.chat_template, config);
    return text && text->find("strftime_now") != std::string::npos;
  };
  if (!own.template_date.empty() && (!encoded.has_chats || !asks_date())) unread.emplace_back("data.template_date");
  return unread.empty() ? std::string()
                        : fmt::format("\nwarning: without effect on these rows: {}", fmt::join(unread, ", "));
}

/// A line about conversations whose template is not that of the weights' tokenizer; empty: it is.
std::string warning_of_template(const std::string& named, const TokenizerConfig& config,
                                const DatasetOptions& options) {
  std::error_code ignored;
  const bool says =
      std::ranges::any_of(std::initializer_list<const char*>{"tokenizer.json", "vocab.txt"},
                          [&](auto name) { return std::filesystem::is_regular_file(options.model / name, ignored); });
  if (options.model.empty() || !says) return {};
  const auto& own = tokenizer_of({.tokenizer = options.model.string()}, options)->config().chat_templates;
  const auto used = chat_template_text(named, config);
  if (std::ranges::any_of(own, [&](const auto& one) { return one.second == used; })) return {};
  return fmt::format(
      "\nwarning: {} has {}: its weights have not learned the marks of this one, and adapters that leave the embedding "
      "frozen cannot teach them new tokens",
      options.model.native(), own.empty() ? "no chat template, as base models" : "another chat template");
}

}  // namespace

std::array<std::pair<std::string_view, TooLong>, 3> names_of(TooLong) {
  return {{{"cut", TooLong::cut}, {"drop", TooLong::drop}, {"cut_prompt", TooLong::cut_prompt}}};
}
std::array<std::pair<std::string_view, LossOn>, 2> names_of(LossOn) {
  return {{{"answers", LossOn::answers}, {"all", LossOn::all}}};
}
std::array<std::pair<std::string_view, AlpacaAs>, 2> names_of(AlpacaAs) {
  return {{{"text", AlpacaAs::text}, {"chat", AlpacaAs::chat}}};
}

Fields LanguageOptions::fields() {
  using O = LanguageOptions;
  return {
      field("validation", &O::validation, is_path, validation_file_help),
      field("val_fraction", &O::val_fraction, val_fractions, text_fraction_help),
      field("tokenizer", &O::tokenizer, is_path,
            "folder with `tokenizer.json` or `vocab.txt`, or one of these files; empty: that of the folder model.from"),
      field("max_length", &O::max_length, NumberRange{.low = 2, .high = 1 << 20}, "tokens per sequence"),
      field("too_long", &O::too_long,
            "sequences of more tokens: `cut` their ends, `drop` them, or `cut_prompt`, the beginning of the prompt "
            "first"),
      field("chat_template", &O::chat_template, PathKind::if_text_file,
            "file of a chat template, `.jinja` or `.txt`, or the name of one of the tokenizer's; empty: `default`"),
      field("template_date", &O::template_date, "today's date for chat templates that ask for it, as 2024-07-26"),
      field("add_eos", &O::add_eos,
            "whether texts and completions end with the tokenizer's eos_token; conversations end as their template "
            "says"),
      field("group_by_length", &O::group_by_length, training_only, "batch texts of similar length together")};
}

LanguageSplit open_language(const LanguageOptions& own, const LanguageRows& how, const DatasetOptions& options) {
  if (how.window_stride > 0 && own.too_long != TooLong::cut)
    reject("data.too_long: data.window_stride makes windows of long sequences, so that none is cut or dropped");
  if (how.window_stride > own.max_length)
    reject("data.window_stride: expected {} at most, as data.max_length says, got {}: tokens between windows were lost",
           own.max_length, how.window_stride);
  const SplitFiles files = split_files(own.validation, options);
  const TextOptions of_tokenizer{.tokenizer = own.tokenizer};
  LanguageSplit out{.tokenizer = tokenizer_of(of_tokenizer, options), .encoded = {}, .rows = {}, .info = {}};
  std::vector<std::string> names;
  for (const auto& file : files.files) names.push_back(file.string());
  const std::string name = fmt::format("{}", fmt::join(names, "\n"));
  const auto rows = options.files->get<RowFiles>(name, [&] { return std::make_shared<const RowFiles>(files.files); });
  const std::string key = fmt::format(
      "{}\n{}\n{} {} {} {} {} {} {}\n{}\n{}", name, tokenizer_path(of_tokenizer, options).native(),
      static_cast<int>(how.loss_on), static_cast<int>(how.alpaca), own.max_length, static_cast<int>(own.too_long),
      how.window_stride, own.add_eos, how.preference, own.chat_template, own.template_date);
  out.encoded = options.files->get<EncodedRows>(key, [&] {
    const RowEncoder encoder(out.tokenizer, {.loss_on = how.loss_on,
                                             .max_length = own.max_length,
                                             .too_long = own.too_long,
                                             .window_stride = how.window_stride,
                                             .add_eos = own.add_eos,
                                             .chat_template = own.chat_template,
                                             .template_date = own.template_date});
    return std::make_shared<const EncodedRows>(encode_all(*rows, encoder, how));
  });
  SplitRows split = split_rows({.file = files.files.front(),
                                .evaluated = files.evaluated,
                                .count = rows->size(),
                                .name_of = [&](std::int64_t row) { return rows->record(row); }},
                               own.val_fraction, options);
  for (const std::int32_t row : split.rows) {
    const auto file_row = static_cast<std::size_t>(row);
    for (std::int32_t i = out.encoded->first[file_row]; i < out.encoded->first[file_row + 1]; ++i)
      out.rows.push_back(i);
  }
  std::string description = fmt::format(
      "{}: {}", files.files.size() == 1 ? files.files.front().native() : fmt::format("{} files", files.files.size()),
      keep_learned(*out.encoded, own, out.rows));
  if (const std::string held = split.description(); !held.empty()) description += "; " + held;
  if (options.split == Split::train) {
    const TokenizerConfig& config = out.tokenizer->config();
    if (!config.contradiction.empty()) description += "\nwarning: " + config.contradiction;
    description += warning_of_settings(*out.encoded, own, how, config);
    if (out.encoded->has_chats) description += warning_of_template(own.chat_template, config, options);
  }
  if (out.rows.empty()) reject("{}: nothing is learned from these rows", description);
  SampleField tokens{.name = "tokens",
                     .kind = FieldKind::tokens,
                     .dtype = DType::i64,
                     .shape = {own.max_length},
                     .collation = Collation::packed,
                     .below = out.tokenizer->vocabulary().size};
  SampleField labels = tokens;
  labels.name = "labels";
  labels.kind = FieldKind::number;
  labels.padding = no_loss;
  out.info = {.name = how.preference ? "preference" : "language",
              .fields = {std::move(tokens), std::move(labels)},
              .description = std::move(description),
              .vocabulary = out.tokenizer->vocabulary(),
              .held_out = split.held_out};
  return out;
}

SampleField sequence_lengths_field() {
  return {.name = std::string(sequence_lengths),
          .dtype = DType::i64,
          .shape = {1},
          .collation = Collation::packed,
          .lengths = std::string(sequence_offsets)};
}

LanguageDataset::LanguageDataset(DatasetInfo info, std::shared_ptr<const EncodedRows> rows,
                                 std::vector<std::vector<std::int32_t>> samples)
    : Dataset(std::move(info)), rows_(std::move(rows)), samples_(std::move(samples)) {}

std::int64_t LanguageDataset::length(std::int64_t index) const {
  std::int64_t tokens = 0;
  for (const std::int32_t row : samples_[static_cast<std::size_t>(index)])
    tokens += tokens_of(rows_->rows[static_cast<std::size_t>(row)]);
  return tokens;
}

void LanguageDataset::read_sample(std::int64_t index, Sample& sample) const {
  const std::int64_t count = length(index);
  Tensor tokens = sample.make("tokens", {count}, DType::i64), labels = sample.make("labels", {count}, DType::i64);
  std::int64_t* token = tokens.data<std::int64_t>();
  std::int64_t* label = labels.data<std::int64_t>();
  std::vector<std::int32_t> lengths;
  for (const std::int32_t row : samples_[static_cast<std::size_t>(index)])
    for (const TokenSequence& sequence : rows_->rows[static_cast<std::size_t>(row)].sequences) {
      lengths.push_back(static_cast<std::int32_t>(sequence.tokens.size()));
      for (std::size_t i = 0; i < sequence.tokens.size(); ++i) {
        *token++ = sequence.tokens[i];
        *label++ = sequence.learned[i] ? sequence.tokens[i] : no_loss;
      }
    }
  sample.set("tokens", std::move(tokens));
  sample.set("labels", std::move(labels));
  if (std::ranges::find(info().fields, sequence_lengths, &SampleField::name) != info().fields.end())
    set_whole(sequence_lengths, lengths, {std::ssize(lengths)}, sample);
}

bool first_row_is(const std::filesystem::path& path, std::initializer_list<RowForm> forms) {
  try {
    const std::vector<std::filesystem::path> files = split_files("", {.path = path}).files;
    if (files.front().extension() == ".txt") return false;
    TextFile file(files.front());
    std::string record;
    if (is_json_list(file)) {
      std::int64_t at = 0, line = 1;
      const std::optional<JsonObject> object = next_in_list(file, at, line);
      if (object) record = file.part(object->begin, object->bytes);
    } else {
      file.next(record);
    }
    const std::optional<RowForm> form = form_of(nlohmann::ordered_json::parse(record, nullptr, false));
    return form && std::ranges::find(forms, *form) != forms.end();
  } catch (const Error&) {  // no text
    return false;
  }
}

}  // namespace lacuna
