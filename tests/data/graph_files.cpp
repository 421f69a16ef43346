// Graphs in files.
#include "core/error.h"
#include "data/dataset.h"
#include "data/files/arrays.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

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

TEST_CASE("graph files: OGB's folders") {
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

TEST_CASE("graph files: pickles are refused") {
  const TemporaryFolder folder;
  write(folder / "ind.cora.graph", "");
  CHECK_THROWS_AS(sample_of(folder.path(), Split::train), Error);
}

}  // namespace lacuna
