// Plans of products that are measured once and kept in a file.
#include "core/cache_folder.h"
#include "core/communicator.h"
#include "core/random.h"
#include "ops/cuda/libraries/plan_file.h"
#include "ops/products/product_cuda.h"
#include "tests/libraries/backend_of_test.h"
#include "tests/libraries/plans/library.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace lacuna {
namespace {

const RegisterBackend registered{*new test::BackendOfTest};

/// cuBLASLt's state, with the test's library in the place of the real one.
test::CublasltState& cublaslt() {
  static test::CublasltState* const state = [] {
    void* const library = dlopen(LACUNA_TEST_CUBLASLT, RTLD_NOW | RTLD_GLOBAL);  // the first of that name is opened
    REQUIRE(library != nullptr);
    std::filesystem::remove_all(cache_folder() / "plans");
    return reinterpret_cast<test::CublasltState* (*)()>(dlsym(library, "cublaslt_state_of_test"))();
  }();
  *state = {};
  return *state;
}

std::array<float, 64> memory{};

/// [rows, 4] by [4, 2].
cuda::Product product_of(std::int64_t rows) {
  return {.a = {memory.data(), DType::f32, rows, 4, 4, false, 0},
          .b = {memory.data(), DType::f32, 4, 2, 2, false, 0},
          .c = {memory.data(), DType::f32, rows, 2, 2, false, 0}};
}

/// The algorithms that run for a product in a step. A device has its own plans: another one is another run.
std::vector<std::size_t> runs(int device, std::uint32_t step, std::int64_t rows = 3,
                              const std::uint32_t* clock = nullptr) {
  test::CublasltState& state = cublaslt();
  const RandomStateScope scope({.seed = 1, .step = step, .clock = clock});
  cuda::multiply(nullptr, device, product_of(rows), nullptr);
  return state.runs;
}

using Runs = std::vector<std::size_t>;
constexpr std::size_t first = 0, fastest = 1;

std::filesystem::path only_file() {
  const std::filesystem::directory_iterator files(cache_folder() / "plans");
  return files->path();
}

}  // namespace

TEST_CASE("plans: what two steps in a row multiply is measured, and later runs take the file's plan at once") {
  CHECK(runs(0, 5) == Runs{first});
  CHECK(runs(0, 5) == Runs{first});  // the same step
  CHECK(runs(0, 7) == Runs{first});  // it does not recur
  const Runs measured = runs(0, 8);
  CHECK(std::ranges::count(measured, 2U) > 0);
  CHECK(measured.back() == fastest);
  CHECK(runs(0, 9) == Runs{fastest});
  CHECK(runs(1, 0) == Runs{fastest});
  CHECK(runs(1, 1) == Runs{fastest});
}

TEST_CASE("plans: an evaluation between two steps does not keep a product from being measured") {
  CHECK(runs(0, 50, 9) == Runs{first});
  cublaslt();
  cuda::multiply(nullptr, 0, product_of(9), nullptr);
  CHECK(runs(0, 51, 9).back() == fastest);
}

TEST_CASE("plans: a product that adds is not measured, and takes the plan of the one that does not") {
  cuda::Product adds = product_of(11);
  adds.add = true;
  for (std::uint32_t step = 60; step < 63; ++step) {
    test::CublasltState& state = cublaslt();
    const RandomStateScope scope({.seed = 1, .step = step});
    cuda::multiply(nullptr, 0, adds, nullptr);
    CHECK(state.runs == Runs{first});
  }
}

TEST_CASE("plans: a product that adds another matrix leaves it, and is measured") {
  std::array<float, 64> addend{};
  cuda::Product sum = product_of(12);
  sum.addend = addend.data();
  test::CublasltState& state = cublaslt();
  for (std::uint32_t step = 70; step < 72; ++step) {
    const RandomStateScope scope({.seed = 1, .step = step});
    cuda::multiply(nullptr, 0, sum, nullptr);
    CHECK(state.added == addend.data());
    CHECK(state.beta == 1);
    CHECK(state.result == memory.data());
  }
  CHECK(state.runs.back() == fastest);
}

TEST_CASE("plans: a captured step measures nothing") {
  const std::uint32_t clock = 0;
  CHECK(runs(1, 0, 5) == Runs{first});
  CHECK(runs(1, 1, 5, &clock) == Runs{first});
}

TEST_CASE("plans: a damaged file is said, and its plans are measured again") {
  (void)runs(0, 20);
  (void)runs(0, 21);  // the file is there
  const std::filesystem::path file = only_file();
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 3);
  (void)new_library_notes();
  CHECK(runs(2, 0) == Runs{first});
  const std::vector<std::string> notes = new_library_notes();
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].find("damaged") != std::string::npos);
  CHECK(runs(2, 1).back() == fastest);
  CHECK(runs(3, 0) == Runs{fastest});
}

TEST_CASE("plans: a library without sums of rows in a product says so") {
  test::CublasltState& state = cublaslt();
  std::array<float, 8> sums{};
  cuda::Product product = product_of(7);
  product.row_sums = sums.data();
  CHECK(cuda::has_plan(3, product));
  state.sums_rows = false;
  CHECK(!cuda::has_plan(4, product));
  product.row_sums = nullptr;
  CHECK(cuda::has_plan(4, product));
}

TEST_CASE("plans: ranks take what rank 0's file has, and none measures") {
  (void)runs(0, 30);
  (void)runs(0, 31);
  std::filesystem::create_directories(cache_folder() / "plans" / "a folder");  // is no file of plans
  cuda::agree_on_plans(single_process());
  CHECK(runs(5, 0) == Runs{fastest});
  CHECK(runs(5, 0, 6) == Runs{first});
  CHECK(runs(5, 1, 6) == Runs{first});
}

}  // namespace lacuna

extern "C" {

cudaError_t __wrap_cudaEventCreate(cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(new float(0));
  return cudaSuccess;
}
cudaError_t __wrap_cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<float*>(event);
  return cudaSuccess;
}
cudaError_t __wrap_cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  const auto state =
      reinterpret_cast<lacuna::test::CublasltState* (*)()>(dlsym(RTLD_DEFAULT, "cublaslt_state_of_test"));
  *reinterpret_cast<float*>(event) = state()->clock;
  return cudaSuccess;
}
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t __wrap_cudaEventElapsedTime(float* took, cudaEvent_t begin, cudaEvent_t end) {
  *took = *reinterpret_cast<float*>(end) - *reinterpret_cast<float*>(begin);
  return cudaSuccess;
}

}  // extern "C"
