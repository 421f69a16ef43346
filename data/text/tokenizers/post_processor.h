// Special tokens around texts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna {

class JsonReader;

/// An item of a template: a special token, or a text (0 or 1).
struct TemplateItem {
  std::int32_t id = -1;  // id of a special token; -1: a text
  int text = -1;
  std::int64_t type = 0;
};

struct PostProcessor {
  std::vector<TemplateItem> single{{.text = 0}}, pair{{.text = 0}, {.text = 1, .type = 1}};
  bool trims_spans = false;       // pieces leave out the white space at their ends
  bool keeps_added_space = true;  // where spans are trimmed, a space that a step put in front is not
};

/// BERT's template: [CLS] A [SEP] and [CLS] A [SEP] B [SEP].
PostProcessor bert_processor(std::int32_t begin, std::int32_t separator);

/// Reads the member `post_processor` of tokenizer.json.
PostProcessor read_post_processor(const JsonReader& root);

}  // namespace lacuna
