// Code that filters, tests, methods and globals share, and all of them but the filters.
#include "data/text/chat/functions.h"

#include "core/error.h"
#include "data/text/chat/lexer.h"
#include "data/text/chat/texts.h"
#include "data/text/utf8.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>
#include <span>

namespace lacuna::chat {

void Budget::step() {
  constexpr std::size_t most = 2'000'000;
  if (++steps_ > most) reject("the template takes more than {} steps", most);
}

void Budget::make(std::size_t bytes) {
  constexpr std::size_t most = std::size_t{256} << 20;
  if (bytes > most - bytes_) reject("the template makes more than {} bytes of values", most);
  bytes_ += bytes;
}

void Budget::make(std::int64_t count, std::size_t bytes) {
  std::size_t all = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(count), bytes, &all))
    all = std::numeric_limits<std::size_t>::max();
  constexpr std::size_t most = std::size_t{32} << 20;
  if (all > most) reject("the template makes a value of more than {} bytes", most);
  make(all);
}

void Budget::search(const Value& all, const Value& one) {
  const auto size = [](const Value& value) -> std::size_t {
    if (value.text() != nullptr) return value.text()->size();
    if (value.list() != nullptr) return static_cast<std::size_t>(value.list()->extent.size);
    return value.map() != nullptr ? static_cast<std::size_t>(value.map()->extent.size) : 1;
  };
  constexpr std::size_t at_once = 256;  // bytes that are compared in the time in which one is made
  make((all.text() != nullptr && one.text() != nullptr ? size(all) * size(one) : size(all) + size(one)) / at_once);
}

Value Arguments::take(std::string_view name, Value absent) {
  if (next_ < positional.size()) return std::move(positional[next_++]);
  const auto found = std::ranges::find(named, name, [](const auto& one) { return std::string_view(one.first); });
  if (found == named.end()) return absent;
  Value value = std::move(found->second);
  named.erase(found);
  return value;
}

Value Arguments::take(std::string_view name) { return take(name, undefined(name)); }

void Arguments::finish(std::string_view function) const {
  if (next_ < positional.size()) reject("`{}` with {} arguments is not supported", function, positional.size());
  if (!named.empty()) reject("the argument `{}` of `{}` is not supported", named.front().first, function);
}

const std::string& text_in(const Value& value, std::string_view function) {
  if (value.text() == nullptr) reject("`{}`: expected a text, got {}", function, type_name(value));
  return *value.text();
}

namespace {

const Function* found_in(std::span<const Function> functions, std::string_view name) {
  const auto found = std::ranges::find(functions, name, &Function::name);
  return found == functions.end() ? nullptr : &*found;
}

/// A test without arguments.
template <bool (*holds)(const Value&)>
Value test(const Value& self, Arguments& arguments, Context&) {
  arguments.finish("is");
  return {holds(self)};
}

/// A test against one value.
template <bool (*holds)(const Value&, const Value&)>
Value test_with(const Value& self, Arguments& arguments, Context&) {
  const Value other = arguments.take("other");
  arguments.finish("is");
  return {holds(self, other)};
}

bool is_sequence(const Value& value) {
  return value.list() != nullptr || value.map() != nullptr || value.text() != nullptr || value.has<Undefined>();
}

Value is_in(const Value& self, Arguments& arguments, Context& context) {
  const Value all = arguments.take("seq");
  arguments.finish("in");
  return {contains(all, self, context.budget)};
}

constexpr auto is_equal = test_with<equal>;
constexpr auto is_unequal = test_with<+[](const Value& a, const Value& b) { return !equal(a, b); }>;

constexpr Function tests[] = {
    {"defined", test<+[](const Value& value) { return !value.has<Undefined>(); }>},
    {"undefined", test<+[](const Value& value) { return value.has<Undefined>(); }>},
    {"none", test<+[](const Value& value) { return value.has<None>(); }>},
    {"true", test<+[](const Value& value) { return value.has<bool>() && *value.get<bool>(); }>},
    {"false", test<+[](const Value& value) { return value.has<bool>() && !*value.get<bool>(); }>},
    {"boolean", test<+[](const Value& value) { return value.has<bool>(); }>},
    {"string", test<+[](const Value& value) { return value.text() != nullptr; }>},
    {"mapping", test<+[](const Value& value) { return value.map() != nullptr; }>},
    {"iterable", test<is_sequence>},
    {"sequence", test<is_sequence>},
    {"number", test<is_number>},
    {"integer", test<+[](const Value& value) { return value.has<std::int64_t>(); }>},
    {"float", test<+[](const Value& value) { return value.has<double>(); }>},
    {"odd", test<+[](const Value& value) { return whole(value) % 2 != 0; }>},
    {"even", test<+[](const Value& value) { return whole(value) % 2 == 0; }>},
    {"eq", is_equal},
    {"equalto", is_equal},
    {"ne", is_unequal},
    {"in", is_in},
};

/// A text that is made from a text alone.
template <std::string (*made)(std::string_view)>
Value text_method(const Value& self, Arguments& arguments, Context&) {
  arguments.finish("a method of a text");
  return text(made(*self.text()));
}

template <bool at_begin, bool at_end>
Value strip(const Value& self, Arguments& arguments, Context&) {
  const Value of = arguments.take("chars", none());
  arguments.finish("strip");
  return text(std::string(stripped(*self.text(), of.has<None>() ? nullptr : &text_in(of, "strip"), at_begin, at_end)));
}

template <bool at_begin>
Value has_end(const Value& self, Arguments& arguments, Context&) {
  const Value of = arguments.take("end");
  arguments.finish(at_begin ? "startswith" : "endswith");
  const auto matches = [&](const Value& one) {
    const std::string& end = text_in(one, at_begin ? "startswith" : "endswith");
    return at_begin ? self.text()->starts_with(end) : self.text()->ends_with(end);
  };
  return {of.list() != nullptr ? std::ranges::any_of(of.list()->items, matches) : matches(of)};
}

Value split(const Value& self, Arguments& arguments, Context& context) {
  const Value by = arguments.take("sep", none()), most = arguments.take("maxsplit", {std::int64_t{-1}});
  arguments.finish("split");
  Values parts;
  std::string_view rest = *self.text();
  std::int64_t left = whole(most) < 0 ? std::numeric_limits<std::int64_t>::max() : whole(most);
  const auto add = [&](std::string_view part) {
    context.budget.make(sizeof(Value) + sizeof(std::string) + part.size());
    parts.push_back(text(std::string(part)));
  };
  if (by.has<None>()) {
    for (rest = without_leading_blanks(rest); !rest.empty(); --left) {
      if (left == 0) {
        add(rest);
        break;
      }
      std::size_t end = 0;
      while (end < rest.size()) {
        const std::size_t bytes = std::max<std::size_t>(1, first_character(rest.substr(end)).bytes);
        if (without_leading_blanks(rest.substr(end, bytes)).empty()) break;
        end += bytes;
      }
      add(rest.substr(0, end));
      rest = without_leading_blanks(rest.substr(end));
    }
    return list(std::move(parts));
  }
  const std::string& separator = text_in(by, "split");
  if (separator.empty()) reject("`split`: expected a separator that is not empty");
  context.budget.search(self, by);
  for (; left > 0; --left) {
    const std::size_t end = rest.find(separator);
    if (end == std::string_view::npos) break;
    add(rest.substr(0, end));
    rest.remove_prefix(end + separator.size());
  }
  add(rest);
  return list(std::move(parts));
}

Value replace_method(const Value& self, Arguments& arguments, Context& context) {
  return find_filter("replace")->call(self, arguments, context);
}

constexpr Function text_methods[] = {{"strip", strip<true, true>},   {"lstrip", strip<true, false>},
                                     {"rstrip", strip<false, true>}, {"startswith", has_end<true>},
                                     {"endswith", has_end<false>},   {"split", split},
                                     {"replace", replace_method},    {"upper", text_method<upper>},
                                     {"lower", text_method<lower>},  {"capitalize", text_method<capitalized>},
                                     {"title", text_method<titled>}};

Value get_key(const Value& self, Arguments& arguments, Context&) {
  const Value key = arguments.take("key"), absent = arguments.take("default", none());
  arguments.finish("get");
  const Value* const found = key.text() == nullptr ? nullptr : self.map()->find(*key.text());
  return found == nullptr ? absent : *found;
}

template <bool with_keys, bool with_values>
Value entries(const Value& self, Arguments& arguments, Context& context) {
  arguments.finish("a method of a mapping");
  Values out;
  context.budget.make(std::ssize(self.map()->items), sizeof(Value) * 4);
  for (const auto& [key, value] : self.map()->items) {
    if (with_keys && with_values)
      out.push_back(list({text(key), value}, true));
    else
      out.push_back(with_keys ? text(key) : value);
  }
  return list(std::move(out));
}

constexpr Function map_methods[] = {
    {"get", get_key}, {"items", entries<true, true>}, {"keys", entries<true, false>}, {"values", entries<false, true>}};

Value raise_exception(const Value&, Arguments& arguments, Context&) {
  reject("the template refuses the conversation: {}", str(arguments.take("message")));
}

Value strftime_now(const Value&, Arguments& arguments, Context& context) {
  const std::string format = text_in(arguments.take("format"), "strftime_now");
  arguments.finish("strftime_now");
  if (context.date.empty())
    reject(
        "the template asks for today's date, with which runs differ by day: expected data.template_date, as "
        "2024-07-26");
  std::tm day{};
  int year = 0, month = 0;
  if (std::sscanf(context.date.c_str(), "%4d-%2d-%2d", &year, &month, &day.tm_mday) != 3 || month < 1 || month > 12 ||
      day.tm_mday < 1 || day.tm_mday > 31)
    reject("data.template_date: expected a date as 2024-07-26, got `{}`", context.date);
  day.tm_year = year - 1900;
  day.tm_mon = month - 1;
  std::tm made = day;
  timegm(&made);  // the day of the week
  if (format.empty()) return text("");
  std::string out(256 + format.size() * 8, '\0');
  out.resize(std::strftime(out.data(), out.size(), format.c_str(), &made));
  return text(std::move(out));
}

Value make_namespace(const Value&, Arguments& arguments, Context&) {
  if (!arguments.positional.empty()) reject("`namespace` of a mapping is not supported");
  const auto made = std::make_shared<Namespace>();
  for (const auto& [name, value] : arguments.named) made->values.insert_or_assign(name, value);
  arguments.named.clear();
  return {made};
}

Value make_dict(const Value&, Arguments& arguments, Context&) {
  if (!arguments.positional.empty()) reject("`dict` of a mapping is not supported");
  return map(std::move(arguments.named));
}

Value range(const Value&, Arguments& arguments, Context& context) {
  std::int64_t begin = 0, end = whole(arguments.take("stop"));
  if (const Value stop = arguments.take("stop"); !stop.has<Undefined>()) {
    begin = end;
    end = whole(stop);
  }
  const std::int64_t step = whole(arguments.take("step", {std::int64_t{1}}));
  arguments.finish("range");
  constexpr std::int64_t most = 100'000;  // as Jinja's sandbox
  if (step == 0) reject("`range`: expected a step other than 0");
  Values out;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (std::ssize(out) == most) reject("`range`: expected {} numbers at most", most);
    context.budget.make(sizeof(Value));
    out.push_back({i});
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return list(std::move(out));
}

constexpr Function globals[] = {{"raise_exception", raise_exception},
                                {"strftime_now", strftime_now},
                                {"namespace", make_namespace},
                                {"dict", make_dict},
                                {"range", range}};

}  // namespace

const Function* find_test(std::string_view name) { return found_in(tests, name); }
const Function* find_global(std::string_view name) { return found_in(globals, name); }
const Function* find_method(const Value& self, std::string_view name) {
  if (self.text() != nullptr) return found_in(text_methods, name);
  return self.map() != nullptr ? found_in(map_methods, name) : nullptr;
}

}  // namespace lacuna::chat
