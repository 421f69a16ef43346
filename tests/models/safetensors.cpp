#include "models/io/safetensors.h"

#include "tests/apps/problems.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

namespace lacuna {
namespace {

using test::names;
using test::read_file;
using test::TemporaryFolder;
using test::write_file;

std::string with_length(std::string_view json, std::string_view data = {}) {
  const std::uint64_t length = json.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file.append(json).append(data);
}

/// The message with which a header is refused; empty when it is not.
std::string refusal(std::string_view json, std::uint64_t data_bytes) {
  try {
    parse_safetensors_header(json, data_bytes, "file");
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::input);
    return error.what();
  }
  return {};
}

std::string refusal_of_file(const TemporaryFolder& folder, std::string_view content) {
  write_file(folder / "bad.safetensors", content);
  try {
    SafetensorsFile(folder / "bad.safetensors");
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::input);
    return std::string(error.what()).substr(folder.path().size() + 1);
  }
  return {};
}

}  // namespace

TEST_CASE("safetensors: what was written reads back to the bit") {
  const TemporaryFolder folder;
  const Tensor weight = Tensor::from(std::vector<float>{1, -2, 3.5F, 0, 5, 6}, {2, 3});
  const Tensor half = Tensor::from(std::vector<float>{1.5F, -2}, {2}, DType::bf16);
  const Tensor index = Tensor::from(std::vector<std::int64_t>{-1, 7}, {2});
  const Tensor scalar = Tensor::from(std::vector<double>{0.1}, {});
  const Tensor empty = Tensor::empty({0, 3}, DType::f32, Device::cpu);
  write_safetensors(folder / "a.safetensors",
                    {{"weight", weight}, {"half", half}, {"index", index}, {"scalar", scalar}, {"empty", empty}},
                    {{"model", "vit"}});

  const SafetensorsFile file(folder / "a.safetensors");
  CHECK(file.metadata() == std::map<std::string, std::string>{{"model", "vit"}});
  REQUIRE(file.entries().size() == 5);
  CHECK(file.entries().front().name == "empty");
  CHECK(file.find("absent") == nullptr);
  for (const auto& [name, tensor] :
       {NamedTensor{"weight", weight}, {"half", half}, {"index", index}, {"scalar", scalar}, {"empty", empty}}) {
    const Tensor read = file.load(name);
    CHECK(read.shape() == tensor.shape());
    CHECK(read.dtype() == tensor.dtype());
    CHECK(read.to_vector() == tensor.to_vector());
  }
  CHECK(file.load("half").dtype() == DType::bf16);
  CHECK(read_file(folder / "a.safetensors").size() % 8 == 4);  // an aligned header, then 8 + 16 + 24 + 4 bytes
}

TEST_CASE("safetensors: reads what the reference implementation wrote") {
  const SafetensorsFile file(LACUNA_SOURCE_DIR "/tests/models/reference.safetensors");
  CHECK(file.metadata().at("ünïcode") == "ja");
  CHECK(file.load("weight").to_vector() == std::vector<double>{0, 0.25, 0.5, 0.75, 1, 1.25});
  CHECK(file.load("weight").shape() == Shape{2, 3});
  CHECK(file.load("half").to_vector() == std::vector<double>{1.5, -2, 65504});
  CHECK(file.load("wide").to_vector() == std::vector<double>{1e300, -1e-300});
  CHECK(file.load("index").to_vector() == std::vector<double>{-1, 0x1p40});
  CHECK(file.load("small").to_vector() == std::vector<double>{-7, 7});
  CHECK(file.load("bytes").to_vector() == std::vector<double>{0, 255, 3});
  CHECK(file.load("scalar").item() == 0.25);
  CHECK(file.load("empty").shape() == Shape{0, 4});
  REQUIRE(file.find("mask") != nullptr);
  CHECK(!file.find("mask")->dtype);
  CHECK_THROWS_WITH_AS(file.load("mask"), doctest::Contains("is of type BOOL, which Lacuna does not have"), Error);
  CHECK_THROWS_WITH_AS(file.load("other"), doctest::Contains("has no tensor \"other\""), Error);
}

TEST_CASE("safetensors: a malformed header is refused with what is wrong") {
  const auto tensor = [](std::string_view inside) { return fmt::format(R"({{"a":{{{}}}}})", inside); };
  CHECK(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}   )", 8) == "");
  CHECK(refusal("{}", 0) == "");
  test::check_says(refusal(" {}", 0), "'{'");
  test::check_says(refusal("", 0), "'{'");
  CHECK(refusal("{\"a\":", 0).starts_with("file: the header is no valid JSON at byte"));
  CHECK(refusal("{} {}", 0).starts_with("file: the header is no valid JSON at byte"));
  CHECK(refusal("{\"\xff\":{}}", 0).starts_with("file: the header is no valid JSON at byte"));
  CHECK(names(refusal(R"({"a":3})", 0), "file", {"object", R"("a")", "number", "3"}));
  CHECK(names(refusal(R"({"a":[]})", 0), "file", {"object", R"("a")"}));
  CHECK(
      names(refusal(R"({"__metadata__":{"k":1}})", 0), "file", {"string", R"("k")", "`__metadata__`", "number", "1"}));
  CHECK(names(refusal(R"({"__metadata__":{"k":{}}})", 0), "file", {"string", R"("k")", "`__metadata__`", "object"}));
  CHECK(names(refusal(R"({"__metadata__":{"k":"a","k":"b"}})", 0), "file", {R"("k")", "`__metadata__`", "twice"}));
  CHECK(names(refusal(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{}})", 0), "file",
              {R"("a")", "twice"}));
  CHECK(names(refusal(R"({"__metadata__":{},"__metadata__":{}})", 0), "file", {R"("__metadata__")", "twice"}));
  CHECK(names(refusal(tensor(R"("shape":[1],"shape":[1])"), 0), "file", {R"("a")", "`shape`", "twice"}));
  CHECK(names(refusal(tensor(R"("strides":[1])"), 0), "file", {R"("a")", "unknown", "`strides`"}));
  CHECK(names(refusal(tensor(R"("shape":[1],"data_offsets":[0,4])"), 4), "file", {R"("a")", "`dtype`"}));
  CHECK(names(refusal(tensor(R"("dtype":"F32","data_offsets":[0,4])"), 4), "file", {R"("a")", "`shape`"}));
  CHECK(names(refusal(tensor(R"("dtype":"F32","shape":[1])"), 4), "file", {R"("a")", "`data_offsets`"}));
  CHECK(names(refusal(tensor(R"("dtype":7)"), 4), "file", {"string", "`dtype`", R"("a")", "number", "7"}));
  CHECK(names(refusal(tensor(R"("dtype":"F33","shape":[1],"data_offsets":[0,4])"), 4), "file",
              {R"("a")", "unknown", R"("F33")"}));
  CHECK(names(refusal(tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), 4), "file",
              {"list of whole numbers", "0", "`shape`", R"("a")", "number", "-1"}));
  CHECK(names(refusal(tensor(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])"), 4), "file",
              {"list of whole numbers", "0", "`shape`", R"("a")", "number", "1.5"}));
  CHECK(names(refusal(tensor(R"("dtype":"F32","shape":[[1]],"data_offsets":[0,4])"), 4), "file",
              {"list of whole numbers", "0", "`shape`", R"("a")"}));
  CHECK(names(refusal(tensor(R"("dtype":"F32","shape":[1,1,1,1,1,1,1],"data_offsets":[0,4])"), 4), "file",
              {R"("a")", "6", "`shape`"}));
  CHECK(names(refusal(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4), "file",
              {R"("a")", "F32", "[2]", "8", "4"}));
  CHECK(names(refusal(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), 4), "file",
              {R"("a")", "`data_offsets`", "[4, 0]", "[begin, end]"}));
  CHECK(names(refusal(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4])"), 4), "file",
              {R"("a")", "`data_offsets`", "[4]", "[begin, end]"}));
  for (const std::string_view shape : {"4294967296,4294967296", "9223372036854775808,0,9223372036854775808"})
    CHECK(refusal(tensor(fmt::format(R"("dtype":"U8","shape":[{}],"data_offsets":[0,0])", shape)), 0)
              .ends_with("has more bytes than can be counted"));
  CHECK(refusal(tensor(R"("dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,0])"), 0)
            .starts_with(
                R"(file: expected a list of whole numbers from 0 as `shape` of the tensor "a", got the number)"));

  const auto two = [](std::string_view first, std::string_view second) {
    return fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":[{}]}},)"
                       R"("b":{{"dtype":"U8","shape":[4],"data_offsets":[{}]}}}})",
                       first, second);
  };
  CHECK(refusal(two("4,8", "0,4"), 8) == "");
  CHECK(names(refusal(two("0,4", "3,7"), 7), "file", {R"("b")", "3", "4", "overlaps"}));
  CHECK(names(refusal(two("0,4", "5,9"), 9), "file", {R"("b")", "5", "4", "hole"}));
  CHECK(names(refusal(two("0,4", "4,8"), 7), "file", {"8", "7", "truncated"}));
  CHECK(names(refusal(two("0,4", "4,8"), 9), "file", {"8", "9", "end"}));
  CHECK(names(refusal("{\"a\":" + std::string(1'000'000, '['), 0), "file", {"object", R"("a")"}));
}

TEST_CASE("safetensors: a file that is no safetensors file is refused before its header is read") {
  const TemporaryFolder folder;
  CHECK(names(refusal_of_file(folder, ""), "bad.safetensors", {"0 bytes"}));
  CHECK(names(refusal_of_file(folder, with_length("{}").substr(0, 9)), "bad.safetensors", {"2 bytes", "1 follow"}));
  test::check_says(refusal_of_file(folder, "PK\x03\x04 is a zip archive"), "more than the 100000000");
  CHECK(refusal_of_file(folder, with_length("{}")) == "");
  CHECK_THROWS_WITH_AS(SafetensorsFile(folder / "absent"), doctest::Contains("No such file"), Error);
  CHECK_THROWS_WITH_AS(SafetensorsFile(folder.path()), doctest::Contains("is no regular file"), Error);
}

TEST_CASE("safetensors: a failed write leaves the older file whole and nothing else") {
  const TemporaryFolder folder;
  const auto path = folder / "a.safetensors";
  write_safetensors(path, {{"a", Tensor::full({8}, 1, DType::f32, Device::cpu)}});
  const std::string before = read_file(path);

  struct rlimit limit {};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { .rlim_cur = 4096, .rlim_max = limit.rlim_max };
  ::setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  try {
    write_safetensors(path, {{"a", Tensor::full({4096}, 2, DType::f32, Device::cpu)}});
  } catch (const Error& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, handler);

  CHECK(message == "cannot write " + path.string() + ": File too large; the file that was there is unchanged");
  CHECK(read_file(path) == before);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  CHECK_THROWS_WITH_AS(write_safetensors(folder / "no/a.safetensors", {}), doctest::Contains("No such file"), Error);
}

TEST_CASE("safetensors: a name is written once") {
  const TemporaryFolder folder;
  const Tensor one = Tensor::full({1}, 1, DType::f32, Device::cpu);
  CHECK_THROWS_WITH_AS(write_safetensors(folder / "a", {{"a", one}, {"a", one}}),
                       doctest::Contains("two tensors would be written as \"a\""), Error);
  CHECK_THROWS_AS(write_safetensors(folder / "a", {{"__metadata__", one}}), Error);
  CHECK(!std::filesystem::exists(folder / "a"));
}

}  // namespace lacuna
