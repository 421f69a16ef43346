// The communicator over MPI. It is a separate library, loaded if a launcher started the process (core/launch.h).
#include "core/communicator.h"

#include "core/error.h"
#include "core/launch.h"
#include "mpi/watch.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace lacuna {
namespace {

using namespace std::chrono_literals;

void check(int result) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  fail("MPI: {}", text.data());
}

constexpr std::size_t most_bytes = std::size_t{1} << 30;  // per call: counts are of type int
constexpr std::size_t most_broadcast = std::size_t{4}
                                       << 20;  // per call, so that other messages do not wait for the whole

/// Sections of a buffer of `bytes`, in MPI's format of counts and displacements.
struct Sections {
  Sections(std::span<const Section> sections, std::size_t bytes) {
    expect(bytes <= 2 * most_bytes - 1, "cannot exchange {} bytes at once", bytes);
    for (const Section& section : sections) {
      counts.push_back(static_cast<int>(section.bytes));
      begins.push_back(static_cast<int>(section.begin));
    }
  }
  std::vector<int> counts, begins;
};

/// The lifetime of MPI, from MPI_Init until the last communicator is destroyed.
class World {
 public:
  explicit World(double timeout) : timeout_(timeout) {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided));
    if (provided < MPI_THREAD_MULTIPLE) {
      MPI_Finalize();
      reject(
          "this MPI was built without support for threads (MPI_THREAD_MULTIPLE), which the exchange of gradients "
          "during backward needs: use another build of it");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    watch_ = std::make_unique<Watch>(timeout);
  }
  ~World() {
    watch_.reset();
    MPI_Finalize();
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  Watch& watch() { return *watch_; }
  double timeout() const { return timeout_; }
  /// The lowest channel that no communicator has: all ranks make and destroy them in the same order.
  int take_channel() {
    const auto free = std::ranges::find(taken_, false);
    if (free != taken_.end()) *free = true;
    return static_cast<int>(free - taken_.begin());
  }
  void give_channel(int channel) {
    if (channel < Watch::channels) taken_[static_cast<std::size_t>(channel)] = false;
  }

 private:
  double timeout_;
  std::array<bool, Watch::channels> taken_{};
  std::unique_ptr<Watch> watch_;
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(std::shared_ptr<World> world, MPI_Comm of)
      : world_(std::move(world)), channel_(world_->take_channel()) {
    check(MPI_Comm_dup(of, &ranks_));
    MPI_Comm_set_errhandler(ranks_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(ranks_, &rank_);
    MPI_Comm_size(ranks_, &size_);
  }
  ~MpiCommunicator() override {
    world_->give_channel(channel_);
    MPI_Comm_free(&ranks_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void broadcast(std::span<std::byte> bytes, int root) override {
    for (std::size_t begin = 0; begin < bytes.size(); begin += most_broadcast) {
      const std::span<std::byte> part = bytes.subspan(begin, std::min(most_broadcast, bytes.size() - begin));
      wait(
          [&](MPI_Request* request) {
            return MPI_Ibcast(part.data(), static_cast<int>(part.size()), MPI_BYTE, root, ranks_, request);
          },
          false);
    }
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    expect(all.size() == mine.size() * static_cast<std::size_t>(size_) && mine.size() <= most_bytes,
           "cannot gather {} bytes of each of {} ranks in {}", mine.size(), size_, all.size());
    const int count = static_cast<int>(mine.size());
    wait([&](MPI_Request* request) {
      return MPI_Iallgather(mine.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE, ranks_, request);
    });
  }
  using Communicator::all_to_all;
  void all_to_all(std::span<const std::byte> send, std::span<const Section> to, std::span<std::byte> receive,
                  std::span<const Section> from) override {
    const Sections sent(to, send.size()), received(from, receive.size());
    wait([&](MPI_Request* request) {
      return MPI_Ialltoallv(send.data(), sent.counts.data(), sent.begins.data(), MPI_BYTE, receive.data(),
                            received.counts.data(), received.begins.data(), MPI_BYTE, ranks_, request);
    });
  }
  void barrier() override {
    wait([&](MPI_Request* request) { return MPI_Ibarrier(ranks_, request); });
  }
  std::unique_ptr<Communicator> duplicate() override { return std::make_unique<MpiCommunicator>(world_, ranks_); }
  void describe(std::string_view operation) override { world_->watch().describe(channel_, operation); }
  double timeout() const override { return world_->timeout(); }
  void abort(int code) override { Watch::end_all(code); }

 private:
  /// Starts an operation and waits for it. A blocking call would spin on a core that compute threads need.
  template <class Start>
  void wait(const Start& start, bool hears_all = true) {
    const Watch::Operation within(world_->watch(), channel_, hears_all);
    MPI_Request request = MPI_REQUEST_NULL;
    check(start(&request));
    constexpr int eager_tests = 200;
    for (int tests = 0;; ++tests) {
      int done = 0;
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
      if (done != 0) return;
      if (tests < eager_tests)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(50us);
    }
  }

  std::shared_ptr<World> world_;
  int channel_;
  MPI_Comm ranks_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
};

}  // namespace
}  // namespace lacuna

extern "C" {

lacuna::Communicator* lacuna_mpi_open(double timeout) {
  return new lacuna::MpiCommunicator(std::make_shared<lacuna::World>(timeout), MPI_COMM_WORLD);
}

const char* lacuna_mpi_version() {
  static std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  // Only the first line is the version; MPICH appends its build options.
  *std::find_if(text.begin(), text.end() - 1, [](char c) { return c == '\n' || c == ',' || c == '\0'; }) = '\0';
  return text.data();
}
}
