// Options read from trees by their tables.
#include "core/schema.h"

#include "core/error.h"

#include <doctest/doctest.h>

#include <array>

namespace lacuna {
namespace {

enum class Mode : std::uint8_t { fast, exact };
std::array<std::pair<std::string_view, Mode>, 2> names_of(Mode) {
  return {{{"fast", Mode::fast}, {"exact", Mode::exact}}};
}

struct Base {
  std::int64_t count = 3;
  static Fields fields() { return {field("count", &Base::count, between(1, 8), "how many")}; }
};
struct Other {
  float rate = 0.5F;
};
struct Sample : Base, Other {
  bool flag = false;
  Mode mode = Mode::exact;
  std::string text;
  std::vector<double> numbers;
  std::vector<std::int64_t> lengths;
  Names names;
  std::optional<double> maybe;

  static Fields fields() {
    return rows_of_base<Sample, Base>() + Fields{field<Sample>("rate", &Sample::rate, below(1), "a number"),
                                                 field("flag", &Sample::flag, training_only),
                                                 field("mode", &Sample::mode),
                                                 field("text", &Sample::text),
                                                 field("numbers", &Sample::numbers),
                                                 field("lengths", &Sample::lengths),
                                                 field("names", &Sample::names),
                                                 field("maybe", &Sample::maybe)};
  }
};

std::string refusal(const OptionValues& given) {
  try {
    read_options<Sample>("sample", given);
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::input);
    return error.what();
  }
  return {};
}

TEST_CASE("schema: options are read and written by their table") {
  const auto read = read_options<Sample>("sample", {{"count", 5},
                                                    {"rate", 0.25},
                                                    {"flag", true},
                                                    {"mode", "fast"},
                                                    {"text", "3"},
                                                    {"numbers", std::vector{1.0, 1e-5}},
                                                    {"lengths", std::vector{4, 5}},
                                                    {"names", "alone"},
                                                    {"maybe", 2.5}});
  CHECK(read.count == 5);
  CHECK(read.rate == 0.25F);
  CHECK(read.flag);
  CHECK(read.mode == Mode::fast);
  CHECK(read.names == Names{"alone"});
  CHECK(read.maybe == 2.5);
  Options options = read;
  std::string all;
  OptionValues written;
  for (const Field& field : options.fields()) {
    written.emplace(field.name, options.write(field));
    all += to_yaml(options.write(field)) + " ";
  }
  CHECK(all == "5 0.25 true fast \"3\" [1, 1.0e-05] [4, 5] [alone] 2.5 ");
  const auto again = read_options<Sample>("sample", written);
  CHECK(again.numbers == read.numbers);
  CHECK(again.text == "3");
  CHECK(to_yaml(Options(Sample{}).write(*options.find("maybe"))).empty());
  CHECK(options.find("flag")->use == training_only);
  CHECK(options.find("count")->type() == "whole number in [1, 8]");
}

TEST_CASE("schema: a wrong value is refused by its name, with what was expected") {
  const std::pair<OptionValues, std::string> table[] = {
      {{{"count", 9}}, "sample: count: expected a whole number in [1, 8], got `9`"},
      {{{"count", 1.5}}, "count"},
      {{{"count", "3"}}, "the text `3`"},
      {{{"rate", 1}}, "rate"},
      {{{"flag", 1}}, "true or false"},
      {{{"mode", "exakt"}}, "did you mean \"exact\"?"},
      {{{"text", std::vector{1.0}}}, "text"},
      {{{"numbers", 1.0}}, "a list of numbers"},
      {{{"lengths", std::vector{1.5}}}, "lengths"},
      {{{"coumt", 1}}, "\"coumt\", did you mean \"count\"?"},
  };
  for (const auto& [given, words] : table) {
    const std::string message = refusal(given);
    CHECK_MESSAGE(message.find(words) != std::string::npos, message);
  }
  const std::string all = refusal({{"count", 9}, {"rate", 1}});
  CHECK(all.find('\n') != std::string::npos);
}

TEST_CASE("schema: trees are equal by what they say") {
  CHECK(Tree(4) == Tree(4.0));
  CHECK(Tree(1e-5) == Tree(0.00001));
  CHECK(!(Tree("4") == Tree(4)));
  CHECK(!(Tree(true) == Tree("true")));
  CHECK(Tree(std::vector{1, 2}) == Tree(std::vector{1.0, 2.0}));
  CHECK(to_yaml(Tree("a\tb\"\x01")) == "\"a\\tb\\\"\\u0001\"");
}

}  // namespace
}  // namespace lacuna
