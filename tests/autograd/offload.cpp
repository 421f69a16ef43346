// Saved tensors on a file: the store itself, and the gradients of tapes that use it.
#include "autograd/file_store.h"

#include "tests/autograd/offload.h"
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
  FileStore store({.folder = folder.path(), .buffer = small_ring});
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
      CHECK(store.get(ids[i], again).to_vector() == tensors[i].to_vector());
    }
    store.drop(ids[i]);
    // Its room is taken again while other tensors are read.
    const OffloadStore::Id other = store.put(tensors[6]).value();
    store.drop(other);
  }
  CHECK(store.bytes() == 0);
  CHECK_THROWS_AS(FileStore({.folder = folder / "nowhere"}), Error);
}

TEST_CASE("offload: a read that fails while the chunk before is copied is an error") {
  const test::TemporaryFolder folder;
  constexpr std::int64_t chunk = std::int64_t{2} << 20, ring = 8 * chunk;
  FileStore store({.folder = folder.path(), .buffer = ring});
  const Tensor first = Tensor::full({ring + 4 * chunk}, 1, DType::u8, Device::cpu),
               second = Tensor::full({ring}, 2, DType::u8, Device::cpu);
  const OffloadStore::Id id = store.put(first).value(), later = store.put(second).value();
  store.get(later, false);
  store.drop(later);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the ring is filled with the start of the first
  break_reads(folder.path());
  CHECK_THROWS_AS(store.get(id, false), Error);
}

TEST_CASE("offload: what goes beyond the budget is refused, and told once") {
  const test::TemporaryFolder folder;
  int told = 0;
  for (const Device device : {Device::cpu, Device::meta}) {
    FileStore store({.folder = folder.path(),
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
      const auto store = std::make_shared<FileStore>(FileStoreOptions{.folder = folder.path(), .buffer = ring});
      const auto plain = gradients_of_layers(name, nullptr);
      CHECK(gradients_of_layers(name, store) == plain);
      CHECK(gradients_of_layers(name, store) == plain);
      CHECK(gradients_of_layers(name, store, 2)[1] == gradients_of_layers(name, nullptr, 2)[1]);
    }
}

TEST_CASE("offload: on meta as many bytes are in memory as on the CPU") {
  const test::TemporaryFolder folder;
  const auto most = [&](Device device) {
    return peak_of_layers(device, std::make_shared<FileStore>(FileStoreOptions{
                                      .folder = folder.path(), .buffer = small_ring, .device = device}));
  };
  CHECK(most(Device::meta) == most(Device::cpu));
}
