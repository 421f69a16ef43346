#include "data/text/tokenizers/post_processor.h"

#include "data/text/tokenizers/steps.h"

#include <algorithm>

namespace lacuna {
namespace {

using nlohmann::json;

std::vector<TemplateItem> read_template(const JsonReader& processor, const char* key) {
  std::vector<TemplateItem> items;
  const std::string place = fmt::format("{}.{}", processor.place(), key);
  const JsonReader special = processor.inner("special_tokens");
  for (const json& each : processor.list(key)) {
    const JsonReader item(each, place);
    const bool sequence = item.find("Sequence") != nullptr;
    const JsonReader body = item.inner(sequence ? "Sequence" : "SpecialToken");
    const std::string id = body.text("id", "");
    const std::int64_t type = body.number("type_id", 0);
    if (type < 0 || type > 1) reject("{}: expected type_id 0 or 1, got {}", place, type);
    if (!items.empty() && type < items.back().type)  // EncodedText stores only the position where the type rises
      reject("{}: expected type_id 0 before 1, got 0 after 1", place);
    if (sequence) {
      if (id != "A" && id != "B") reject("{}: expected the sequence A or B, got {}", place, id);
      items.push_back({.text = id == "A" ? 0 : 1, .type = type});
      continue;
    }
    const JsonReader token = special.inner(id.c_str());
    for (const json& number : token.list("ids"))
      items.push_back({.id = token_id_in(number, token.place()), .type = type});
  }
  return items;
}

PostProcessor read_template_processor(const JsonReader& object) {
  PostProcessor processor{.single = read_template(object, "single"), .pair = read_template(object, "pair")};
  for (const auto* const items : {&processor.single, &processor.pair})
    for (const int text : {0, 1})
      if (std::ranges::count(*items, text, &TemplateItem::text) != (text == 0 || items == &processor.pair))
        reject("{}: expected `single` with the sequence A, and `pair` with A and B", object.place());
  return processor;
}

/// The id in a token and its id.
std::int32_t read_pair(const JsonReader& object, const char* key) {
  const json& token = object.list(key);
  if (token.size() != 2) reject("{}.{}: expected a token and its id", object.place(), key);
  return token_id_in(token[1], fmt::format("{}.{}", object.place(), key));
}

PostProcessor roberta_processor(std::int32_t begin, std::int32_t separator) {
  return {.single = {{.id = begin}, {.text = 0}, {.id = separator}},
          .pair = {{.id = begin}, {.text = 0}, {.id = separator}, {.id = separator}, {.text = 1}, {.id = separator}}};
}

}  // namespace

PostProcessor bert_processor(std::int32_t begin, std::int32_t separator) {
  return {
      .single = {{.id = begin}, {.text = 0}, {.id = separator}},
      .pair = {{.id = begin}, {.text = 0}, {.id = separator}, {.text = 1, .type = 1}, {.id = separator, .type = 1}}};
}

PostProcessor read_post_processor(const JsonReader& root) {
  PostProcessor all;
  std::string with_tokens;  // the step that adds special tokens
  each_step(root, "post_processor", "processors", [&](const JsonReader& step, const std::string& type) {
    const JsonReader object(step.value(), fmt::format("{} ({})", step.place(), type));
    const bool bert = type == "BertProcessing", roberta = type == "RobertaProcessing";
    if (roberta || type == "ByteLevel") {
      all.trims_spans = all.trims_spans || object.flag("trim_offsets", true);
      all.keeps_added_space = object.flag("add_prefix_space", true);
      if (!roberta) return;
    }
    if (!bert && !roberta && type != "TemplateProcessing")
      reject(
          "{}: post_processor of type {} is not supported; supported are BertProcessing, ByteLevel, "
          "RobertaProcessing, TemplateProcessing",
          step.place(), type.empty() ? "none" : type);
    if (!with_tokens.empty())
      reject("{}: expected one step that adds special tokens, got {} and {}", step.place(), with_tokens, type);
    with_tokens = type;
    PostProcessor one = bert      ? bert_processor(read_pair(object, "cls"), read_pair(object, "sep"))
                        : roberta ? roberta_processor(read_pair(object, "cls"), read_pair(object, "sep"))
                                  : read_template_processor(object);
    all.single = std::move(one.single);
    all.pair = std::move(one.pair);
  });
  return all;
}

}  // namespace lacuna
