// Chat templates of transformers: Jinja, as its sandbox renders them (transformers 5.24, jinja2 3.1).
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

namespace chat {
struct Template;
}

struct TokenizerConfig;

/// A conversation, and what else a template sees.
struct Conversation {
  nlohmann::ordered_json messages{};  // a list of objects with `role` and `content`
  nlohmann::ordered_json tools{};     // a list, or null
  nlohmann::ordered_json more{};      // an object of further variables, or null
  bool add_generation_prompt = false;
};

/// A rendered conversation.
struct RenderedChat {
  struct Span {
    std::size_t begin, end;  // bytes of the text
    bool operator==(const Span&) const = default;
  };
  std::string text{};
  std::vector<Span> answers{};  // what generation blocks wrote
};

/// A template, read once. Rendering is thread-safe. It does not trust its template: steps, bytes and nesting are
/// limited, and whatever it asks for beyond the supported part of Jinja is the input's fault, by name.
class ChatTemplate {
 public:
  /// `name` begins every message.
  ChatTemplate(std::string_view source, std::string name);
  ~ChatTemplate();

  const std::string& name() const { return name_; }
  /// Whether it marks answers with generation blocks.
  bool marks_answers() const;
  /// Whether a word stands in its source.
  bool names(std::string_view word) const;
  /// `date` is today's for the template, as 2024-07-26; empty: a template that asks for it is refused. Null values of
  /// messages count as absent. An error that the template raises is the input's fault.
  RenderedChat render(const Conversation& conversation, const TokenizerConfig& tokens,
                      const std::string& date = "") const;

 private:
  std::string source_, name_;
  std::unique_ptr<const chat::Template> template_;
};

}  // namespace lacuna
