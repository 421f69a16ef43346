#include "apps/report/text_sheet.h"

#include "data/text/tokenizer.h"

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

namespace lacuna::apps {
namespace {

constexpr std::int64_t most_texts = 32;

/// The tokenizer of the data set; null where its tokens are drawn.
std::shared_ptr<const Tokenizer> shown_tokenizer(const Experiment& experiment) {
  const auto found = experiment.data.source.settings.find("tokenizer");
  if (found == experiment.data.source.settings.end() || found->second.text.empty()) return nullptr;
  return open_tokenizer(found->second.text);
}

std::string token_span(std::int32_t id, const std::string& text, bool is_learned) {
  std::string shown;
  for (const char c : for_html(text)) shown += c == '\n' ? "⏎\n" : std::string(1, c);
  return fmt::format("<span title=\"{}\"{}>{}</span>", id, is_learned ? " class=\"learned\"" : "", shown);
}

std::vector<std::int64_t> whole_numbers(const Sample& sample, std::string_view name) {
  if (!sample.tensors().contains(name) || sample[name].dtype() != DType::i64) return {};
  const Tensor& tensor = sample[name];
  const auto* const values = tensor.data<const std::int64_t>();
  return {values, values + tensor.count()};
}

}  // namespace

std::string for_html(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<' || c == '>' || c == '&' || c == '"')
      out += fmt::format("&#{};", static_cast<int>(c));
    else
      out += c;
  }
  return out;
}

std::string text_samples(const Experiment& experiment, const Dataset& dataset) {
  const std::shared_ptr<const Tokenizer> tokenizer = shown_tokenizer(experiment);
  const std::string field = find_field(dataset.info().fields, FieldKind::tokens)->name;
  const SampleField* const target = find_target(dataset.info().fields);
  std::string page;
  for (std::int64_t i = 0; i < std::min(most_texts, dataset.size()); ++i) {
    Sample sample;
    sample.begin(0);
    dataset.read(i, sample);
    const std::vector<std::int64_t> tokens = whole_numbers(sample, field);
    const bool has_labels = target != nullptr && sample[target->name].shape() == sample[field].shape();
    const std::vector<std::int64_t> labels =
        has_labels ? whole_numbers(sample, target->name) : std::vector<std::int64_t>();
    std::vector<std::int64_t> lengths = whole_numbers(sample, "sequence_lengths");
    if (lengths.empty()) lengths = {std::ssize(tokens)};
    page += fmt::format("<h2>Sample {}: {} tokens{}</h2>\n", i + 1, tokens.size(),
                        lengths.size() == 1 ? "" : fmt::format(" in {} sequences", lengths.size()));
    std::size_t at = 0;
    for (const std::int64_t length : lengths) {
      std::vector<std::int32_t> ids;
      page += "<p class=\"tokens\">";
      for (const std::size_t end = at + static_cast<std::size_t>(length); at < end; ++at) {
        ids.push_back(static_cast<std::int32_t>(tokens[at]));
        const std::string text = tokenizer ? tokenizer->decode({&ids.back(), 1}) : std::to_string(tokens[at]);
        page += token_span(ids.back(), text, has_labels && labels[at] >= 0);
      }
      page += "</p>\n";
      if (tokenizer) page += "<pre>" + for_html(tokenizer->decode(ids)) + "</pre>\n";
    }
  }
  return page;
}

}  // namespace lacuna::apps
