// Memory that runs out: what a run says of it, and that it loses nothing.
#include "apps/train/fit.h"
#include "apps/train/measure.h"
#include "core/allocator.h"
#include "core/sanitizer.h"
#include "tests/apps/train/train_run.h"

#include <fmt/format.h>

#include <new>

namespace lacuna::test {
namespace {

/// The text after `begin` on its line, up to `end`.
std::string between(const std::string& text, std::string_view begin, std::string_view end) {
  const std::size_t found = text.find(begin);
  if (found == std::string::npos) return {};
  const std::size_t from = found + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

#ifndef LACUNA_ADDRESS_SANITIZER  // whose own memory does not fit under a limit

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

// A step takes 260 MiB.
constexpr std::string_view large =
    "model: {name: vit, image_size: 32, patch_size: 4, embed_dim: 64, depth: 6, num_heads: 2}\n"
    "data: {name: shapes, train_size: 256, val_size: 10}\n"
    "train: {epochs: 2, batch_size: 256, threads: 1}\n";

TEST_CASE("out of memory: a run under a limit on addresses says what would fit, and that fits") {
  const TemporaryFolder folder(large);
  test::run(folder, train({"output.dir=r", "train.batch_size=64", "train.steps=1"}));
  const std::string before = read_file(folder / "r/last/model.safetensors");
  const Limits limits{.address = 330 * mebibyte};
  const CommandResult refused = run_command(folder, {"train", "--resume", "r", "train.batch_size=256"}, limits);
  INFO(refused.error);
  CHECK(refused.code == 1);
  CHECK(refused.error.find("lacuna: out of memory: training with batches of 256 needs ") == 0);
  check_says(refused.error, "ulimit -v");
  check_says(refused.error, "saved       linear            blocks.");
  CHECK(read_file(folder / "r/last/model.safetensors") == before);

  const std::string batch = between(refused.error, "\n  train.batch_size=", ":");
  const nlohmann::json planned =
      test::run(folder, {"plan", "-c", "c.yaml", "train.batch_size=" + batch, "--json", "-"}).json();
  CHECK(between(refused.error, "\n  train.batch_size=" + batch + ": ", ",") ==
        format_bytes(planned.at("peak_in_training").get<std::int64_t>()));
  const std::string parts = between(refused.error, "\n  train.accumulate=", ":");
  const std::string budget = between(refused.error, "memory.policy=auto memory.budget=", ":");
  for (const std::vector<std::string>& changes :
       {std::vector{"train.batch_size=" + batch}, std::vector{"train.accumulate=" + parts},
        std::vector{std::string("memory.policy=auto"), "memory.budget=" + budget}}) {
    std::vector<std::string> arguments = train({"output.dir=fits", "train.steps=1", "--overwrite"});
    arguments.insert(arguments.end(), changes.begin(), changes.end());
    const CommandResult fits = run_command(folder, arguments, limits);
    INFO(changes.front(), ": ", fits.error);
    CHECK(fits.code == 0);
  }
  CHECK(run_command(folder, {"train", "--resume", "r", "train.batch_size=" + batch, "train.steps=2"}, limits).code ==
        0);
  const CommandResult timed = run_command(folder, {"bench", "-c", "c.yaml"}, limits);
  CHECK(timed.code == 1);
  check_says(timed.error, "\n  train.batch_size=");
}

TEST_CASE("out of memory: auto with too large a budget says which fits, and that does") {
  const TemporaryFolder folder(std::string(large) + "memory: {policy: auto, budget: 1GiB}\n");
  const Limits limits{.address = 330 * mebibyte};
  for (const std::string of : {"peak", "saved"}) {
    const std::vector<std::string> run = train({"output.dir=r", "train.steps=1", "--overwrite"});
    const auto with = [&](std::string changes) {
      std::vector<std::string> arguments = run;
      std::istringstream words(std::move(changes));
      for (std::string word; words >> word;) arguments.push_back(word);
      return run_command(folder, arguments, limits);
    };
    const CommandResult refused = with("memory.budget_of=" + of);
    INFO(refused.error);
    CHECK(refused.code == 1);
    const std::string advice = "memory.budget=" + between(refused.error, "\n  memory.budget=", ":");
    CHECK((advice.find("memory.budget_of=peak") != std::string::npos) == (of == "saved"));
    const CommandResult fits = with(advice);
    INFO(advice, ": ", fits.error);
    CHECK(fits.code == 0);
  }
}

TEST_CASE("out of memory: under any limit on addresses a run ends with a message or trains") {
  const TemporaryFolder folder(vit);
  int trained = 0;
  for (const std::int64_t limit : {76, 90, 110, 120, 130, 140, 150, 200, 300}) {
    const CommandResult result =
        run_command(folder, train({"output.dir=r", "train.steps=2", "--overwrite"}), {.address = limit * mebibyte});
    INFO(limit, " MiB: ", result.code, " ", result.error);
    CHECK((result.code == 0 || result.code == 1));
    if (result.code == 1) CHECK(result.error.starts_with("lacuna: out of memory: "));
    trained += result.code == 0 ? 1 : 0;
  }
  CHECK(trained > 0);
}

TEST_CASE("out of memory: under any limit on data a run ends with a message or trains") {
  const TemporaryFolder folder(vit);
  int trained = 0;
  for (const std::int64_t limit : {20, 30, 40, 60, 90, 140, 200}) {
    const CommandResult result =
        run_command(folder, train({"output.dir=r", "train.steps=2", "--overwrite"}), {.data = limit * mebibyte});
    INFO(limit, " MiB: ", result.code, " ", result.error);
    CHECK((result.code == 0 || result.code == 1));
    if (result.code == 1) check_says(result.error, "ulimit -");
    trained += result.code == 0 ? 1 : 0;
  }
  CHECK(trained > 0);
}

TEST_CASE("memory.budget_of: process bounds what the system counts of a run") {
  const TemporaryFolder folder(large);
  const auto with = [&](const std::string& budget) {
    return run_command(folder, train({"output.dir=r", "train.steps=3", "--overwrite", "--json", "-",
                                      "memory={policy: auto, budget_of: process, budget: " + budget + "}"}));
  };
  for (const std::int64_t budget : {160, 220}) {  // everything exact takes more
    const CommandResult result = with(fmt::format("{}MiB", budget));
    INFO(result.error);
    REQUIRE(result.code == 0);
    CHECK(result.json().at("process_peak") <= budget * mebibyte);
    CHECK(result.json().at("process_peak") > budget * mebibyte / 2);
  }
  const CommandResult refused = with("20MiB");  // the program alone takes more
  CHECK(refused.code == 2);
  check_says(refused.error, "memory.budget");
}

#endif

}  // namespace

TEST_CASE("out of memory: the advice is checked under the rules of the configuration") {
  using namespace apps;
  // The rule's tensor has less than 4 KiB in a batch of one, and is none where the block runs again.
  const auto with = [](const std::string& memory) {
    return parse_configuration(
        "model: {name: vit, image_size: 16, patch_size: 4, embed_dim: 32, depth: 2, num_heads: 2, num_classes: 10}\n"
        "data: {image_size: 16}\n"
        "train: {batch_size: 64, threads: 1, device: cpu}\n"
        "memory: " +
            memory + "\n",
        "test");
  };
  const Experiment ruled = with("{policy: exact, rules: [{path: blocks.1.attn, op: attention, hold: int8}]}");
  Experiment smaller = ruled, cut = ruled;
  smaller.train.batch_size = 32;
  cut.train.accumulate = 2;
  const std::int64_t available =
      std::max(highest_need(measure(smaller, Device::meta)), highest_need(measure(cut, Device::meta)));
  const std::string advice = [&] {
    apps::Setup setup(ruled, Device::meta);
    return what_would_fit(setup, ruled, available, true);
  }();
  INFO(advice);
  smaller.train.batch_size = std::stoll(between(advice, "\n  train.batch_size=", ":"));
  CHECK(highest_need(measure(smaller, Device::meta)) <= available);
  check_says(advice, "\n  train.accumulate=2: ");
  check_says(advice, "\n  memory.policy=auto memory.budget=");
}

TEST_CASE("out of memory: an error in the midst of a run gets plans for what there was") {
  using namespace apps;
  const Experiment configuration = parse_configuration(
      "model: {name: vit, image_size: 16, patch_size: 4, embed_dim: 32, depth: 2, num_heads: 2, num_classes: 10}\n"
      "data: {image_size: 16}\n"
      "train: {batch_size: 64, threads: 1, device: cpu}\n",
      "test");
  const auto message = [&](const auto& work) -> std::string {
    try {
      with_advice_when_exhausted(configuration, true, work);
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::run);
      return error.what();
    }
    return {};
  };
  const Tensor held = Tensor::empty({1 << 20}, DType::u8, Device::cpu);
  const std::string tensors = message([&]() -> int {
    const AllocationScope scope({Purpose::saved, Label("linear"), Label("blocks.1.mlp.fc1")});
    throw_out_of_memory(7 << 20, "by tensors");
  });
  INFO(tensors);
  check_says(tensors, "7.00 MiB asked for by tensors in linear of blocks.1.mlp.fc1; tensors hold 1.00 MiB");
  check_says(tensors, "\n  train.batch_size=");
  const std::string heap = message([]() -> int { throw std::bad_alloc(); });
  check_says(heap, "the program asked for memory outside of tensors; tensors held up to ");
  check_says(heap, "\n  train.batch_size=");
  CHECK(message([]() -> int { fail("other"); }) == "other");
}

}  // namespace lacuna::test
