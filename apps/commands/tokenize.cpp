// lacuna tokenize: texts as the ids of a folder's tokenizer, and ids as text.
#include "apps/command.h"
#include "apps/config/paths.h"
#include "apps/output/output.h"
#include "core/error.h"
#include "core/json.h"
#include "data/text/text_file.h"
#include "data/text/tokenizer.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <nlohmann/json.hpp>

namespace lacuna::apps {
namespace {

using nlohmann::json, nlohmann::ordered_json;
using Ids = std::vector<std::int32_t>;

class Tokenize {
 public:
  explicit Tokenize(CLI::App& app) {
    app.add_option("folder", folder_, "folder with tokenizer.json or vocab.txt, or one of these files")
        ->type_name("FOLDER")
        ->required();
    app.add_option("texts", texts_, "texts; with --decode ids, as 15496,995")->type_name("TEXT");
    app.add_option("--input", input_,
                   "JSON list of texts, a list of two texts standing for a pair; with --decode of lists of ids")
        ->type_name("FILE");
    app.add_flag("--no-special", plain_, "leave out the special tokens that stand around a text");
    app.add_flag("--decode", decodes_, "turn ids into text");
    app.add_flag("--skip-special", skips_special_, "with --decode: leave out special tokens");
    report_.declare(app);
  }

  ExitCode operator()() const {
    if (texts_.empty() == input_.empty()) reject("expected texts, or --input with a file of them");
    if (skips_special_ && !decodes_) reject("--skip-special: expected --decode, which it is for");
    if (plain_ && decodes_)
      reject("--no-special: expected no --decode; --skip-special leaves special tokens out of a text");
    const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(expand_home(folder_));
    if (const std::string remark = tokenizer->remark(); !remark.empty() && !decodes_)
      print_error(fmt::format("lacuna: note: {}\n", remark));
    decodes_ ? decode(*tokenizer) : encode(*tokenizer);
    return 0;
  }

 private:
  /// The list in --input; null: there is no file.
  json input() const {
    if (input_.empty()) return nullptr;
    const std::string text = read_whole_file(expand_home(input_), "list of texts", std::int64_t{1} << 30);
    json list = parse_json(text, input_);
    if (!list.is_array()) reject("{}: expected a list, got {}", input_, list.type_name());
    return list;
  }

  void encode(const Tokenizer& tokenizer) const {
    ordered_json all = ordered_json::array();
    std::string shown;
    const std::vector<std::string> names = report_.for_people() ? tokenizer.tokens() : std::vector<std::string>();
    const auto add = [&](const std::string& text, const std::string* pair) {
      const std::vector<Tokenizer::Piece> pieces[2] = {
          tokenizer.pieces(text), pair == nullptr ? std::vector<Tokenizer::Piece>() : tokenizer.pieces(*pair)};
      const Tokenizer::Encoding encoding = plain_            ? plain(pieces)
                                           : pair == nullptr ? tokenizer.join(pieces[0])
                                                             : tokenizer.join(pieces[0], pieces[1]);
      if (report_.for_people()) {
        if (!shown.empty()) shown += '\n';
        for (std::size_t i = 0; i < encoding.tokens.size(); ++i) {
          const std::int32_t id = encoding.tokens[i], source = encoding.sources[i];
          std::string covered;
          if (source >= 0) {
            const Tokenizer::Piece& piece = pieces[source % 2][static_cast<std::size_t>(source / 2)];
            covered = quoted((source % 2 == 0 ? text : *pair).substr(piece.begin, piece.end - piece.begin));
          }
          shown += fmt::format("{:>8}  {:<20} {}", id, names[static_cast<std::size_t>(id)], covered);
          shown.erase(shown.find_last_not_of(' ') + 1);
          shown += '\n';
        }
      }
      all.push_back(encoding.tokens);
    };
    for (const std::string& text : texts_) add(text, nullptr);
    for (const json& each : input()) {
      const bool is_pair = each.is_array() && each.size() == 2 && each[0].is_string() && each[1].is_string();
      if (!is_pair && !each.is_string())
        reject("{}: expected a text or a list of two texts as item {}, got {}", input_, all.size() + 1,
               each.type_name());
      if (!is_pair) {
        add(each.get_ref<const std::string&>(), nullptr);
      } else {
        add(each[0].get_ref<const std::string&>(), &each[1].get_ref<const std::string&>());
      }
    }
    report_.write(shown, all);
  }

  static Tokenizer::Encoding plain(const std::vector<Tokenizer::Piece> (&pieces)[2]) {
    Tokenizer::Encoding encoding;
    for (const int text : {0, 1})
      for (std::size_t i = 0; i < pieces[text].size(); ++i) {
        encoding.tokens.push_back(pieces[text][i].id);
        encoding.sources.push_back(static_cast<std::int32_t>(2 * i) + text);
      }
    return encoding;
  }

  static std::string quoted(const std::string& text) {
    return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
  }

  void decode(const Tokenizer& tokenizer) const {
    ordered_json all = ordered_json::array();
    std::string shown;
    const auto add = [&](const Ids& ids) {
      const std::string text = tokenizer.decode(ids, skips_special_);
      shown += text + "\n";
      all.push_back(text);
    };
    for (const std::string& text : texts_) add(ids_in(text));
    for (const json& each : input()) {
      Ids ids;
      const auto refuse = [&] {
        reject("{}: expected a list of ids as item {}, got {}", input_, all.size() + 1, each.dump());
      };
      if (!each.is_array()) refuse();
      for (const json& id : each) {
        if (!id.is_number_integer() || id < 0 || id > INT32_MAX) refuse();
        ids.push_back(id.get<std::int32_t>());
      }
      add(ids);
    }
    report_.write(shown, all);
  }

  static Ids ids_in(const std::string& text) {
    Ids ids;
    for (const char *at = text.data(), *const end = at + text.size(); at != end;) {
      if (*at == ',' || *at == ' ') {
        ++at;
        continue;
      }
      std::int32_t id = 0;
      const auto [after, error] = std::from_chars(at, end, id);
      if (error != std::errc{} || id < 0) reject("--decode: expected ids, as 15496,995, got {}", text);
      ids.push_back(id);
      at = after;
    }
    return ids;
  }

  std::string folder_, input_;
  std::vector<std::string> texts_;
  bool plain_ = false, decodes_ = false, skips_special_ = false;
  Report report_;
};

const RegisterCommand tokenize(26, "tokenize", "show the tokens of texts, or the text of tokens", declare<Tokenize>);

}  // namespace
}  // namespace lacuna::apps
