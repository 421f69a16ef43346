// lacuna generate: texts that a language model goes on with.
#include "apps/command.h"
#include "apps/commands/continuation.h"
#include "apps/commands/opened_model.h"
#include "apps/config/paths.h"
#include "apps/output/output.h"
#include "core/error.h"
#include "core/json.h"
#include "core/text.h"
#include "data/text/chat/chat_template.h"
#include "data/text/text_file.h"
#include "data/text/tokenizer.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace lacuna::apps {
namespace {

using nlohmann::json, nlohmann::ordered_json;

/// Writes a text while it grows; bytes of a character that is not whole yet are kept back.
class Stream {
 public:
  Stream(const Tokenizer& tokenizer, const std::vector<std::int32_t>& prompt)
      : tokenizer_(tokenizer), before_(prompt) {}

  void add(std::int32_t token) {
    tokens_.push_back(token);
    const std::string text = text_behind(tokenizer_, before_, tokens_);
    constexpr std::string_view incomplete = "\xEF\xBF\xBD";
    if (text.empty() || text.ends_with(incomplete)) return;
    print_output(text);
    std::fflush(stdout);
    before_ = std::exchange(tokens_, {});  // whole characters, which is all that those behind depend on
  }
  void end() { print_output(text_behind(tokenizer_, before_, tokens_) + "\n"); }

 private:
  const Tokenizer& tokenizer_;
  std::vector<std::int32_t> before_, tokens_;  // written, and not yet
};

class Generate {
 public:
  explicit Generate(CLI::App& app) {
    app.add_option("model", from_, "a run, one of its checkpoints, or a folder with a language model and its tokenizer")
        ->type_name("RUN | RUN/last | FOLDER")
        ->required();
    app.add_option("prompts", prompts_, "texts to go on with")->type_name("PROMPT");
    app.add_option("--input", input_, "JSON list of prompts, or a file with one on each line")->type_name("FILE");
    app.add_flag("--chat", chats_,
                 "render prompts by the tokenizer's chat template, each as a conversation of its own; without prompts "
                 "the lines of standard input are the turns of one");
    app.add_option("--system", system_, "with --chat: the system's turn")->type_name("TEXT");
    app.add_option("--template-date", date_, "with --chat: today for templates that ask, as 2024-07-26")
        ->type_name("DATE");
    app.add_option("--base", base_, "folder or file with the base of an adapter, where that has moved")
        ->type_name("FOLDER");
    app.add_flag("--sample", draws_,
                 "draw tokens; without it generation_config.json says whether, or the likeliest one is taken");
    app.add_flag("--greedy", greedy_, "take the likeliest token, whatever generation_config.json says");
    const auto number = [&]<class T>(const char* name, std::optional<T>& value, const char* help, NumberBetween range) {
      app.add_option(name, value, help)->check(CLI::Range(static_cast<T>(range.low), static_cast<T>(range.high)));
    };
    number("--max-new-tokens", most_, "tokens that are made at most; 256 unless generation_config.json says otherwise",
           token_counts);
    number("--temperature", temperature_, "divides the logits; draws", factors);
    number("--top-k", top_k_, "draw from the K likeliest tokens; 0: from all; draws", counts);
    number("--top-p", top_p_, "draw from the likeliest tokens whose probabilities reach P; draws", shares);
    number("--min-p", min_p_, "draw from tokens with this part of the largest probability; draws", shares);
    number("--repetition-penalty", penalty_, "weakens the logits of tokens that stand before", factors);
    number("--no-repeat-ngram-size", ngram_, "no N tokens in a row occur twice; 0: they may", counts);
    app.add_option("--seed", seed_, "seed of the draws; 1 unless given");
    app.add_option("--stop", stops_, "a further token that ends a text, by its text; given again, several")
        ->type_name("TOKEN")
        ->expected(1)
        ->take_all();
    report_.declare(app);
  }

  ExitCode operator()() const {
    if (draws_ && greedy_) reject("expected --sample or --greedy, got both");
    if (!chats_ && (!system_.empty() || !date_.empty())) reject("--system, --template-date: expected --chat");
    OpenedModel opened = open_model(from_, available_device({}), base_);
    auto* const model = dynamic_cast<LanguageModel*>(opened.model.get());
    if (model == nullptr)
      reject("{}: expected a language model, which goes on with a text; predict is for others", from_);
    const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(opened.texts);
    const GenerationOptions options = options_of(opened, *tokenizer);
    ordered_json all = ordered_json::array();
    if (chats_) {
      talk(*model, *tokenizer, options, all);
    } else {
      const std::vector<std::string> texts = prompts();
      std::vector<std::vector<std::int32_t>> ids;
      for (const std::string& text : texts) {  // all before the first answer
        ids.push_back(tokenizer->encode(text).tokens);
        if (ids.back().empty() || std::ssize(ids.back()) > model->positions())
          reject("expected prompts of 1 to {} tokens, got {} in prompt {}", model->positions(), ids.back().size(),
                 ids.size());
      }
      for (std::size_t i = 0; i < texts.size(); ++i)
        all.push_back(answer(*model, *tokenizer, ids[i], texts[i], options));
    }
    report_.write("", all);
    return 0;
  }

 private:
  std::vector<std::string> prompts() const {
    if (prompts_.empty() == input_.empty()) reject("expected prompts, or --input with a file of them");
    if (input_.empty()) return prompts_;
    const std::string text = read_whole_file(expand_home(input_), "list of prompts", std::int64_t{1} << 30);
    const bool is_json = lower_case(std::filesystem::path(input_).extension().string()) == ".json";
    const json list = is_json ? parse_json(text, input_) : json::parse(text, nullptr, false);
    if (is_json && !list.is_array()) reject("{}: expected a list of texts, got {}", input_, list.type_name());
    std::vector<std::string> read;
    if (list.is_array()) {
      for (const json& one : list) {
        if (!one.is_string())
          reject("{}: expected a text as item {}, got {}", input_, read.size() + 1, one.type_name());
        read.push_back(one.get<std::string>());
      }
    } else {
      TextFile file(expand_home(input_));
      for (std::string line; file.next(line);) {
        if (line.find_first_not_of(" \t") == std::string::npos)
          reject("{}:{}: expected a prompt, got a blank line", input_, file.line());
        read.push_back(line);
      }
    }
    if (read.empty()) reject("{}: expected prompts, got none", input_);
    return read;
  }

  GenerationOptions options_of(const OpenedModel& opened, const Tokenizer& tokenizer) const {
    GenerationOptions options = generation_options(opened, tokenizer);
    for (const std::string& stop : stops_) options.stops.push_back(tokenizer.id_of(stop, "--stop"));
    Sampling& sampling = options.sampling;
    const bool shapes_draws = temperature_ || top_k_ || top_p_ || min_p_;
    if (shapes_draws && greedy_) reject("--greedy: expected none of --temperature, --top-k, --top-p and --min-p");
    options.most = most_.value_or(options.most);
    sampling.draws = (sampling.draws || draws_ || shapes_draws) && !greedy_;
    sampling.temperature = temperature_.value_or(sampling.temperature);
    sampling.top_k = top_k_.value_or(sampling.top_k);
    sampling.top_p = top_p_.value_or(sampling.top_p);
    sampling.min_p = min_p_.value_or(sampling.min_p);
    sampling.repetition_penalty = penalty_.value_or(sampling.repetition_penalty);
    sampling.no_repeat_ngram = ngram_.value_or(sampling.no_repeat_ngram);
    if (seed_ && !sampling.draws) reject("--seed: expected --sample or another option that draws");
    sampling.seed = seed_.value_or(sampling.seed);
    return options;
  }

  /// A conversation for each prompt, or without any one whose turns are the lines of standard input.
  void talk(LanguageModel& model, const Tokenizer& tokenizer, GenerationOptions options, ordered_json& all) const {
    const auto& templates = tokenizer.config().chat_templates;
    const auto usual = templates.find("default");
    if (usual == templates.end())
      reject("--chat: {} has no chat template: it is a base model, which goes on with texts", from_);
    const ChatTemplate chat(usual->second, from_);
    stop_behind_turns(chat, tokenizer, options);
    ordered_json start = ordered_json::array();
    if (!system_.empty()) start.push_back({{"role", "system"}, {"content", system_}});
    const auto turn = [&](ordered_json& messages, const std::string& said) {
      messages.push_back({{"role", "user"}, {"content", said}});
      if (tokenizer.has_special(said))
        print_error("lacuna: warning: special tokens that are written in a turn become these tokens\n");
      const RenderedChat text =
          chat.render({.messages = messages, .add_generation_prompt = true}, tokenizer.config(), date_);
      std::vector<std::int32_t> ids;  // the template writes special tokens itself
      for (const Tokenizer::Piece& piece : tokenizer.pieces(text.text)) ids.push_back(piece.id);
      all.push_back(answer(model, tokenizer, ids, said, options));
      messages.push_back({{"role", "assistant"}, {"content", all.back().at("text")}});
    };
    if (!prompts_.empty() || !input_.empty()) {
      for (const std::string& prompt : prompts()) {
        ordered_json messages = start;
        turn(messages, prompt);
      }
      return;
    }
    for (std::string line; std::getline(std::cin, line);)
      if (!line.empty()) turn(start, line);
  }

  /// Adds the special token that ends an answer in the template to the stops.
  void stop_behind_turns(const ChatTemplate& chat, const Tokenizer& tokenizer, GenerationOptions& options) const {
    const std::string mark = "\xee\x80\x80";  // U+E000, for private use
    const auto turn = [](const char* role, const std::string& content) {
      return ordered_json{{"role", role}, {"content", content}};
    };
    std::string text;
    try {
      text = chat.render({.messages = {turn("user", "?"), turn("assistant", mark)}}, tokenizer.config(), date_).text;
    } catch (const Error&) {  // rendering the conversation reports the error
      return;
    }
    const std::size_t at = text.find(mark);
    if (at == std::string::npos) return;
    const std::vector<std::int64_t>& special = tokenizer.vocabulary().special;
    for (const Tokenizer::Piece& piece : tokenizer.pieces(std::string_view(text).substr(at + mark.size()))) {
      if (std::ranges::find(special, piece.id) == special.end()) continue;
      if (std::ranges::find(options.stops, piece.id) != options.stops.end()) return;
      print_error(fmt::format(
          "lacuna: note: {} ends a turn of the chat template, and texts end there too: generation_config.json does not "
          "name it in `eos_token_id`\n",
          tokenizer.tokens()[static_cast<std::size_t>(piece.id)]));
      options.stops.push_back(piece.id);
      return;
    }
  }

  ordered_json answer(LanguageModel& model, const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids,
                      const std::string& prompt, const GenerationOptions& options) const {
    Stream stream(tokenizer, ids);
    const ordered_json made = continuation(model, tokenizer, ids, options, [&](std::int32_t token) {
      if (report_.for_people()) stream.add(token);
    });
    if (report_.for_people()) stream.end();
    ordered_json result{{"prompt", prompt}};
    result.update(made);
    return result;
  }

  std::string from_, input_, base_, system_, date_;
  std::vector<std::string> prompts_, stops_;
  bool draws_ = false, greedy_ = false, chats_ = false;
  std::optional<double> temperature_, top_p_, min_p_, penalty_;
  std::optional<std::int64_t> most_, top_k_, ngram_;
  std::optional<std::uint64_t> seed_;
  Report report_;
};

const RegisterCommand generating(23, "generate", "go on with a text", declare<Generate>);

}  // namespace
}  // namespace lacuna::apps
