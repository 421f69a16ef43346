// Offloading of CPU tensors to a file on disk.
//
// A ring of buffers lies between tensors and file. `put` copies a tensor into buffers, which a writer thread flushes;
// the tensor's memory is free at once. Backward reads tensors in roughly reverse order. From the first `get` on, a
// reader thread prefetches: it fills free buffers with the tensors that backward needs next.
#pragma once

#include "autograd/offload_store.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lacuna {

struct FileStoreOptions {
  std::filesystem::path folder;                   // folder for the file
  std::int64_t budget = 0;                        // maximum bytes of the file; 0: all but the last GiB of the disk
  std::int64_t buffer = std::int64_t{256} << 20;  // bytes of the ring
  Device device = Device::cpu;  // device of the tensors; on `meta` there is no file, only a count of bytes
  std::function<void(const std::string&)> warn{};  // called once when a tensor stays in memory; may be null
};

class FileStore final : public OffloadStore {
 public:
  /// Creates an unnamed file in the folder, so that nothing is left of it however the process ends. Throws an input
  /// error if the file cannot be created.
  explicit FileStore(FileStoreOptions options);
  ~FileStore() override;

  /// Returns nothing if the budget or the disk is full. Throws if the disk failed to write or read.
  std::optional<Id> put(const Tensor& tensor) override;
  /// Waits until the tensor has been read.
  Tensor get(Id id, bool again) override;
  void drop(Id id) noexcept override;
  std::int64_t bytes() const override;

 private:
  struct Extent {
    std::int64_t offset = 0, bytes = 0;
    std::int64_t next = 0;  // the first chunk that `get` has not read yet
    Shape shape{};
    DType dtype = DType::u8;
  };
  using Chunk = std::pair<Id, std::int64_t>;  // a tensor and the chunk's number in it
  struct Slot {
    enum class State : std::uint8_t { free, filling, dirty, writing, reading, clean };
    std::byte* data = nullptr;  // [chunk_]
    State state = State::free;
    Chunk chunk{};                       // id 0: no longer needed
    std::int64_t offset = 0, bytes = 0;  // in the file
    int pins = 0;                        // copies out of it in progress
  };

  void open_file();
  bool reserve(std::int64_t end);
  void refuse_once(const std::string& why);
  void expect_working() const;
  void wait(std::unique_lock<std::mutex>& lock);
  Slot* free_slot();
  Slot* clean_slot_before(Id id);
  std::optional<Chunk> wanted() const;
  void take(Slot& slot, const Chunk& chunk);
  void settle(Slot& slot, Slot::State state);
  void write_loop();
  void read_loop();

  FileStoreOptions options_;
  int file_ = -1;
  std::int64_t chunk_ = 0;     // bytes of a slot
  std::int64_t reserved_ = 0;  // bytes of the file that are allocated on the disk, or were free when checked
  Tensor ring_;                // u8 [slots * chunk_ + alignment]
  std::vector<Slot> slots_;

  mutable std::mutex mutex_;  // guards the slots and all members below
  std::condition_variable changed_;
  std::map<Id, Extent> live_;
  std::map<std::int64_t, std::int64_t> extents_;  // bytes by offset
  std::map<Chunk, Slot*> at_;
  std::deque<Slot*> to_write_;
  Id next_ = 1, cursor_ = 0;  // cursor_: the tensor that backward has reached; 0: none
  std::string failure_;
  bool is_full_ = false, stops_ = false;
  std::thread writer_, reader_;
};

}  // namespace lacuna
