// Saved tensors on a file: the store itself, and the gradients of tapes that use it.
#include "autograd/offload_store.h"

#include "autograd/policies/rules.h"
#include "ops/activation.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "tests/autograd/graphs.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

using namespace lacuna;

namespace {

constexpr std::int64_t small_ring = 8 * 4096;  // far less than the tensors

/// Gradients of a few layers under a policy, with its tensors in `store`.
std::vector<std::vector<double>> gradients(std::string_view name, const std::shared_ptr<OffloadStore>& store,
                                           int passes = 1, const std::vector<HoldRule>& rules = {}) {
  const std::unique_ptr<RuledPolicy> policy = with_rules(make_policy(name), rules);
  if (store) policy->set_store(store, true);
  const Variable x = test_leaf({16, 64, 64}, 1, DType::f32);
  std::vector<Variable> weights;
  for (std::uint32_t i = 2; i < 8; ++i) weights.push_back(test_parameter({64, 64}, i, DType::f32));
  const Variable scale = test_parameter({64}, 9, DType::f32), bias = test_parameter({64}, 10, DType::f32);
  const RandomStateScope random({.seed = 3, .step = 1});
  Tape tape(*policy);
  const Recording recording(tape);
  Variable h = x;
  for (const Variable& weight : weights)
    h = apply(Gelu{}, apply(Linear{}, apply(LayerNorm{}, std::move(h), scale, bias), weight, Variable()));
  const Variable loss = total(std::move(h));
  tape.finalize();
  const std::int64_t in_memory = live_bytes(Purpose::saved);
  for (int pass = 0; pass < passes; ++pass) {
    for (const Variable& leaf : weights) Variable(leaf).set_grad({});
    tape.backward(loss, {.retain_graph = pass + 1 < passes});
  }
  if (store) {
    CHECK(in_memory < 2 * x.tensor().bytes());  // the input and statistics of norms, of 12 tensors or more
    CHECK(store->bytes() == 0);
  }
  CHECK(live_bytes(Purpose::saved) == 0);
  std::vector<std::vector<double>> all{x.grad().to_vector()};
  for (const Variable& weight : weights) all.push_back(weight.grad().to_vector());
  return all;
}

/// From now on reads of the one file that is open in `folder` fail, and writes do not.
void break_reads(const std::filesystem::path& folder) {
  const std::string start = std::filesystem::canonical(folder).string() + "/";
  int file = -1;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    if (std::filesystem::read_symlink(entry.path(), ignored).string().starts_with(start))
      file = std::stoi(entry.path().filename().string());
  }
  REQUIRE(file >= 0);
  const int write_only = ::open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(write_only >= 0);
  REQUIRE(::dup2(write_only, file) == file);
  ::close(write_only);
}

}  // namespace

TEST_CASE("offload: a store gives the bytes back, in any order, through a ring that is smaller than a tensor") {
  const test::TemporaryFolder folder;
  OffloadStore store({.folder = folder.path(), .buffer = small_ring});
  CHECK(std::filesystem::is_empty(folder.path()));
  std::vector<Tensor> tensors;
  std::vector<OffloadStore::Id> ids;
  for (std::uint32_t i = 0; i < 7; ++i) {
    tensors.push_back(test_values({1 + 4999 * static_cast<std::int64_t>(i)}, i, DType::f32));
    ids.push_back(store.put(tensors.back()).value());
  }
  store.drop(ids[3]);
  for (const std::size_t i : {6U, 2U, 0U, 5U, 1U, 4U}) {
    CAPTURE(i);
    for (const bool again : {true, false}) {
      const Tensor back = empty_like(tensors[i]);
      store.get(ids[i], back, again);
      CHECK(back.to_vector() == tensors[i].to_vector());
    }
    store.drop(ids[i]);
    // Its room is taken again while other tensors are read.
    const OffloadStore::Id other = store.put(tensors[6]).value();
    store.drop(other);
  }
  CHECK(store.bytes() == 0);
  CHECK_THROWS_AS(OffloadStore({.folder = folder / "nowhere"}), Error);
}

TEST_CASE("offload: a read that fails while the chunk before is copied is an error") {
  const test::TemporaryFolder folder;
  constexpr std::int64_t chunk = std::int64_t{2} << 20, ring = 8 * chunk;
  OffloadStore store({.folder = folder.path(), .buffer = ring});
  const Tensor first = Tensor::full({ring + 4 * chunk}, 1, DType::u8, Device::cpu),
               second = Tensor::full({ring}, 2, DType::u8, Device::cpu);
  const OffloadStore::Id id = store.put(first).value(), later = store.put(second).value();
  store.get(later, empty_like(second), false);
  store.drop(later);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the ring is filled with the start of the first
  break_reads(folder.path());
  CHECK_THROWS_AS(store.get(id, empty_like(first), false), Error);
}

TEST_CASE("offload: what goes beyond the budget is refused, and told once") {
  const test::TemporaryFolder folder;
  int told = 0;
  for (const Device device : {Device::cpu, Device::meta}) {
    OffloadStore store({.folder = folder.path(),
                        .budget = 3 * 8192,
                        .buffer = small_ring,
                        .device = device,
                        .warn = [&](const std::string&) { ++told; }});
    const Tensor two_pages = Tensor::empty({2048}, DType::f32, device);
    for (int i = 0; i < 3; ++i) CHECK(store.put(two_pages));
    for (int i = 0; i < 3; ++i) CHECK_FALSE(store.put(two_pages));
  }
  CHECK(told == 2);
}

TEST_CASE("offload: gradients have the bits that they have without, once and twice") {
  const test::TemporaryFolder folder;
  for (const std::int64_t ring : {small_ring, std::int64_t{8} << 20})
    for (const char* const name : {"keep", "exact", "fixed", "mesa"}) {
      CAPTURE(name);
      const auto store = std::make_shared<OffloadStore>(OffloadOptions{.folder = folder.path(), .buffer = ring});
      const auto plain = gradients(name, nullptr);
      CHECK(gradients(name, store) == plain);
      CHECK(gradients(name, store) == plain);
      CHECK(gradients(name, store, 2)[1] == gradients(name, nullptr, 2)[1]);
    }
}

TEST_CASE("offload: on meta as many bytes are in memory as on the CPU") {
  const test::TemporaryFolder folder;
  const auto most = [&](Device device) {
    const auto store =
        std::make_shared<OffloadStore>(OffloadOptions{.folder = folder.path(), .buffer = small_ring, .device = device});
    const std::unique_ptr<RuledPolicy> policy = with_rules(make_policy("exact"), {});
    policy->set_store(store, true);
    const auto of = [&](const Shape& shape, Purpose purpose) {
      return Variable(Tensor::zeros(shape, DType::f32, device, purpose), true);
    };
    const Variable weight = of({64, 64}, Purpose::parameters);
    ledger(device).reset_peak();
    const std::int64_t before = ledger(device).total();
    Tape tape(*policy);
    const Recording recording(tape);
    Variable h = of({16, 64, 64}, Purpose::data);
    for (int i = 0; i < 4; ++i) h = apply(Gelu{}, apply(Linear{}, std::move(h), weight, Variable()));
    const Variable loss = total(std::move(h));
    tape.backward(loss);
    return ledger(device).peak() - before;
  };
  CHECK(most(Device::meta) == most(Device::cpu));
}
