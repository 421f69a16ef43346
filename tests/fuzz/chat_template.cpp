// Any bytes as a chat template and as its conversation in JSON: they are refused with an Error, or the spans of answers
// lie within the text, in order. The first line that is `--` parts template and conversation.
#include "data/text/chat/chat_template.h"
#include "core/error.h"
#include "data/text/tokenizers/parts.h"
#include "data/text/utf8.h"

#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lacuna;
  const std::string input(reinterpret_cast<const char*>(bytes), size);
  const std::size_t parts = std::min(input.find("\n--\n"), size);
  Conversation conversation{.add_generation_prompt = size % 2 == 1};
  if (parts < size) conversation.messages = nlohmann::ordered_json::parse(input.substr(parts + 4), nullptr, false);
  if (conversation.messages.is_discarded()) return 0;
  try {
    const ChatTemplate chat(std::string_view(input).substr(0, parts), "chat_template");
    const RenderedChat out = chat.render(conversation, {.bos = "<s>", .eos = "</s>"}, "2024-02-03");
    if (find_broken_utf8(out.text) != std::string::npos) std::abort();
    std::size_t last = 0;
    for (const RenderedChat::Span& span : out.answers) {
      if (span.begin > span.end || span.end > out.text.size() || span.begin < last) std::abort();
      last = span.begin;
    }
  } catch (const Error& error) {
    if (error.fault() != Fault::input) std::abort();
  }
  return 0;
}
