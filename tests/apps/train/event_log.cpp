// Event files: what a run writes, read by a decoder of the test's own and by TensorBoard.
#include "tests/apps/train/train_run.h"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace lacuna::test {
namespace {

std::uint32_t crc32c(std::string_view data) {
  std::uint32_t crc = ~0U;
  for (const char c : data) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
  }
  return ~crc;
}

template <class T>
T take(std::string_view& bytes) {
  T value{};
  REQUIRE(bytes.size() >= sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

std::string_view take(std::string_view& bytes, std::size_t count) {
  REQUIRE(bytes.size() >= count);
  const std::string_view taken = bytes.substr(0, count);
  bytes.remove_prefix(count);
  return taken;
}

std::uint64_t varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = take<unsigned char>(bytes);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
}

/// Fields of a message by number: numbers as their bits, the rest as bytes.
std::multimap<std::uint64_t, std::string> message(std::string_view bytes) {
  std::multimap<std::uint64_t, std::string> fields;
  while (!bytes.empty()) {
    const std::uint64_t key = varint(bytes);
    std::string value;
    if (key % 8 == 0) value = std::to_string(varint(bytes));
    if (key % 8 == 1) value = take(bytes, 8);
    if (key % 8 == 2) value = take(bytes, varint(bytes));
    if (key % 8 == 5) value = take(bytes, 4);
    fields.emplace(key / 8, value);
  }
  return fields;
}

struct Scalar {
  std::int64_t step;
  double wall_time;
  float value;
};
using Scalars = std::map<std::string, std::vector<Scalar>>;

fs::path event_file(const fs::path& run) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(run))
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) files.push_back(entry.path());
  REQUIRE(files.size() == 1);
  return files.front();
}

Scalars read_events(const fs::path& run) {
  const std::string file = read_file(event_file(run));
  std::string_view rest = file;
  Scalars scalars;
  for (int number = 0; !rest.empty(); ++number) {
    const std::string_view length = rest.substr(0, 8);
    const auto count = take<std::uint64_t>(rest);
    CHECK(take<std::uint32_t>(rest) == std::rotr(crc32c(length), 15) + 0xA282EAD8U);
    const std::string_view data = take(rest, count);
    CHECK(take<std::uint32_t>(rest) == std::rotr(crc32c(data), 15) + 0xA282EAD8U);
    const auto event = message(data);
    if (number == 0) CHECK(event.find(3)->second == "brain.Event:2");
    if (!event.contains(5)) continue;
    for (const auto& [field, bytes] : message(event.find(5)->second)) {
      const auto value = message(bytes);
      Scalar& scalar = scalars[value.find(1)->second].emplace_back();
      scalar.step = std::stoll(event.find(2)->second);
      std::memcpy(&scalar.wall_time, event.find(1)->second.data(), sizeof scalar.wall_time);
      std::memcpy(&scalar.value, value.find(2)->second.data(), sizeof scalar.value);
    }
  }
  return scalars;
}

/// Each line of metrics.jsonl stands there once, in order.
void check_as_metrics(const Scalars& scalars, const fs::path& run) {
  std::map<std::string, std::vector<std::pair<std::int64_t, float>>> expected;
  std::istringstream lines(read_file(run / "metrics.jsonl"));
  for (std::string text; std::getline(lines, text);) {
    const nlohmann::json line = nlohmann::json::parse(text);
    const bool is_evaluation = line.contains("val_loss");
    for (const char* const key : {"loss", "accuracy", "lr", "gradient_norm"}) {
      const std::string name = is_evaluation ? std::string("val_") + key : key;
      if (line.contains(name))
        expected[(is_evaluation ? "val/" : "train/") + std::string(key)].emplace_back(line.at("step"), line.at(name));
    }
  }
  CHECK(expected.size() == 6);
  for (const auto& [tag, values] : expected) {
    INFO(tag);
    REQUIRE(scalars.contains(tag));
    const std::vector<Scalar>& found = scalars.at(tag);
    REQUIRE(found.size() == values.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i].step == values[i].first);
      CHECK(found[i].value == values[i].second);
      if (i > 0) CHECK(found[i].wall_time >= found[i - 1].wall_time);
    }
  }
}

}  // namespace

TEST_CASE("tensorboard: event files hold the metrics, each step once, after a resume too") {
  const TemporaryFolder folder(vit);
  REQUIRE(run_command(folder, train({"output.dir=r", "output.tensorboard=true", "output.save_every_steps=1"})).code ==
          0);
  const fs::path first = event_file(folder / "r");
  const Scalars whole = read_events(folder / "r");
  check_as_metrics(whole, folder / "r");
  CHECK(whole.at("train/samples_per_second").size() == 12);
  CHECK(whole.at("train/peak_mib").front().value < 1);
  CHECK(whole.at("train/loss").front().wall_time > 1.7e9);
  // A process that was killed before it removed the file that it had copied.
  fs::copy_file(first, folder / "r/events.out.tfevents.0000000001.host.1");
  // A record that was cut short by a crash.
  write_file(first, read_file(first) + "\x01\x02");
  std::string earlier;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / "r/checkpoints"))
    if (const std::string name = entry.path().filename().string(); earlier.empty() || name < earlier) earlier = name;
  test::run(folder, {"train", "--resume", "r/checkpoints/" + earlier, "train.epochs=4"});
  const Scalars after = read_events(folder / "r");
  check_as_metrics(after, folder / "r");
  CHECK(after.at("train/loss").size() == 16);
  CHECK(after.at("train/loss").front().wall_time == whole.at("train/loss").front().wall_time);
  // Another run in its place removes them, without events of its own.
  test::run(folder, train({"--overwrite", "output.dir=r", "train.steps=1"}));
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / "r"))
    CHECK(!entry.path().filename().string().starts_with("events."));
}

TEST_CASE("tensorboard: TensorBoard reads the event files") {
  const char* const given = std::getenv("PYTHON");
  const std::string python = given == nullptr ? "/usr/bin/python3" : given;
  const TemporaryFolder folder;
  if (run_program(folder, python, {"-c", "import tensorboard"}).code != 0) {
    MESSAGE("left out: " << python << " has no tensorboard; PYTHON names one that has");
    return;
  }
  write_file(folder / "c.yaml", vit);
  test::run(folder, train({"output.dir=r", "output.tensorboard=true"}));
  const CommandResult result =
      run_program(folder, python,
                  {"-c",
                   "import json\nfrom tensorboard.backend.event_processing.event_accumulator import EventAccumulator\n"
                   "events = EventAccumulator('r')\nevents.Reload()\n"
                   "print(json.dumps({tag: [[e.step, e.wall_time, e.value] for e in events.Scalars(tag)] for tag in "
                   "events.Tags()['scalars']}))"});
  INFO(result.error);
  REQUIRE(result.code == 0);
  Scalars scalars;
  const nlohmann::json read = result.json();
  for (const auto& [tag, events] : read.items())
    for (const auto& event : events) scalars[tag].push_back({event.at(0), event.at(1), event.at(2)});
  check_as_metrics(scalars, folder / "r");
}

}  // namespace lacuna::test
