// A folder with a tokenizer of characters, and rows of language models shown as text.
#pragma once

#include "data/loader.h"
#include "data/text/tokenizer.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace lacuna::test {

/// One token for each ASCII character and for `el`; `<s>` begins texts; a template of `<u>`, `<a>` and `<e>`.
class LanguageFiles {
 public:
  static constexpr const char* usual_template =
      "{{ bos_token }}{% for m in messages %}{{ '<' ~ m.role[0] ~ '>' ~ m.content ~ '<e>\\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<a>' }}{% endif %}";

  explicit LanguageFiles(const std::string& chat_template = usual_template) {
    nlohmann::ordered_json vocabulary, added = nlohmann::ordered_json::array();
    for (const char* const token : {"<s>", "</s>", "<u>", "<a>", "<e>"}) {
      added.push_back({{"id", added.size()}, {"content", token}, {"special", true}, {"normalized", false}});
      vocabulary[token] = vocabulary.size();
    }
    vocabulary["\n"] = vocabulary.size();
    for (char c = ' '; c <= '~'; ++c) vocabulary[std::string(1, c)] = vocabulary.size();
    vocabulary["el"] = vocabulary.size();
    write(
        "tokenizer.json",
        nlohmann::ordered_json{
            {"added_tokens", added},
            {"post_processor",
             {{"type", "TemplateProcessing"},
              {"single",
               {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
              {"pair", {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "B"}, {"type_id", 0}}}}}},
              {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {0}}, {"tokens", {"<s>"}}}}}}}},
            {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"e l"}}}}}
            .dump());
    write("tokenizer_config.json",
          nlohmann::ordered_json{{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"chat_template", chat_template}}.dump());
  }

  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, std::string_view text) const { write_file(folder_ / name, text); }

  DatasetPtr open(const char* name, const std::string& path, OptionValues settings = {},
                  HoldOut hold_out = HoldOut::none, Split split = Split::train) const {
    settings.try_emplace("tokenizer", folder_.path());
    DatasetOptions options{.path = folder_ / path, .split = split, .settings = std::move(settings)};
    options.hold_out = hold_out;
    return open_dataset(name, options);
  }
  std::string refusal(const char* name, const std::string& path, OptionValues settings = {}) const {
    return refusal_of([&] { open(name, path, std::move(settings)); });
  }
  /// The tokens of each sample, with those that are learned between `[` and `]` and ` | ` between sequences.
  std::vector<std::string> shown(const DatasetPtr& data) const {
    const std::vector<std::string> names = open_tokenizer(folder_.path())->tokens();
    std::vector<std::string> out;
    for (std::int64_t i = 0; i < data->size(); ++i) {
      Sample sample;
      sample.begin(0);
      data->read(i, sample);
      const std::vector<double> tokens = sample["tokens"].to_vector(), labels = sample["labels"].to_vector();
      std::vector<double> lengths{static_cast<double>(tokens.size())};
      if (sample.tensors().contains("sequence_lengths")) lengths = sample["sequence_lengths"].to_vector();
      std::string text;
      std::size_t at = 0;
      for (const double length : lengths) {
        bool learned = false;
        if (at > 0) text += " | ";
        for (const std::size_t end = at + static_cast<std::size_t>(length); at < end; ++at) {
          CHECK((labels[at] == tokens[at] || labels[at] == -100));
          if (learned != (labels[at] >= 0)) text += learned ? "]" : "[";
          learned = labels[at] >= 0;
          text += names[static_cast<std::size_t>(tokens[at])];
        }
        if (learned) text += "]";
      }
      CHECK(at == tokens.size());
      CHECK(data->length(i) == static_cast<std::int64_t>(tokens.size()));
      out.push_back(text);
    }
    return out;
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace lacuna::test
