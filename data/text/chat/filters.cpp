// The filters of chat templates.
#include "core/error.h"
#include "data/text/chat/functions.h"
#include "data/text/chat/texts.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace lacuna::chat {
namespace {

Value trim(const Value& self, Arguments& arguments, Context&) {
  const Value of = arguments.take("chars", none());
  arguments.finish("trim");
  return text(std::string(stripped(str(self), of.has<None>() ? nullptr : &text_in(of, "trim"), true, true)));
}

Value count(const Value& self, Arguments& arguments, Context&) {
  arguments.finish("length");
  return {length(self)};
}

Value to_json(const Value& self, Arguments& arguments, Context&) {
  const Value ascii = arguments.take("ensure_ascii", {false}), indent = arguments.take("indent", none());
  arguments.finish("tojson");
  if (is_true(ascii)) reject("`tojson` with ensure_ascii is not supported");
  constexpr std::int64_t most = 16;
  const std::int64_t spaces = indent.has<None>() ? -1 : whole(indent);
  if (spaces > most) reject("`tojson`: expected an indent of {} at most, got {}", most, spaces);
  return text(json_text(self, indent.has<None>() ? -1 : std::max<std::int64_t>(0, spaces)));
}

/// `a.b.0` of a value.
Value path_of(Value value, const Value& path) {
  if (is_whole(path)) return item(value, path);
  std::string_view rest = text_in(path, "attribute");
  for (;;) {
    const std::size_t end = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, end);
    std::int64_t at = 0;
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), at);
    const bool is_number = !part.empty() && error == std::errc{} && stop == part.data() + part.size();
    value = item(value, is_number ? Value{at} : text(std::string(part)));
    if (end == rest.size()) return value;
    rest.remove_prefix(end + 1);
  }
}

Value join(const Value& self, Arguments& arguments, Context& context) {
  const Value between = arguments.take("d", text("")), path = arguments.take("attribute", none());
  arguments.finish("join");
  std::string out;
  bool is_first = true;
  for (const Value& one : elements(self)) {
    if (!std::exchange(is_first, false)) out += str(between);
    out += str(path.has<None>() ? one : path_of(one, path));
    if (out.size() > longest_text) reject("`join`: expected a text of {} bytes at most", longest_text);
  }
  context.budget.make(out.size());
  return text(std::move(out));
}

Value items(const Value& self, Arguments& arguments, Context& context) {
  if (self.has<Undefined>()) return list({});
  if (self.map() == nullptr) reject("`items`: expected a mapping, got {}", type_name(self));
  return find_method(self, "items")->call(self, arguments, context);
}

/// Keeps the elements of which a test holds, or of which it does not; `of_attribute`: of an attribute of theirs.
template <bool keeps, bool of_attribute>
Value select(const Value& self, Arguments& arguments, Context& context) {
  const Value path = of_attribute ? arguments.take("attribute") : none();
  const Value name = arguments.take("test", none());
  const Function* const test = name.has<None>() ? nullptr : find_test(text_in(name, "select"));
  if (!name.has<None>() && test == nullptr) reject("the test `{}` is not supported", str(name));
  Arguments rest;
  for (Value next = arguments.take(""); !next.has<Undefined>(); next = arguments.take(""))
    rest.positional.push_back(next);
  arguments.finish("select");
  Values out;
  for (const Value& one : elements(self)) {
    context.budget.step();
    const Value value = of_attribute ? path_of(one, path) : one;
    Arguments again = rest;
    if (is_true(test == nullptr ? value : test->call(value, again, context)) == keeps) out.push_back(one);
  }
  return list(std::move(out));
}

Value map_each(const Value& self, Arguments& arguments, Context& context) {
  Values out;
  const Value path = arguments.positional.empty() ? arguments.take("attribute") : undefined();
  if (!path.has<Undefined>()) {
    const Value absent = arguments.take("default");
    arguments.finish("map");
    for (const Value& one : elements(self)) {
      context.budget.step();
      const Value value = path_of(one, path);
      out.push_back(value.has<Undefined>() && !absent.has<Undefined>() ? absent : value);
    }
    return list(std::move(out));
  }
  const std::string name = text_in(arguments.take("filter"), "map");
  const Function* const filter = find_filter(name);
  if (filter == nullptr) reject("the filter `{}` is not supported", name);
  for (const Value& one : elements(self)) {
    context.budget.step();
    Arguments again = arguments;
    out.push_back(filter->call(one, again, context));
  }
  return list(std::move(out));
}

template <std::string (*made)(std::string_view)>
Value text_filter(const Value& self, Arguments& arguments, Context&) {
  arguments.finish("a filter of a text");
  return text(made(str(self)));
}

Value or_default(const Value& self, Arguments& arguments, Context&) {
  const Value otherwise = arguments.take("default_value", text("")), also_false = arguments.take("boolean", {false});
  arguments.finish("default");
  return self.has<Undefined>() || (is_true(also_false) && !is_true(self)) ? otherwise : self;
}

/// The elements in order; texts in lower case unless `minds_case`.
Values in_order(Values values, const Value& path, bool minds_case, bool is_reversed, Context& context) {
  std::vector<std::pair<Value, std::size_t>> keys;
  for (std::size_t i = 0; i < values.size(); ++i) {
    context.budget.make(sizeof(Value) * 4);
    Value key = path.has<None>() ? values[i] : path_of(values[i], path);
    if (!minds_case && key.text() != nullptr) key = text(lower(*key.text()));
    keys.emplace_back(std::move(key), i);
  }
  std::ranges::stable_sort(keys, [&](const auto& a, const auto& b) {
    return is_reversed ? compared(a.first, b.first) > 0 : compared(a.first, b.first) < 0;
  });
  Values out;
  for (const auto& [key, i] : keys) out.push_back(std::move(values[i]));
  return out;
}

Value sort(const Value& self, Arguments& arguments, Context& context) {
  const bool is_reversed = is_true(arguments.take("reverse", {false})),
             minds_case = is_true(arguments.take("case_sensitive", {false}));
  const Value path = arguments.take("attribute", none());
  arguments.finish("sort");
  return list(in_order(elements(self), path, minds_case, is_reversed, context));
}

Value dict_sort(const Value& self, Arguments& arguments, Context& context) {
  const bool minds_case = is_true(arguments.take("case_sensitive", {false}));
  const std::string by = text_in(arguments.take("by", text("key")), "dictsort");
  const bool is_reversed = is_true(arguments.take("reverse", {false}));
  arguments.finish("dictsort");
  if (by != "key" && by != "value") reject("`dictsort`: expected by=key or by=value, got {}", by);
  Arguments no_arguments;
  if (self.map() == nullptr) reject("`dictsort`: expected a mapping, got {}", type_name(self));
  return list(in_order(elements(items(self, no_arguments, context)), {std::int64_t{by == "key" ? 0 : 1}}, minds_case,
                       is_reversed, context));
}

Value replace(const Value& self, Arguments& arguments, Context& context) {
  const std::string of = str(arguments.take("old")), by = str(arguments.take("new"));
  const Value most = arguments.take("count", none());
  arguments.finish("replace");
  if (of.empty()) reject("`replace`: expected a text to replace that is not empty");
  const std::string from = str(self);
  context.budget.search(text(from), text(of));
  std::int64_t left = most.has<None>() || whole(most) < 0 ? std::ssize(from) : whole(most);
  std::string out;
  std::size_t at = 0;
  for (std::size_t next; left > 0 && (next = from.find(of, at)) != std::string::npos; --left) {
    out.append(from, at, next - at).append(by);
    at = next + of.size();
    if (out.size() > longest_text) reject("`replace`: expected a text of {} bytes at most", longest_text);
  }
  out.append(from, at);
  context.budget.make(out.size());
  return text(std::move(out));
}

Value to_list(const Value& self, Arguments& arguments, Context& context) {
  arguments.finish("list");
  context.budget.make(length(self), sizeof(Value));
  return list(elements(self));
}

Value to_string(const Value& self, Arguments& arguments, Context&) {
  arguments.finish("string");
  return text(str(self));
}

template <bool is_first>
Value end_of(const Value& self, Arguments& arguments, Context&) {
  arguments.finish(is_first ? "first" : "last");
  const Values all = elements(self);
  return all.empty() ? undefined(is_first ? "first" : "last") : is_first ? all.front() : all.back();
}

Value reversed(const Value& self, Arguments& arguments, Context& context) {
  arguments.finish("reverse");
  return slice(self.map() != nullptr ? list(elements(self)) : self, none(), none(), {std::int64_t{-1}}, context.budget);
}

Value absolute(const Value& self, Arguments& arguments, Context& context) {
  arguments.finish("abs");
  if (self.has<double>()) return {std::abs(number(self))};
  return whole(self) < 0 ? arithmetic('-', {std::int64_t{0}}, self, context.budget) : Value{whole(self)};
}

Value to_int(const Value& self, Arguments& arguments, Context&) {
  const Value otherwise = arguments.take("default", {std::int64_t{0}});
  arguments.finish("int");
  if (is_whole(self)) return {whole(self)};
  if (const double* const real = self.get<double>())
    return std::abs(*real) < 9e18 ? Value{static_cast<std::int64_t>(*real)} : otherwise;
  if (self.text() == nullptr) return otherwise;
  const std::string_view digits = stripped(*self.text(), nullptr, true, true);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool is_number = !digits.empty() && error == std::errc{} && end == digits.data() + digits.size();
  return is_number && std::abs(value) < 9e15 ? Value{static_cast<std::int64_t>(value)} : otherwise;
}

constexpr Function filters[] = {{"trim", trim},
                                {"length", count},
                                {"count", count},
                                {"tojson", to_json},
                                {"join", join},
                                {"items", items},
                                {"select", select<true, false>},
                                {"reject", select<false, false>},
                                {"selectattr", select<true, true>},
                                {"rejectattr", select<false, true>},
                                {"map", map_each},
                                {"upper", text_filter<upper>},
                                {"lower", text_filter<lower>},
                                {"capitalize", text_filter<capitalized>},
                                {"title", text_filter<titled>},
                                {"default", or_default},
                                {"d", or_default},
                                {"sort", sort},
                                {"dictsort", dict_sort},
                                {"replace", replace},
                                {"list", to_list},
                                {"string", to_string},
                                {"safe", to_string},
                                {"first", end_of<true>},
                                {"last", end_of<false>},
                                {"reverse", reversed},
                                {"abs", absolute},
                                {"int", to_int}};

}  // namespace

const Function* find_filter(std::string_view name) {
  const auto found = std::ranges::find(filters, name, &Function::name);
  return found == std::end(filters) ? nullptr : &*found;
}

}  // namespace lacuna::chat
