#include "data/dataset.h"
#include "data/hold_out.h"
#include "data/opened_files.h"
#include "data/text/text_dataset.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <set>

namespace lacuna {
namespace {

using test::check_says;

/// 30 rows of class a, 30 of class b; `more` come first.
std::string rows(const std::string& more = "") {
  std::string text = "text\tlabel\n" + more;
  for (int i = 0; i < 30; ++i) text += fmt::format("good film {}\ta\nbad film {}\tb\n", i, i);
  return text;
}

}  // namespace

TEST_CASE("text: without a file to evaluate on, texts are held out by themselves and the seed") {
  const test::TemporaryFolder folder;
  test::write_file(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\nfilm\n");
  DatasetOptions options{.path = folder / "reviews.tsv",
                         .settings = {{"tokenizer", (folder / "vocab.txt").string()}, {"val_fraction", 0.2}}};
  const auto open = [&](Split split) {
    options.split = split;
    options.files = std::make_shared<OpenedFiles>();  // the file changes
    return open_dataset("text", options);
  };
  const auto held = [&] {
    const DatasetInfo info = open(Split::train)->info();
    REQUIRE(info.held_out);
    return std::set<std::string>(info.held_out->names.begin(), info.held_out->names.end());
  };
  test::write_file(folder / "reviews.tsv", rows());
  const auto train = open(Split::train), validation = open(Split::validation);
  CHECK(train->size() + validation->size() == 60);
  const std::set<std::string> first = held();
  CHECK(std::ssize(first) == validation->size());
  std::set<std::int64_t> classes;
  for (std::int64_t i = 0; i < validation->size(); ++i) classes.insert(validation->label(i));
  CHECK(classes == std::set<std::int64_t>{0, 1});

  // Added rows never move others; another seed does.
  test::write_file(folder / "reviews.tsv", rows("a new film\ta\nand another\tb\n"));
  std::set<std::string> later = held();
  later.erase("a new film");
  later.erase("and another");
  CHECK(later == first);
  options.seed = 2;
  CHECK(held() != first);
  options.seed = 1;

  // A run that recorded hashes goes on with the same texts, and so does one that recorded the texts.
  test::write_file(folder / "reviews.tsv", rows());
  for (const bool are_hashes : {true, false}) {
    auto before = std::make_shared<HeldOut>(HeldOut{.names = {"good film 0", "bad film 1"}, .are_hashes = are_hashes});
    if (are_hashes)
      for (std::string& name : before->names) name = hash_of_text(name);
    options.held_out_before = before;
    const std::set<std::string> again = held();
    CHECK(again.contains("good film 0"));
    CHECK(again.contains("bad film 1"));
  }
  options.held_out_before = nullptr;
  test::write_file(folder / "reviews.tsv", rows("a new film\ta\nand another\tb\n"));

  // An evaluation alone takes all; a file to evaluate on stands in place of the fraction.
  options.hold_out = HoldOut::none;
  CHECK(open(Split::validation)->size() == 62);
  options.hold_out = HoldOut::by_name;
  options.settings["validation"] = (folder / "reviews.tsv").string();
  check_says(test::refusal_of([&] { open(Split::train); }), "val_fraction");
  options.settings.erase("val_fraction");
  CHECK(open(Split::train)->size() == 62);
  options.settings.erase("validation");
  test::write_file(folder / "reviews.tsv", "text\tlabel\ngood\ta\nbad\tb\n");
  check_says(test::refusal_of([&] { open(Split::validation); }), "data.validation");
}

TEST_CASE("lines and tagged sentences without a file to evaluate on are held out by themselves and the seed") {
  std::string lines, tagged;
  for (int i = 0; i < 60; ++i) {
    lines += fmt::format("good film {}\n", i);
    tagged += fmt::format("good O\nfilm B\n{} O\n\n", i);
  }
  const std::pair<const char*, std::pair<std::string, std::string>> sets[] = {
      {"plain_text", {lines, "a new film\n"}}, {"tagged_text", {tagged, "a O\nnew O\nfilm B\n\n"}}};
  for (const auto& [name, texts] : sets) {
    CAPTURE(name);
    const test::TemporaryFolder folder;
    test::write_file(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nfilm\n");
    DatasetOptions options{.path = folder / "lines.txt",
                           .settings = {{"tokenizer", (folder / "vocab.txt").string()}, {"val_fraction", 0.2}}};
    const auto open = [&, kind = name](Split split) {
      options.split = split;
      options.files = std::make_shared<OpenedFiles>();
      return open_dataset(kind, options);
    };
    const auto held = [&] {
      const DatasetInfo info = open(Split::train)->info();
      REQUIRE(info.held_out);
      return std::set<std::string>(info.held_out->names.begin(), info.held_out->names.end());
    };
    test::write_file(folder / "lines.txt", texts.first);
    const auto train = open(Split::train), validation = open(Split::validation);
    const std::set<std::string> first = held();
    CHECK(first.begin()->starts_with("good film "));
    CHECK(validation->size() == std::ssize(first));
    CHECK(train->size() == 60 - validation->size());
    CHECK(validation->length(validation->size() - 1) == 5);
    test::write_file(folder / "lines.txt", texts.second + texts.first);
    std::set<std::string> later = held();
    later.erase("a new film");
    CHECK(later == first);
    options.seed = 2;
    CHECK(held() != first);
    options.hold_out = HoldOut::none;
    CHECK(open(Split::validation)->size() == 61);
    options.settings["validation"] = (folder / "lines.txt").string();
    check_says(test::refusal_of([&] { open(Split::train); }), "val_fraction");
  }
}

}  // namespace lacuna
