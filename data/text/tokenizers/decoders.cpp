// Decoders of the tokenizers library.
#include "data/text/tokenizers/decoder.h"
#include "data/text/tokenizers/metaspace.h"
#include "data/text/tokenizers/pattern.h"
#include "data/text/tokenizers/steps.h"
#include "data/text/tokenizers/word_piece_decoder.h"
#include "data/text/utf8.h"

#include <charconv>

namespace lacuna {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::size_t at = text.find(from), done = 0;
  if (at == std::string::npos) return;
  std::string out;
  for (; at != std::string::npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  text = out.append(text, done);
}

class ReplaceDecoder final : public DecodingStep {
 public:
  explicit ReplaceDecoder(const JsonReader& object) : pattern_(object), content_(object.text("content")) {}

 private:
  void apply(std::vector<std::string>& tokens) const override {
    Matches matches;
    for (std::string& token : tokens) {
      matches.clear();
      pattern_.find_all(token, matches);
      std::string out;
      for (const Match& part : matches) {
        if (!part.is_match)
          out.append(token, part.begin, part.end - part.begin);
        else if (part.begin < part.end)
          out += content_;
      }
      token = std::move(out);
    }
  }
  Pattern pattern_;
  std::string content_;
};

/// Joins runs of byte tokens (`<0x0A>`); each byte of a run that is not UTF-8 becomes U+FFFD.
class ByteFallbackDecoder final : public DecodingStep {
  static int byte_in(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
    int byte = -1;
    const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
    return error == std::errc{} && end == token.data() + 5 ? byte : -1;
  }
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (find_broken_utf8(bytes) == std::string::npos)
        out.push_back(bytes);
      else
        out.insert(out.end(), bytes.size(), "\xef\xbf\xbd");
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const int byte = byte_in(token); byte >= 0) {
        bytes.push_back(static_cast<char>(byte));
        continue;
      }
      flush();
      out.push_back(std::move(token));
    }
    flush();
    tokens = std::move(out);
  }
};

class Fuse final : public DecodingStep {
  void apply(std::vector<std::string>& tokens) const override {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens.assign(1, std::move(all));
  }
};

/// Removes a character from the ends of each token, up to a number of times.
class StripDecoder final : public DecodingStep {
 public:
  explicit StripDecoder(const JsonReader& object)
      : content_(object.text("content")), first_(object.number("start", 0)), last_(object.number("stop", 0)) {
    if (content_.empty()) reject("{}.content: expected a character, got none", object.place());
  }

 private:
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      for (std::int64_t i = 0; i < first_ && token.starts_with(content_); ++i) token.erase(0, content_.size());
      for (std::int64_t i = 0; i < last_ && token.ends_with(content_); ++i)
        token.resize(token.size() - content_.size());
    }
  }
  std::string content_;
  std::int64_t first_, last_;
};

class MetaspaceDecoder final : public DecodingStep {
 public:
  explicit MetaspaceDecoder(const JsonReader& object) : metaspace_(read_metaspace(object)) {}

 private:
  void apply(std::vector<std::string>& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], metaspace_.mark, i == 0 && metaspace_.scheme != Metaspace::never ? "" : " ");
  }
  Metaspace metaspace_;
};

/// Puts a space in place of the suffix of words, and takes it away from the last one.
class BpeDecoder final : public DecodingStep {
 public:
  explicit BpeDecoder(const JsonReader& object) : suffix_(object.text("suffix", "</w>")) {}

 private:
  void apply(std::vector<std::string>& tokens) const override {
    if (suffix_.empty()) return;
    for (std::size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
  }
  std::string suffix_;
};

template <class Step>
std::unique_ptr<const DecodingStep> make_decoder(const JsonReader& object) {
  if constexpr (std::is_constructible_v<Step, const JsonReader&>)
    return std::make_unique<Step>(object);
  else
    return std::make_unique<Step>();
}

const RegisterStep<DecodingStep> decoders[] = {
    {"Replace", make_decoder<ReplaceDecoder>},
    {"ByteFallback", make_decoder<ByteFallbackDecoder>},
    {"Fuse", make_decoder<Fuse>},
    {"Strip", make_decoder<StripDecoder>},
    {"Metaspace", make_decoder<MetaspaceDecoder>},
    {"BPEDecoder", make_decoder<BpeDecoder>},
    {"WordPiece",
     [](const JsonReader& object) -> std::unique_ptr<const DecodingStep> {
       return std::make_unique<WordPieceDecoder>(object.text("prefix", "##"), object.flag("cleanup", true));
     }},
};

}  // namespace

void WordPieceDecoder::apply(std::vector<std::string>& tokens) const {
  static constexpr std::pair<std::string_view, std::string_view> shorter[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string& token = tokens[i];
    if (i > 0) {
      if (token.starts_with(prefix_))
        token.erase(0, prefix_.size());
      else
        token.insert(token.begin(), ' ');
    }
    if (cleans_)
      for (const auto& [from, to] : shorter) replace_all(token, from, to);
  }
}

Metaspace read_metaspace(const JsonReader& object) {
  Metaspace metaspace{.mark = object.text("replacement", "\xe2\x96\x81")};
  if (metaspace.mark.empty() || first_character(metaspace.mark).bytes != metaspace.mark.size())
    reject("{}.replacement: expected one character, got `{}`", object.place(), metaspace.mark);
  const std::string scheme = object.text("prepend_scheme", object.flag("add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    reject("{}: the prepend_scheme {} is not supported", object.place(), scheme);
  metaspace.scheme = scheme == "always" ? Metaspace::always : scheme == "first" ? Metaspace::first : Metaspace::never;
  return metaspace;
}

}  // namespace lacuna
