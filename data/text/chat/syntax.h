// The syntax tree of a chat template.
#pragma once

#include "data/text/chat/value.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna::chat {

struct Function;

struct Expression {
  enum class Kind : std::uint8_t {
    constant,
    name,
    list,
    tuple,
    map,          // parts: key, value, key, value …
    attribute,    // parts: of; name
    item,         // parts: of, key
    slice,        // parts: of, begin, end, step; absent ones are None
    call,         // parts: callee, arguments
    filter,       // parts: of, arguments; function
    test,         // parts: of, arguments; function
    sign,         // parts: of; name is + or -
    arithmetic,   // parts: two; name is the operator
    concat,       // parts: texts
    comparison,   // parts: two or more; names are the operators between them
    logical_and,  // parts: two
    logical_or,   // parts: two
    logical_not,  // parts: one
    conditional   // parts: condition, value, otherwise
  };
  Kind kind = Kind::constant;
  int line = 0;
  std::string name{};
  Value constant{};
  const Function* function = nullptr;
  std::vector<Expression> parts{};
  std::vector<std::string> names{};  // of the last arguments, which are named
  int depth = 1;
};

struct Statement {
  enum class Kind : std::uint8_t {
    data,        // text
    output,      // expressions: one
    branch,      // expressions: conditions; bodies: one each, and one for `else`
    loop,        // names; expressions: items, and a condition of them; bodies: one, and one for `else`
    set,         // names; expressions: one
    set_block,   // names; bodies: one
    macro,       // text: its name; names: of parameters; expressions: defaults of the last ones; bodies: one
    generation,  // bodies: one
    stop,        // break
    next         // continue
  };
  Kind kind = Kind::data;
  int line = 0;
  std::string text{};
  std::vector<std::string> names{};
  bool of_namespace = false;  // names: a namespace and its attribute
  std::vector<Expression> expressions{};
  std::vector<std::vector<Statement>> bodies{};
};

struct Template {
  std::vector<Statement> statements{};
  bool marks_answers = false;  // it has generation blocks
};

/// Rejects syntax that is not supported by its name; messages have the line.
Template parse_template(std::string_view source);

}  // namespace lacuna::chat
