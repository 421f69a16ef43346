#include "data/text/chat/chat_template.h"

#include "data/text/chat/functions.h"
#include "data/text/chat/syntax.h"
#include "data/text/tokenizers/parts.h"

#include "core/error.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <span>
#include <utility>

namespace lacuna {
namespace chat {
namespace {

class Rendering {
 public:
  Rendering(const Template& source, std::vector<std::pair<std::string, Value>> variables, const std::string& date)
      : context_{budget_, date}, source_(source) {
    scopes_.push_back({.values = std::move(variables), .parent = none_around});
    scopes_.push_back({.values = {}, .parent = 0});
  }

  RenderedChat run() {
    run_all(source_.statements);
    return {std::move(out_), std::move(answers_)};
  }
  int line() const { return line_; }

 private:
  static constexpr std::size_t none_around = static_cast<std::size_t>(-1), whole_template = 1;
  enum class Flow : std::uint8_t { go_on, next, stop };
  struct Scope {
    std::vector<std::pair<std::string, Value>> values{};
    std::size_t parent;
  };

  /// A level of nesting while it lives.
  class Level {
   public:
    explicit Level(int& depth) : depth_(depth) {
      constexpr int most = 600;
      if (++depth_ > most) reject("macros and expressions are nested deeper than {}", most);
    }
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    int& depth_;
  };

  const Value* find(std::string_view name) const {
    for (std::size_t scope = scopes_.size() - 1; scope != none_around; scope = scopes_[scope].parent)
      for (const auto& [key, value] : scopes_[scope].values)
        if (key == name) return &value;
    return nullptr;
  }
  void set(const std::string& name, Value value) {
    auto& values = scopes_.back().values;
    const auto found = std::ranges::find(values, name, [](const auto& one) -> const std::string& { return one.first; });
    if (found == values.end())
      values.emplace_back(name, std::move(value));
    else
      found->second = std::move(value);
  }
  void set_all(const std::vector<std::string>& names, Value value) {
    if (names.size() == 1) return set(names.front(), std::move(value));
    const Values parts = elements(value);
    if (parts.size() != names.size())
      reject("expected {} values for as many names, got {}", names.size(), parts.size());
    for (std::size_t i = 0; i < names.size(); ++i) set(names[i], parts[i]);
  }
  void set_of(const Statement& statement, Value value) {
    if (!statement.of_namespace) return set_all(statement.names, std::move(value));
    const Value* const of = find(statement.names[0]);
    const auto* const space = of == nullptr ? nullptr : of->get<std::shared_ptr<Namespace>>();
    if (space == nullptr) reject("expected a namespace to set `{}.{}`", statement.names[0], statement.names[1]);
    if (value.has<std::shared_ptr<Namespace>>() || value.has<Method>() || value.has<std::shared_ptr<const Loop>>())
      reject("expected no {} within a namespace", type_name(value));
    (*space)->values.insert_or_assign(statement.names[1], std::move(value));
  }

  Flow run_all(const std::vector<Statement>& statements) {
    for (const Statement& statement : statements)
      if (const Flow flow = run(statement); flow != Flow::go_on) return flow;
    return Flow::go_on;
  }
  Flow run(const Statement& statement) {
    const Level level(depth_);
    budget_.step();
    line_ = statement.line;
    switch (statement.kind) {
      case Statement::Kind::data:
        write(statement.text);
        break;
      case Statement::Kind::output:
        write(str(evaluate(statement.expressions[0])));
        break;
      case Statement::Kind::branch:
        return run_branch(statement);
      case Statement::Kind::loop:
        return run_loop(statement);
      case Statement::Kind::set:
        set_of(statement, evaluate(statement.expressions[0]));
        break;
      case Statement::Kind::set_block: {
        set_of(statement, captured([&] { run_all(statement.bodies[0]); }));
        break;
      }
      case Statement::Kind::macro:
        if (scopes_.size() != whole_template + 1) reject("macros within loops and macros are not supported");
        set(statement.text, {Macro{&statement}});
        break;
      case Statement::Kind::generation:
        run_generation(statement);
        break;
      case Statement::Kind::stop:
        return Flow::stop;
      case Statement::Kind::next:
        return Flow::next;
    }
    return Flow::go_on;
  }
  void write(std::string_view text) {
    constexpr std::size_t most = longest_text;
    if (text.size() > most - out_.size()) reject("the template writes more than {} bytes", most);
    budget_.make(text.size());
    out_ += text;
  }
  /// The text that `f` writes.
  template <class F>
  Value captured(const F& f) {
    std::string before = std::exchange(out_, {});
    ++captures_;
    f();
    --captures_;
    return text(std::exchange(out_, std::move(before)));
  }
  Flow run_branch(const Statement& statement) {
    for (std::size_t i = 0; i < statement.bodies.size(); ++i)
      if (i == statement.expressions.size() || is_true(evaluate(statement.expressions[i])))
        return run_all(statement.bodies[i]);
    return Flow::go_on;
  }
  Flow run_loop(const Statement& statement) {
    const Value all = evaluate(statement.expressions[0]);
    budget_.make(length(all), sizeof(Value));
    Values items = elements(all);
    if (statement.expressions.size() > 1) {
      Values kept;
      for (Value& one : items) {
        scopes_.push_back({.values = {}, .parent = scopes_.size() - 1});
        set_all(statement.names, one);
        if (is_true(evaluate(statement.expressions[1]))) kept.push_back(std::move(one));
        scopes_.pop_back();
      }
      items = std::move(kept);
    }
    if (items.empty()) {
      if (statement.bodies.size() == 1) return Flow::go_on;
      scopes_.push_back({.values = {}, .parent = scopes_.size() - 1});
      const Flow flow = run_all(statement.bodies[1]);
      scopes_.pop_back();
      return flow;
    }
    const auto shared = std::make_shared<const List>(List{std::move(items)});
    for (std::size_t i = 0; i < shared->items.size(); ++i) {
      scopes_.push_back({.values = {}, .parent = scopes_.size() - 1});
      set("loop", {std::make_shared<const Loop>(Loop{shared, i})});
      set_all(statement.names, shared->items[i]);
      const Flow flow = run_all(statement.bodies[0]);
      scopes_.pop_back();
      if (flow == Flow::stop) break;
    }
    return Flow::go_on;
  }
  void run_generation(const Statement& statement) {
    if (captures_ > 0) reject("`generation` within a macro or a `set` block is not supported");
    const std::size_t begin = out_.size();
    scopes_.push_back({.values = {}, .parent = scopes_.size() - 1});
    run_all(statement.bodies[0]);
    scopes_.pop_back();
    answers_.push_back({begin, out_.size()});
  }

  Value evaluate(const Expression& expression) {
    const Level level(depth_);
    budget_.step();
    const std::vector<Expression>& parts = expression.parts;
    switch (expression.kind) {
      case Expression::Kind::constant:
        return expression.constant;
      case Expression::Kind::name: {
        if (const Value* const found = find(expression.name)) return *found;
        const Function* const function = find_global(expression.name);
        return function != nullptr ? Value{Global{function}} : undefined(expression.name);
      }
      case Expression::Kind::list:
      case Expression::Kind::tuple: {
        budget_.make(parts.size() * sizeof(Value));
        return list(values_of(parts), expression.kind == Expression::Kind::tuple);
      }
      case Expression::Kind::map:
        return mapping(parts);
      case Expression::Kind::attribute:
        return attribute(evaluate(parts[0]), expression.name);
      case Expression::Kind::item: {
        const Value of = evaluate(parts[0]);
        if (of.text() != nullptr) budget_.make(of.text()->size());
        return item(of, evaluate(parts[1]));
      }
      case Expression::Kind::slice: {
        const Value of = evaluate(parts[0]), begin = evaluate(parts[1]), end = evaluate(parts[2]);
        return charged(slice(of, begin, end, evaluate(parts[3]), budget_));
      }
      case Expression::Kind::call:
        return call(expression);
      case Expression::Kind::filter:
      case Expression::Kind::test: {
        const Value self = evaluate(parts[0]);
        Arguments arguments = arguments_of(expression);
        return charged(expression.function->call(self, arguments, context_));
      }
      case Expression::Kind::sign: {
        const Value of = evaluate(parts[0]);
        if (!is_number(of)) reject("expected a number behind `{}`, got {}", expression.name, type_name(of));
        if (of.has<double>()) return {expression.name == "-" ? -number(of) : number(of)};
        return arithmetic(expression.name[0], {std::int64_t{0}}, of, budget_);
      }
      case Expression::Kind::arithmetic: {
        const Value left = evaluate(parts[0]);
        const char sign = expression.name == "**" ? '^' : expression.name == "//" ? ':' : expression.name[0];
        return arithmetic(sign, left, evaluate(parts[1]), budget_);
      }
      case Expression::Kind::concat: {
        std::string all;
        for (const Expression& part : parts) all += str(evaluate(part));
        return charged(text(std::move(all)));
      }
      case Expression::Kind::comparison:
        return comparison(expression);
      case Expression::Kind::logical_and: {
        Value left = evaluate(parts[0]);
        return is_true(left) ? evaluate(parts[1]) : left;
      }
      case Expression::Kind::logical_or: {
        Value left = evaluate(parts[0]);
        return is_true(left) ? left : evaluate(parts[1]);
      }
      case Expression::Kind::logical_not:
        return {!is_true(evaluate(parts[0]))};
      case Expression::Kind::conditional:
        return evaluate(parts[is_true(evaluate(parts[0])) ? 1 : 2]);
    }
    return undefined();
  }
  Value charged(Value value) {
    if (value.text() != nullptr) budget_.make(value.text()->size());
    if (value.list() != nullptr) budget_.make(value.list()->items.size() * sizeof(Value));
    return value;
  }
  Values values_of(std::span<const Expression> parts) {
    Values out;
    for (const Expression& part : parts) out.push_back(evaluate(part));
    return out;
  }
  Value mapping(const std::vector<Expression>& parts) {
    std::vector<std::pair<std::string, Value>> items;
    for (std::size_t i = 0; i < parts.size(); i += 2) {
      const Value key = evaluate(parts[i]);
      if (key.text() == nullptr) reject("expected texts as keys of a mapping, got {}", type_name(key));
      budget_.make(sizeof(Value) * 2);
      Value value = evaluate(parts[i + 1]);
      const auto found =
          std::ranges::find(items, *key.text(), [](const auto& one) -> const std::string& { return one.first; });
      if (found != items.end())
        found->second = std::move(value);
      else
        items.emplace_back(*key.text(), std::move(value));
    }
    return map(std::move(items));
  }
  Value comparison(const Expression& expression) {
    Value left = evaluate(expression.parts[0]);
    for (std::size_t i = 0; i < expression.names.size(); ++i) {
      Value right = evaluate(expression.parts[i + 1]);
      if (!holds(expression.names[i], left, right)) return {false};
      left = std::move(right);
    }
    return {true};
  }
  bool holds(std::string_view sign, const Value& left, const Value& right) {
    if (sign == "in") return contains(right, left, budget_);
    if (sign == "not in") return !contains(right, left, budget_);
    if (left.text() == nullptr) budget_.search(left, right);
    if (sign == "==") return equal(left, right);
    if (sign == "!=") return !equal(left, right);
    const int order = compared(left, right);
    return sign == "<" ? order < 0 : sign == "<=" ? order <= 0 : sign == ">" ? order > 0 : order >= 0;
  }
  Arguments arguments_of(const Expression& expression) {
    const std::size_t unnamed = expression.parts.size() - expression.names.size();
    Arguments out;
    for (std::size_t i = 1; i < expression.parts.size(); ++i) {
      Value value = evaluate(expression.parts[i]);
      if (i < unnamed)
        out.positional.push_back(std::move(value));
      else
        out.named.emplace_back(expression.names[i - unnamed], std::move(value));
    }
    return out;
  }
  Value call(const Expression& expression) {
    const Value callee = evaluate(expression.parts[0]);
    Arguments arguments = arguments_of(expression);
    if (const Macro* const macro = callee.get<Macro>()) return call_macro(*macro->statement, arguments);
    if (const Method* const method = callee.get<Method>())
      return charged(method->function->call(*method->self, arguments, context_));
    if (const Global* const global = callee.get<Global>())
      return charged(global->function->call(none(), arguments, context_));
    const std::string& name = expression.parts[0].name;
    if (callee.has<Undefined>()) reject("`{}` is undefined or not supported, and is called", name);
    reject("expected a function or macro, got `{}`, {}", name, type_name(callee));
  }
  Value call_macro(const Statement& macro, Arguments& arguments) {
    Scope scope{.values = {}, .parent = whole_template};
    const std::size_t without_default = macro.names.size() - macro.expressions.size();
    for (std::size_t i = 0; i < macro.names.size(); ++i) {
      Value value = arguments.take(macro.names[i]);
      if (value.has<Undefined>() && i >= without_default) value = evaluate(macro.expressions[i - without_default]);
      scope.values.emplace_back(macro.names[i], std::move(value));
    }
    arguments.finish(macro.text);
    scopes_.push_back(std::move(scope));
    const int line = line_;
    Value out = captured([&] { run_all(macro.bodies[0]); });
    line_ = line;
    scopes_.pop_back();
    return out;
  }

  Budget budget_{};
  Context context_;
  const Template& source_;
  std::vector<Scope> scopes_{};
  std::string out_{};
  std::vector<RenderedChat::Span> answers_{};
  int line_ = 0, depth_ = 0, captures_ = 0;
};

/// The messages without keys of null, which some data sets write for absent ones.
Value messages_value(const nlohmann::ordered_json& messages) {
  nlohmann::ordered_json out = messages;
  for (auto& message : out)
    if (message.is_object())
      for (auto at = message.begin(); at != message.end();) at = at.value().is_null() ? message.erase(at) : ++at;
  return from_json(out);
}

}  // namespace
}  // namespace chat

ChatTemplate::ChatTemplate(std::string_view source, std::string name) : source_(source), name_(std::move(name)) {
  try {
    template_ = std::make_unique<const chat::Template>(chat::parse_template(source));
  } catch (const Error& error) {
    reject("{}: {}", name_, error.what());
  }
}

ChatTemplate::~ChatTemplate() = default;

bool ChatTemplate::marks_answers() const { return template_->marks_answers; }

bool ChatTemplate::names(std::string_view word) const {
  const auto goes_on = [&](std::size_t at) {
    return at < source_.size() && (std::isalnum(static_cast<unsigned char>(source_[at])) != 0 || source_[at] == '_');
  };
  for (std::size_t at = source_.find(word); at != std::string::npos; at = source_.find(word, at + 1))
    if (!goes_on(at - 1) && !goes_on(at + word.size())) return true;
  return false;
}

RenderedChat ChatTemplate::render(const Conversation& conversation, const TokenizerConfig& tokens,
                                  const std::string& date) const {
  std::vector<std::pair<std::string, chat::Value>> variables;
  for (const auto& [name, token] : {std::pair{"bos_token", &tokens.bos},
                                    {"eos_token", &tokens.eos},
                                    {"pad_token", &tokens.pad},
                                    {"unk_token", &tokens.unknown}})
    if (!token->empty()) variables.emplace_back(name, chat::text(*token));
  int line = 0;
  try {
    variables.emplace_back("messages", chat::messages_value(conversation.messages));
    variables.emplace_back("tools", chat::from_json(conversation.tools));
    variables.emplace_back("documents", chat::none());
    variables.emplace_back("add_generation_prompt", chat::Value{conversation.add_generation_prompt});
    if (conversation.more.is_object())
      for (const auto& [name, value] : conversation.more.items()) {
        std::erase_if(variables, [&key = name](const auto& one) { return one.first == key; });
        variables.emplace_back(name, chat::from_json(value));
      }
    chat::Rendering rendering(*template_, std::move(variables), date);
    try {
      return rendering.run();
    } catch (...) {
      line = rendering.line();
      throw;
    }
  } catch (const Error& error) {
    reject("{}{}: {}", name_, line > 0 ? fmt::format(", line {}", line) : "", error.what());
  }
}

}  // namespace lacuna
