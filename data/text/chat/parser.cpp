#include "data/text/chat/functions.h"
#include "data/text/chat/lexer.h"
#include "data/text/chat/syntax.h"

#include "core/error.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>

namespace lacuna::chat {
namespace {

using Kind = Expression::Kind;

constexpr std::string_view comparisons[] = {"==", "!=", "<", "<=", ">", ">="};
constexpr int deepest_expression = 400, deepest_nesting = 50;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokens_of(source)) {}

  Template run() {
    Template out{.statements = statements({})};
    if (now().kind != TokenKind::end) refuse("the tag `" + now().text + "` ends no other");
    out.marks_answers = marks_answers_;
    return out;
  }

 private:
  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is(TokenKind kind, std::string_view text) const { return now().kind == kind && now().text == text; }
  bool is_name(std::string_view text) const { return is(TokenKind::name, text); }
  bool take_name(std::string_view text) { return is_name(text) && (++at_, true); }
  bool take_sign(std::string_view text) { return is(TokenKind::sign, text) && (++at_, true); }
  [[noreturn]] void refuse(const std::string& what) const { reject("line {}: {}", now().line, what); }
  static std::string shown(const Token& token) {
    switch (token.kind) {
      case TokenKind::output_end:
        return "`}}`";
      case TokenKind::tag_end:
        return "`%}`";
      case TokenKind::end:
        return "the end of the template";
      case TokenKind::text:
        return "a text";
      default:
        return "`" + token.text + "`";
    }
  }
  void expect_sign(std::string_view sign) {
    if (!take_sign(sign)) refuse(fmt::format("expected `{}`, got {}", sign, shown(now())));
  }
  std::string expect_name() {
    if (now().kind != TokenKind::name) refuse(fmt::format("expected a name, got {}", shown(now())));
    return take().text;
  }
  void expect_kind(TokenKind kind, std::string_view what) {
    if (now().kind != kind) refuse(fmt::format("expected {}, got {}", what, shown(now())));
    take();
  }

  /// Statements up to a tag of one of these names, which is left with its name next.
  std::vector<Statement> statements(std::initializer_list<std::string_view> ends) {
    if (++nesting_ > deepest_nesting) refuse(fmt::format("tags are nested deeper than {}", deepest_nesting));
    std::vector<Statement> out;
    while (now().kind != TokenKind::end) {
      const int line = now().line;
      const TokenKind kind = take().kind;
      if (kind == TokenKind::data) {
        out.push_back({.kind = Statement::Kind::data, .line = line, .text = tokens_[at_ - 1].text});
      } else if (kind == TokenKind::output_begin) {
        out.push_back({.kind = Statement::Kind::output, .line = line, .expressions = one(tuple())});
        expect_kind(TokenKind::output_end, "`}}`");
      } else {
        const std::string name = expect_name();
        const bool is_end = std::ranges::find(ends, name) != ends.end();
        if (is_end) --at_;
        if (is_end || name.starts_with("end") || name == "elif" || name == "else") {
          if (!is_end) refuse(fmt::format("the tag `{}` ends no other", name));
          --nesting_;
          return out;
        }
        out.push_back(tag(name, line));
      }
    }
    if (ends.size() > 0) refuse(fmt::format("expected the tag `{}`, got the end of the template", *(ends.end() - 1)));
    --nesting_;
    return out;
  }
  static std::vector<Expression> one(Expression expression) {
    std::vector<Expression> out;
    out.push_back(std::move(expression));
    return out;
  }
  /// The statements behind a tag, up to the tag that ends it.
  std::vector<Statement> body(std::initializer_list<std::string_view> ends) {
    expect_kind(TokenKind::tag_end, "`%}`");
    return statements(ends);
  }
  void end_tag() {
    take();  // the name
    expect_kind(TokenKind::tag_end, "`%}`");
  }
  Statement tag(const std::string& name, int line) {
    if (name == "if") return branch(line);
    if (name == "for") return loop(line);
    if (name == "set") return set(line);
    if (name == "macro") return macro(line);
    if (name == "break" || name == "continue") {
      if (loops_ == 0) refuse(fmt::format("`{}` stands in no loop", name));
      expect_kind(TokenKind::tag_end, "`%}`");
      return {.kind = name == "break" ? Statement::Kind::stop : Statement::Kind::next, .line = line};
    }
    if (name == "generation") {
      marks_answers_ = true;
      Statement out{.kind = Statement::Kind::generation, .line = line};
      const int loops = std::exchange(loops_, 0);
      out.bodies.push_back(body({"endgeneration"}));
      loops_ = loops;
      end_tag();
      return out;
    }
    refuse(fmt::format("the tag `{}` is not supported", name));
  }
  Statement branch(int line) {
    Statement out{.kind = Statement::Kind::branch, .line = line};
    out.expressions.push_back(tuple());
    for (;;) {
      out.bodies.push_back(body({"elif", "else", "endif"}));
      if (take_name("elif")) {
        out.expressions.push_back(tuple());
      } else if (take_name("else")) {
        out.bodies.push_back(body({"endif"}));
        break;
      } else {
        break;
      }
    }
    end_tag();
    return out;
  }
  std::vector<std::string> targets() {
    std::vector<std::string> names;
    const bool in_brackets = take_sign("(");
    do {
      names.push_back(expect_name());
    } while (take_sign(","));
    if (in_brackets) expect_sign(")");
    for (const std::string& name : names)
      if (name == "true" || name == "false" || name == "none") refuse(fmt::format("`{}` cannot be set", name));
    return names;
  }
  Statement loop(int line) {
    Statement out{.kind = Statement::Kind::loop, .line = line, .names = targets()};
    if (!take_name("in")) refuse(fmt::format("expected `in`, got {}", shown(now())));
    out.expressions.push_back(tuple(false));
    if (take_name("if")) out.expressions.push_back(expression());
    if (is_name("recursive")) refuse("recursive loops are not supported");
    ++loops_;
    out.bodies.push_back(body({"else", "endfor"}));
    --loops_;
    if (take_name("else")) out.bodies.push_back(body({"endfor"}));
    end_tag();
    return out;
  }
  Statement set(int line) {
    Statement out{.kind = Statement::Kind::set, .line = line, .names = targets()};
    if (out.names.size() == 1 && take_sign(".")) {
      out.names.push_back(expect_name());
      out.of_namespace = true;
    }
    if (take_sign("=")) {
      out.expressions.push_back(tuple());
      expect_kind(TokenKind::tag_end, "`%}`");
      return out;
    }
    if (is(TokenKind::sign, "|")) refuse("filters of `set` blocks are not supported");
    out.kind = Statement::Kind::set_block;
    out.bodies.push_back(body({"endset"}));
    end_tag();
    return out;
  }
  Statement macro(int line) {
    Statement out{.kind = Statement::Kind::macro, .line = line, .text = expect_name()};
    expect_sign("(");
    while (!take_sign(")")) {
      if (!out.names.empty()) expect_sign(",");
      out.names.push_back(expect_name());
      if (take_sign("="))
        out.expressions.push_back(expression());
      else if (!out.expressions.empty())
        refuse(fmt::format("the parameter `{}` without a default follows one with a default", out.names.back()));
    }
    const int loops = std::exchange(loops_, 0);
    out.bodies.push_back(body({"endmacro"}));
    loops_ = loops;
    end_tag();
    return out;
  }

  Expression make(Kind kind, std::vector<Expression> parts = {}, std::string name = "") const {
    Expression out{.kind = kind, .line = now().line, .name = std::move(name), .parts = std::move(parts)};
    for (const Expression& part : out.parts) out.depth = std::max(out.depth, part.depth + 1);
    if (out.depth > deepest_expression)
      refuse(fmt::format("expressions are nested deeper than {}", deepest_expression));
    return out;
  }
  static std::vector<Expression> both(Expression left, Expression right) {
    std::vector<Expression> out = one(std::move(left));
    out.push_back(std::move(right));
    return out;
  }
  bool ends_tuple() const {
    return now().kind == TokenKind::output_end || now().kind == TokenKind::tag_end || is(TokenKind::sign, ")") ||
           is_name("in") || is_name("recursive");
  }
  /// Expressions with commas between them are a tuple.
  Expression tuple(bool with_condition = true) {
    const auto next = [&] { return with_condition ? expression() : disjunction(); };
    Expression first = next();
    if (!is(TokenKind::sign, ",")) return first;
    std::vector<Expression> parts = one(std::move(first));
    while (take_sign(","))
      if (!ends_tuple()) parts.push_back(next());
    return make(Kind::tuple, std::move(parts));
  }
  Expression expression() {
    if (++nesting_ > deepest_nesting) refuse(fmt::format("expressions are nested deeper than {}", deepest_nesting));
    Expression out = disjunction();
    while (take_name("if")) {
      Expression condition = disjunction();
      std::vector<Expression> parts = both(std::move(condition), std::move(out));
      if (take_name("else")) {
        parts.push_back(expression());
      } else {
        parts.push_back(make(Kind::constant));
      }
      out = make(Kind::conditional, std::move(parts));
    }
    --nesting_;
    return out;
  }
  Expression disjunction() {
    Expression left = conjunction();
    while (take_name("or")) left = make(Kind::logical_or, both(std::move(left), conjunction()));
    return left;
  }
  Expression conjunction() {
    Expression left = negation();
    while (take_name("and")) left = make(Kind::logical_and, both(std::move(left), negation()));
    return left;
  }
  Expression negation() {
    int times = 0;
    while (take_name("not")) ++times;
    Expression out = comparison();
    for (; times > 0; --times) out = make(Kind::logical_not, one(std::move(out)));
    return out;
  }
  Expression comparison() {
    std::vector<Expression> parts = one(sum());
    std::vector<std::string> names;
    for (;;) {
      if (now().kind == TokenKind::sign && std::ranges::count(comparisons, std::string_view(now().text)) > 0) {
        names.push_back(take().text);
      } else if (take_name("in")) {
        names.emplace_back("in");
      } else if (is_name("not") && ahead().kind == TokenKind::name && ahead().text == "in") {
        at_ += 2;
        names.emplace_back("not in");
      } else {
        break;
      }
      parts.push_back(sum());
    }
    if (names.empty()) return std::move(parts.front());
    Expression out = make(Kind::comparison, std::move(parts));
    out.names = std::move(names);
    return out;
  }
  Expression sum() {
    Expression left = joined();
    while (is(TokenKind::sign, "+") || is(TokenKind::sign, "-")) {
      std::string sign = take().text;
      left = make(Kind::arithmetic, both(std::move(left), joined()), std::move(sign));
    }
    return left;
  }
  Expression joined() {
    std::vector<Expression> parts = one(product());
    while (take_sign("~")) parts.push_back(product());
    return parts.size() == 1 ? std::move(parts.front()) : make(Kind::concat, std::move(parts));
  }
  Expression product() {
    Expression left = power();
    while (is(TokenKind::sign, "*") || is(TokenKind::sign, "/") || is(TokenKind::sign, "//") ||
           is(TokenKind::sign, "%")) {
      std::string sign = take().text;
      left = make(Kind::arithmetic, both(std::move(left), power()), std::move(sign));
    }
    return left;
  }
  Expression power() {
    Expression left = unary(true);
    while (take_sign("**")) left = make(Kind::arithmetic, both(std::move(left), unary(true)), "**");
    return left;
  }
  Expression unary(bool with_filters) {
    if (++nesting_ > deepest_nesting) refuse(fmt::format("expressions are nested deeper than {}", deepest_nesting));
    Expression out;
    if (is(TokenKind::sign, "-") || is(TokenKind::sign, "+")) {
      std::string sign = take().text;
      out = make(Kind::sign, one(unary(false)), std::move(sign));
    } else {
      out = primary();
    }
    out = postfix(std::move(out));
    if (with_filters) out = filtered(std::move(out));
    --nesting_;
    return out;
  }
  Expression constant(Value value) {
    Expression out = make(Kind::constant);
    out.constant = std::move(value);
    return out;
  }
  template <class T>
  T parsed(const std::string& number) const {
    T value{};
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc{}) refuse(fmt::format("expected a number that fits 64 bits, got {}", number));
    return value;
  }
  Expression primary() {
    const Token token = now();
    switch (token.kind) {
      case TokenKind::name: {
        take();
        const std::string& name = token.text;
        if (name == "true" || name == "True") return constant({true});
        if (name == "false" || name == "False") return constant({false});
        if (name == "none" || name == "None") return constant(none());
        for (const std::string_view beyond :
             {"caller", "varargs", "kwargs", "self", "super", "lipsum", "cycler", "joiner"})
          if (name == beyond) refuse(fmt::format("`{}` is not supported", name));
        return make(Kind::name, {}, name);
      }
      case TokenKind::text: {
        std::string all;
        while (now().kind == TokenKind::text) all += take().text;
        return constant(text(std::move(all)));
      }
      case TokenKind::whole:
        take();
        return constant({parsed<std::int64_t>(token.text)});
      case TokenKind::real:
        take();
        return constant({parsed<double>(token.text)});
      default:
        break;
    }
    if (take_sign("(")) {
      if (take_sign(")")) return make(Kind::tuple);
      Expression out = tuple();
      expect_sign(")");
      return out;
    }
    if (take_sign("[")) {
      std::vector<Expression> parts;
      while (!take_sign("]")) {
        if (!parts.empty()) expect_sign(",");
        if (take_sign("]")) break;
        parts.push_back(expression());
      }
      return make(Kind::list, std::move(parts));
    }
    if (take_sign("{")) {
      std::vector<Expression> parts;
      while (!take_sign("}")) {
        if (!parts.empty()) expect_sign(",");
        if (take_sign("}")) break;
        parts.push_back(expression());
        expect_sign(":");
        parts.push_back(expression());
      }
      return make(Kind::map, std::move(parts));
    }
    refuse(fmt::format("expected an expression, got {}", shown(token)));
  }
  Expression postfix(Expression of) {
    for (;;) {
      if (take_sign(".")) {
        if (now().kind == TokenKind::whole) {
          Expression key = constant({parsed<std::int64_t>(take().text)});
          of = make(Kind::item, both(std::move(of), std::move(key)));
        } else {
          std::string name = expect_name();
          of = make(Kind::attribute, one(std::move(of)), std::move(name));
        }
      } else if (take_sign("[")) {
        of = subscript(std::move(of));
      } else if (take_sign("(")) {
        std::vector<Expression> parts = one(std::move(of));
        std::vector<std::string> names = arguments(parts);
        of = make(Kind::call, std::move(parts));
        of.names = std::move(names);
      } else {
        return of;
      }
    }
  }
  Expression subscript(Expression of) {
    std::vector<Expression> parts = one(std::move(of));
    const auto absent = [&] { return is(TokenKind::sign, ":") || is(TokenKind::sign, "]"); };
    parts.push_back(absent() ? constant(none()) : expression());
    if (is(TokenKind::sign, "]")) {
      if (parts.back().kind == Kind::constant && parts.back().constant.has<None>() && tokens_[at_ - 1].text == "[")
        refuse("expected a key between `[` and `]`");
      take();
      return make(Kind::item, std::move(parts));
    }
    while (parts.size() < 4 && take_sign(":")) parts.push_back(absent() ? constant(none()) : expression());
    while (parts.size() < 4) parts.push_back(constant(none()));
    expect_sign("]");
    return make(Kind::slice, std::move(parts));
  }
  /// Appends arguments behind `(`; returns the names of the last ones.
  std::vector<std::string> arguments(std::vector<Expression>& parts) {
    std::vector<std::string> names;
    for (bool is_first = true; !take_sign(")"); is_first = false) {
      if (!is_first) expect_sign(",");
      if (!is_first && take_sign(")")) break;
      if (is(TokenKind::sign, "*") || is(TokenKind::sign, "**")) refuse("arguments with `*` are not supported");
      if (now().kind == TokenKind::name && ahead().kind == TokenKind::sign && ahead().text == "=") {
        names.push_back(take().text);
        take();
      } else if (!names.empty()) {
        refuse("an argument without a name follows one with a name");
      }
      parts.push_back(expression());
    }
    return names;
  }
  Expression filtered(Expression of) {
    for (;;) {
      if (take_sign("|")) {
        const std::string name = expect_name();
        const Function* const function = find_filter(name);
        if (function == nullptr) refuse(fmt::format("the filter `{}` is not supported", name));
        std::vector<Expression> parts = one(std::move(of));
        std::vector<std::string> names;
        if (take_sign("(")) names = arguments(parts);
        of = make(Kind::filter, std::move(parts), name);
        of.names = std::move(names);
        of.function = function;
      } else if (take_name("is")) {
        of = test(std::move(of));
      } else if (is(TokenKind::sign, "(")) {
        of = postfix(std::move(of));
      } else {
        return of;
      }
    }
  }
  Expression test(Expression of) {
    const bool is_negated = take_name("not");
    const std::string name = expect_name();
    const Function* const function = find_test(name);
    if (function == nullptr) refuse(fmt::format("the test `{}` is not supported", name));
    std::vector<Expression> parts = one(std::move(of));
    std::vector<std::string> names;
    const bool is_word = now().kind == TokenKind::name;
    if (take_sign("(")) {
      names = arguments(parts);
    } else if (now().kind == TokenKind::text || now().kind == TokenKind::whole || now().kind == TokenKind::real ||
               is(TokenKind::sign, "[") || is(TokenKind::sign, "{") ||
               (is_word && !is_name("else") && !is_name("or") && !is_name("and"))) {
      if (is_name("is")) refuse("tests cannot be chained with `is`");
      parts.push_back(postfix(primary()));
    }
    Expression out = make(Kind::test, std::move(parts), name);
    out.names = std::move(names);
    out.function = function;
    return is_negated ? make(Kind::logical_not, one(std::move(out))) : out;
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0, loops_ = 0;
  bool marks_answers_ = false;
};

}  // namespace

Template parse_template(std::string_view source) { return Parser(source).run(); }

}  // namespace lacuna::chat
