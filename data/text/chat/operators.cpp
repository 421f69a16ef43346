// Operators of chat templates: attributes, keys, slices, arithmetic.
#include "data/text/chat/functions.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>

namespace lacuna::chat {

Value attribute(const Value& value, std::string_view name) {
  if (const Undefined* const missing = value.get<Undefined>())
    reject("`{}` is undefined, so it has no `{}`", missing->name, name);
  if (const auto* const space = value.get<std::shared_ptr<Namespace>>()) {
    const auto found = (*space)->values.find(name);
    return found == (*space)->values.end() ? undefined(name) : found->second;
  }
  if (const auto* const loop = value.get<std::shared_ptr<const Loop>>()) {
    const Values& items = (*loop)->items->items;
    const std::size_t index = (*loop)->index;
    const auto count = [](std::size_t number) { return Value{static_cast<std::int64_t>(number)}; };
    if (name == "index") return count(index + 1);
    if (name == "index0") return count(index);
    if (name == "revindex") return count(items.size() - index);
    if (name == "revindex0") return count(items.size() - index - 1);
    if (name == "first") return {index == 0};
    if (name == "last") return {index + 1 == items.size()};
    if (name == "length") return count(items.size());
    if (name == "depth") return count(1);
    if (name == "depth0") return count(0);
    if (name == "previtem") return index > 0 ? items[index - 1] : undefined("loop.previtem");
    if (name == "nextitem") return index + 1 < items.size() ? items[index + 1] : undefined("loop.nextitem");
    reject("`loop.{}` is not supported", name);
  }
  if (const Function* const method = find_method(value, name))
    return {Method{std::make_shared<const Value>(value), method}};
  if (value.map() != nullptr)
    if (const Value* const found = value.map()->find(name)) return *found;
  return undefined(name);
}

Value item(const Value& value, const Value& key) {
  if (const Undefined* const missing = value.get<Undefined>())
    reject("`{}` is undefined, so it has no `{}`", missing->name, str(key));
  if (value.map() != nullptr && key.text() != nullptr)
    if (const Value* const found = value.map()->find(*key.text())) return *found;
  if (is_whole(key) && (value.list() != nullptr || value.text() != nullptr)) {
    std::int64_t at = whole(key);
    const std::int64_t count = length(value);
    if (at < 0) at += count;
    if (at < 0 || at >= count) return undefined(repr(key));
    const auto index = static_cast<std::size_t>(at);
    if (value.list() != nullptr) return value.list()->items[index];
    return text(std::string(characters(*value.text())[index]));
  }
  return key.text() != nullptr ? attribute(value, *key.text()) : undefined(str(key));
}

Value slice(const Value& value, const Value& begin, const Value& end, const Value& step, Budget& budget) {
  if (value.list() == nullptr && value.text() == nullptr)
    reject("expected a list or text to take a part of, got {}", type_name(value));
  const std::int64_t stride = step.has<None>() ? 1 : whole(step), count = length(value);
  if (stride == 0) reject("expected a step of a slice other than 0");
  budget.make(count, 1);
  const auto place = [&](const Value& given, std::int64_t absent) {
    if (given.has<None>()) return absent;
    const std::int64_t at = whole(given) < 0 ? std::max<std::int64_t>(whole(given), -count - 1) + count : whole(given);
    return stride > 0 ? std::clamp<std::int64_t>(at, 0, count) : std::clamp<std::int64_t>(at, -1, count - 1);
  };
  const std::int64_t first = place(begin, stride > 0 ? 0 : count - 1), last = place(end, stride > 0 ? count : -1);
  const std::vector<std::string_view> signs =
      value.text() != nullptr ? characters(*value.text()) : std::vector<std::string_view>();
  Values items;
  std::string out;
  for (std::int64_t i = first; stride > 0 ? i < last : i > last;) {
    if (value.text() != nullptr)
      out += signs[static_cast<std::size_t>(i)];
    else
      items.push_back(value.list()->items[static_cast<std::size_t>(i)]);
    if (std::abs(stride) > count) break;
    i += stride;
  }
  return value.text() != nullptr ? text(std::move(out)) : list(std::move(items), value.list()->is_tuple);
}

namespace {

template <class T>
Value repeated(const T& all, std::int64_t times, Value (*make)(T), std::size_t size, Budget& budget) {
  T out;
  times = std::max<std::int64_t>(times, 0);
  budget.make(times, size);
  for (std::int64_t i = 0; i < times && size > 0; ++i) out.insert(out.end(), all.begin(), all.end());
  return make(std::move(out));
}

Value whole_arithmetic(char sign, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  bool too_large = false;
  switch (sign) {
    case '+':
      too_large = __builtin_add_overflow(a, b, &out);
      break;
    case '-':
      too_large = __builtin_sub_overflow(a, b, &out);
      break;
    case '*':
      too_large = __builtin_mul_overflow(a, b, &out);
      break;
    case '^':
      if (a == 1 || a == -1) return {std::int64_t{a == 1 || b % 2 == 0 ? 1 : -1}};
      out = 1;
      for (std::int64_t i = 0; i < b && !too_large && out != 0; ++i) too_large = __builtin_mul_overflow(out, a, &out);
      break;
    default:  // `:` and %
      if (b == 0) reject("division by zero");
      if (b == -1) {
        too_large = sign == ':' && __builtin_sub_overflow(std::int64_t{0}, a, &out);
        break;
      }
      const std::int64_t rest = a % b;
      const bool goes_down = rest != 0 && (rest < 0) != (b < 0);
      out = sign == ':' ? a / b - (goes_down ? 1 : 0) : rest + (goes_down ? b : 0);
  }
  if (too_large) reject("expected whole numbers of 64 bits, got a larger one");
  return {out};
}

Value real_arithmetic(char sign, double a, double b) {
  switch (sign) {
    case '+':
      return {a + b};
    case '-':
      return {a - b};
    case '*':
      return {a * b};
    case '^':
      return {std::pow(a, b)};
    default:
      break;
  }
  if (b == 0) reject("division by zero");
  if (sign == '/') return {a / b};
  if (sign == ':') return {std::floor(a / b)};
  return {a - b * std::floor(a / b)};
}

}  // namespace

Value arithmetic(char sign, const Value& left, const Value& right, Budget& budget) {
  for (const Value* const value : {&left, &right})
    if (const Undefined* const missing = value->get<Undefined>()) reject("`{}` is undefined", missing->name);
  if (sign == '+' && left.text() != nullptr && right.text() != nullptr) {
    budget.make(left.text()->size() + right.text()->size());
    return text(*left.text() + *right.text());
  }
  if (sign == '+' && left.list() != nullptr && right.list() != nullptr) {
    Values items = left.list()->items;
    items.insert(items.end(), right.list()->items.begin(), right.list()->items.end());
    budget.make(items.size() * sizeof(Value));
    return list(std::move(items), left.list()->is_tuple);
  }
  if (sign == '*' && is_whole(left) && !is_number(right)) return arithmetic(sign, right, left, budget);
  if (sign == '*' && is_whole(right)) {
    if (left.text() != nullptr)
      return repeated<std::string>(*left.text(), whole(right), text, left.text()->size(), budget);
    if (left.list() != nullptr)
      return repeated<Values>(
          left.list()->items, whole(right), [](Values items) { return list(std::move(items)); },
          left.list()->items.size() * sizeof(Value), budget);
  }
  if (sign == '%' && left.text() != nullptr) reject("texts that are formatted by `%` are not supported");
  if (!is_number(left) || !is_number(right))
    reject("expected two numbers, or `+` of two texts or lists, got {} {} {}", type_name(left),
           sign == '^'   ? "**"
           : sign == ':' ? "//"
                         : std::string(1, sign),
           type_name(right));
  if (is_whole(left) && is_whole(right) && sign != '/' && !(sign == '^' && whole(right) < 0))
    return whole_arithmetic(sign, whole(left), whole(right));
  return real_arithmetic(sign, number(left), number(right));
}

bool contains(const Value& all, const Value& one, Budget& budget) {
  budget.search(all, one);
  if (all.text() != nullptr) {
    if (one.text() == nullptr) reject("expected a text to look for in a text, got {}", type_name(one));
    return all.text()->find(*one.text()) != std::string::npos;
  }
  if (all.map() != nullptr) return one.text() != nullptr && all.map()->find(*one.text()) != nullptr;
  if (all.list() == nullptr && !all.has<Undefined>())
    reject("expected a list, mapping or text to look in, got {}", type_name(all));
  return all.list() != nullptr &&
         std::ranges::any_of(all.list()->items, [&](const Value& value) { return equal(value, one); });
}

}  // namespace lacuna::chat
