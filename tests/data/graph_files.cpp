// Graphs in files.
#include "core/error.h"
#include "data/dataset.h"
#include "data/files/arrays.h"
#include "data/files/input_file.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

namespace lacuna {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

/// The sample of a split, opened as what its files are recognised as.
Sample sample_of(const fs::path& folder, Split split, OptionValues settings = {}) {
  DatasetOptions options{.path = folder, .split = split};
  options.settings = std::move(settings);
  Sample sample;
  sample.begin(0);
  open_dataset(recognize_dataset(folder).name, options)->read(0, sample);
  return sample;
}
using Values = std::vector<double>;
Values numbers(const Sample& sample, const char* name) { return sample[name].to_vector(); }

void write_list(const fs::path& folder) {
  write(folder / "nodes.csv", "id,label,split,f0,f1\na,x,train,1,2\nb,y,val,3,4\nc,x,train,5,6\n");
  write(folder / "edges.csv", "source,target,weight\na,b,0.5\nc,a,2\n");
}

}  // namespace

TEST_CASE("graph files: GraphSAINT's folders") {
  const fs::path folder = LACUNA_SOURCE_DIR "/tests/data/graphsaint";
  const Sample train = sample_of(folder, Split::train), val = sample_of(folder, Split::validation);
  CHECK(train["features"].to_vector() == Values{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(numbers(train, "degrees") == Values{3, 3, 2, 1, 2});
  CHECK(numbers(train, "sources") == Values{0, 1, 4, 0, 1, 2, 1, 2, 3, 0, 4});
  CHECK(numbers(train, "nodes") == Values{0, 1, 2});
  CHECK(numbers(train, "labels") == Values{2, 0, 1});
  CHECK(numbers(val, "nodes") == Values{3});
  CHECK(numbers(sample_of(folder, Split::validation, {{"evaluated", std::string("test")}}), "nodes") == Values{4});
  const OptionValues inductive{{"inductive", true}};
  CHECK(numbers(sample_of(folder, Split::train, inductive), "degrees") == Values{2, 3, 2, 1, 1});
  CHECK(numbers(sample_of(folder, Split::validation, inductive), "degrees") == Values{3, 3, 2, 1, 2});
  const Values scaled = numbers(sample_of(folder, Split::train, {{"standardize", std::string("all")}}), "features");
  CHECK(scaled[4] == doctest::Approx(0));
}

TEST_CASE("graph files: OGB's folders, compressed") {
  const fs::path folder = LACUNA_SOURCE_DIR "/tests/data/ogb";
  const Sample train = sample_of(folder, Split::train), val = sample_of(folder, Split::validation);
  CHECK(numbers(train, "features") == Values{.25, -1.5, 1e-5F, 2, 3, 4, 5, 6, 7, 8});
  CHECK(numbers(train, "degrees") == Values{2, 3, 2, 2, 2});
  CHECK(numbers(train, "labels") == Values{1, 2});
  CHECK(numbers(val, "nodes") == Values{1});
}

TEST_CASE("graph files: tables as pandas writes them where a cell is empty") {
  const TemporaryFolder folder;
  write(folder / "nodes.csv", "id,label,split,f0\n0.0,1.0,train,1\n1.0,-1.0,train,2\n2.0,10.0,valid,3\n3.0,,none,4\n");
  CHECK_THROWS_AS(sample_of(folder.path(), Split::train), Error);  // no edges.csv
  write(folder / "edges.csv", "source,target\n0,1.0\n2.0,0\n");
  CHECK(numbers(sample_of(folder.path(), Split::train), "labels") == Values{0});
  const Sample val = sample_of(folder.path(), Split::validation);
  CHECK(numbers(val, "nodes") == Values{2});
  CHECK(numbers(val, "labels") == Values{1});
}

TEST_CASE("graph files: OGB's folders, not compressed") {
  const TemporaryFolder folder;
  write(folder / "raw/edge.csv.gz", "0,1\n2,1\n");
  write(folder / "raw/node-feat.csv.gz", "1,2\n3,4\n5,6\n");
  write(folder / "raw/node-label.csv.gz", "1\nnan\n0\n");
  write(folder / "split/time/train.csv.gz", "0\n1\n");
  write(folder / "split/time/valid.csv.gz", "2\n");
  write(folder / "split/time/test.csv.gz", "");
  const Sample train = sample_of(folder.path(), Split::train);
  CHECK(numbers(train, "nodes") == Values{0});  // node 1 has no label
  CHECK(numbers(train, "degrees") == Values{2, 3, 2});
  const Sample directed = sample_of(folder.path(), Split::train, {{"undirected", false}});
  CHECK(numbers(directed, "degrees") == Values{1, 3, 1});
  CHECK(numbers(directed, "out_degrees") == Values{2, 1, 2});
  CHECK_THROWS_AS(sample_of(folder.path(), Split::validation, {{"evaluated", std::string("test")}}), Error);
}

TEST_CASE("graph files: lists of edges with weights, and nodes by name") {
  const TemporaryFolder folder;
  write_list(folder.path());
  const Sample train = sample_of(folder.path(), Split::train);
  CHECK(numbers(train, "sources") == Values{0, 1, 2, 0, 1, 0, 2});
  CHECK(numbers(train, "weights") == Values{1, 0.5, 2, 0.5, 1, 2, 1});
  CHECK(numbers(train, "nodes") == Values{0, 2});
  CHECK(numbers(train, "labels") == Values{0, 0});
  write(folder / "edges.csv", "source,target\na,d\n");
  CHECK_THROWS_AS(sample_of(folder.path(), Split::train), Error);
}

TEST_CASE("graph files: damaged arrays are refused before memory is taken for them") {
  const TemporaryFolder folder;
  const fs::path file = folder / "a.npy";
  const auto array = [&](const std::string& shape, const std::string& values) {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }";
    header.resize(118, ' ');
    write(file, std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + values);
  };
  array("(1, 2)", std::string(8, '\0'));
  CHECK(read_npy(file).floats().shape() == Shape{1, 2});
  array("(1000000000, 1000000000)", "");
  CHECK_THROWS_AS(read_npy(file), Error);
  array("(3,)", std::string(8, '\0'));
  CHECK_THROWS_AS(read_npy(file), Error);
  write(folder / "a.npz", "PK\x05\x06");
  CHECK_THROWS_AS(read_npz(folder / "a.npz"), Error);
}

TEST_CASE("graph files: a damaged file is refused, and named") {
  const fs::path ours = LACUNA_SOURCE_DIR "/tests/data";
  struct Damage {
    const char *folder, *file;
    std::function<std::string(std::string)> change;
  };
  const auto text = [](const char* content) { return [=](const std::string&) { return std::string(content); }; };
  const auto half = [](const std::string& content) { return content.substr(0, content.size() / 2); };
  for (const auto& [name, file, change] :
       {Damage{"graphsaint", "adj_full.npz", half},
        Damage{"graphsaint", "feats.npy", half},
        Damage{"graphsaint", "class_map.json", half},
        Damage{"graphsaint", "role.json", half},
        Damage{"graphsaint", "class_map.json", text(R"({"5": 1})")},
        Damage{"graphsaint", "class_map.json", text(R"({"0": 1, "1": [0, 1]})")},
        Damage{"graphsaint", "class_map.json", text(R"({"0": 99999999999})")},
        Damage{"graphsaint", "role.json", text(R"({"tr": [0], "va": [5], "te": []})")},
        Damage{"graphsaint", "role.json", text(R"({"tr": [0], "va": [0], "te": []})")},
        Damage{"graphsaint", "role.json", text(R"({"tr": [0], "va": [1]})")},
        Damage{"graphsaint", "class_map.json", text(R"({"0": []})")},
        Damage{"graphsaint", "class_map.json", text(R"({"0": [0, 1], "1": [1, 0], "2": [1, 1]})")},
        Damage{"ogb", "raw/edge.csv.gz", half},
        Damage{"ogb", "raw/edge.csv.gz", text("")},
        Damage{"ogb", "raw/num-edge-list.csv.gz", text("100\n")},
        Damage{"ogb", "raw/num-node-list.csv.gz", text("100\n")},
        Damage{"ogb", "raw/node-feat.csv.gz", text("1e300\n")},
        Damage{"ogb", "raw/node-feat.csv.gz", half},
        Damage{"ogb", "raw/edge.csv.gz", text("source,target\n0,1\n")},
        Damage{"ogb", "raw/edge.csv.gz", text("0,5\n")},
        Damage{"ogb", "raw/edge.csv.gz", text("0,-1\n")},
        Damage{"ogb", "raw/edge.csv.gz", text("0,1,2\n")},
        Damage{"ogb", "raw/node-feat.csv.gz", text("1,2\n3\n")},
        Damage{"ogb", "raw/node-feat.csv.gz", text("nan\n")},
        Damage{"ogb", "raw/node-label.csv.gz", text("1\n0\n")},
        Damage{"ogb", "raw/node-label.csv.gz", text("1\n0\n0\n0\n0.5\n")},
        Damage{"ogb", "split/time/valid.csv.gz", text("0\n")},
        Damage{"ogb", "split/time/test.csv.gz", text("7\n")}}) {
    CAPTURE(file);
    const TemporaryFolder folder;
    fs::copy(ours / name, folder.path(), fs::copy_options::recursive);
    write(folder / file, change(read_text(folder / file, 1 << 20)));
    CHECK_THROWS_WITH_AS(sample_of(folder.path(), Split::train), doctest::Contains((folder / file).c_str()), Error);
  }
  const TemporaryFolder list;
  const auto expect_refused = [&](const char* file, const std::string& content) {
    CAPTURE(content);
    write_list(list.path());
    write(list / file, content);
    CHECK_THROWS_WITH_AS(sample_of(list.path(), Split::train), doctest::Contains(file), Error);
  };
  expect_refused("edges.csv", "a,b\n");
  expect_refused("edges.csv", "a,b\nc,a\n");
  expect_refused("edges.csv", "source,target,wieght\na,b,1\n");
  expect_refused("edges.csv", "source,target,weight\na,b,-1\n");
  expect_refused("edges.csv", "source,target,weight\na,b,1e300\n");
  expect_refused("edges.csv", "source,target,weight\na,b,.5\na,b,2\n");
  expect_refused("edges.csv", "source,target,weight\na,b,.5\nb,a,2\n");
  expect_refused("edges.csv", "source,target\na\n");
  expect_refused("nodes.csv", "id,label,split,f0\na,x,train,1\na,y,val,1\n");
  expect_refused("nodes.csv", "id,label,split,f0\na,x,training,1\n");
  expect_refused("nodes.csv", "id,label,f0\na,x,1\n");
  expect_refused("nodes.csv", "\xef\xbb\xbfid,label,split,f0\na,x,train,one\n");
}

TEST_CASE("graph files: an archive with any byte changed, or cut anywhere, has the same arrays or is refused") {
  const std::string whole = read_text(LACUNA_SOURCE_DIR "/tests/data/graphsaint/adj_full.npz", 1 << 20);
  const TemporaryFolder folder;
  const fs::path file = folder / "a.npz";
  const auto arrays = [&](const std::string& content) {
    write(file, content);
    std::map<std::string, std::vector<std::int64_t>> values;
    for (const auto& [name, array] : read_npz(file))
      if (array.type.front() == 'i') values[name] = array.whole_numbers();
    return values;
  };
  const auto expected = arrays(whole);
  CHECK(expected.at("indptr") == std::vector<std::int64_t>{0, 2, 4, 5, 5, 6});
  int refused = 0;
  const auto expect_same_or_refused = [&](const std::string& content) {
    try {
      for (const auto& [name, values] : arrays(content))
        if (expected.contains(name)) CHECK(values == expected.at(name));
    } catch (const Error&) {
      ++refused;
    }
  };
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0x5a);
    expect_same_or_refused(changed);
    expect_same_or_refused(whole.substr(0, i));
  }
  CHECK(refused > 0);
}

TEST_CASE("graph files: a matrix by columns is refused") {
  std::string content = read_text(LACUNA_SOURCE_DIR "/tests/data/graphsaint/adj_train.npz", 1 << 20);
  const TemporaryFolder folder;
  fs::copy(LACUNA_SOURCE_DIR "/tests/data/graphsaint", folder.path());
  content.replace(content.find("csr"), 3, "csc");
  write(folder / "adj_full.npz", content);
  CHECK_THROWS_AS(sample_of(folder.path(), Split::train), Error);
}

TEST_CASE("graph files: pickles are refused") {
  const TemporaryFolder folder;
  write(folder / "ind.cora.graph", "");
  CHECK_THROWS_AS(sample_of(folder.path(), Split::train), Error);
}

}  // namespace lacuna
