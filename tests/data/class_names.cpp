#include "data/class_names.h"

#include "core/error.h"

#include <doctest/doctest.h>

namespace lacuna {
namespace {

using Names = std::vector<std::string>;
using Numbers = std::vector<std::int64_t>;

TEST_CASE("classes are joined by name, and by place where a side has numbers alone") {
  struct Case {
    Names model, data;
    std::optional<Numbers> numbers;
    bool by_place = false;
    std::int64_t count = 3;
  };
  for (const Case& one : {
           Case{{"cat", "dog", "fox"}, {"cat", "dog", "fox"}, Numbers{0, 1, 2}},
           Case{{"cat", "dog", "fox"}, {"fox", "cat", "dog"}, Numbers{2, 0, 1}},
           Case{{"Cat", "DOG", "fox"}, {"dog", "FOX"}, Numbers{1, 2}},
           Case{{"cat", "dog", "fox"}, {"dog", "horse"}, {}},
           Case{{"cat", "dog", "fox"}, {"dog", "horse", "fox"}, {}},
           Case{{"Cat", "cat", "fox"}, {"CAT"}, {}},  // of two
           Case{{"Cat", "cat", "fox"}, {"cat"}, Numbers{1}},
           Case{{"r\u00e9sum\u00e9", "b", "c"}, {"re\u0301sume\u0301"}, Numbers{0}},
           Case{{"0", "1", "2"}, {"2", "0"}, Numbers{2, 0}},
           Case{{"LABEL_0", "LABEL_1", "LABEL_2"}, {"1", "2"}, Numbers{1, 2}},
           Case{{}, {"a", "b", "c"}, Numbers{0, 1, 2}, true},
           Case{{}, {"a", "b"}, {}},
           Case{{"neg", "mid", "pos"}, {"0", "2"}, Numbers{0, 2}, true},
           Case{{"neg", "mid", "pos"}, {"1", "2", "3"}, Numbers{0, 1, 2}, true},
           Case{{"neg", "mid", "pos"}, {"1", "3"}, {}},
           Case{{"neg", "mid", "pos"}, {"1", "2"}, {}},  // from 0 or from 1
           Case{{"neg", "mid", "pos"}, {"0", "1"}, Numbers{0, 1}, true},
           Case{{"0.0", "1.0", "10.0"}, {"1", "10"}, Numbers{1, 2}},
           Case{{"neg ", "mid", "pos"}, {"Neg", "mid", "pos"}, Numbers{0, 1, 2}},
           Case{{"LABEL_0", "LABEL_1", "LABEL_2"}, {"a", "b", "c"}, Numbers{0, 1, 2}, true},
       }) {
    CAPTURE(both_lists(one.model, one.data));
    const std::optional<JoinedClasses> joined = join_classes(one.model, one.count, one.data);
    CHECK(joined.has_value() == one.numbers.has_value());
    if (!joined || !one.numbers) continue;
    CHECK(joined->numbers == *one.numbers);
    CHECK(joined->by_place == one.by_place);
  }
  const Names tags{"O", "B-PER", "I-PER"};
  for (const Names& numbers : {Names{"0", "1"}, Names{"1", "2", "3"}})
    CHECK(in_order_of_model(*join_classes(tags, 3, numbers), tags, numbers) == tags);
  CHECK(in_order_of_model(*join_classes({"Cat", "dog", "fox"}, 3, {"fox", "cat"}), {"Cat", "dog", "fox"},
                          {"fox", "cat"}) == Names{"cat", "dog", "fox"});
}

TEST_CASE("names of classes come back from a setting, with commas and quotes too") {
  for (const Names& names : {Names{"a", "b"}, Names{"food, drink", "a \"b\"", "c"}, Names{"x.txt"}})
    CHECK(class_names(class_setting(names)) == names);
  CHECK(class_names(" a ,b") == Names{"a", "b"});
  for (const char* const wrong : {"a,,b", "a,", "a, a", "\"a\" b", "\"a"}) CHECK_THROWS_AS(class_names(wrong), Error);
}

}  // namespace
}  // namespace lacuna
