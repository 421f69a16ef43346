// Saved tensors on a file of a disk: for tensors of the CPU.
//
// A ring of buffers lies between tensors and file. `put` copies a tensor into buffers, which a thread of the store
// writes out; the tensor's memory is free at once. Backward reads tensors in about the reverse order. From the first
// `get` on, another thread reads ahead: it fills free buffers with the tensors that backward will ask for next.
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
  std::filesystem::path folder;                    // of the file
  std::int64_t budget = 0;                         // bytes of the file at most; 0: all but the last GiB of the disk
  std::int64_t buffer = std::int64_t{256} << 20;   // bytes of the ring
  Device device = Device::cpu;                     // of the tensors; on `meta` there is no file, and bytes are counted
  std::function<void(const std::string&)> warn{};  // told once that a tensor stays in memory; may be null
};

class FileStore final : public OffloadStore {
 public:
  /// Creates the file, which has no name in the folder: nothing is left of it, however the process ends. Rejects a
  /// folder in which it cannot be created.
  explicit FileStore(FileStoreOptions options);
  ~FileStore() override;

  /// Nothing where the budget or the disk is full. Throws where the disk failed to write or read.
  std::optional<Id> put(const Tensor& tensor) override;
  /// Waits until the bytes are read.
  Tensor get(Id id, bool again) override;
  void drop(Id id) noexcept override;
  std::int64_t bytes() const override;

 private:
  struct Extent {
    std::int64_t offset = 0, bytes = 0;
    std::int64_t next = 0;  // the first chunk that a `get` has not had
    Shape shape{};
    DType dtype = DType::u8;
  };
  using Chunk = std::pair<Id, std::int64_t>;  // of a tensor, with its number
  struct Slot {
    enum class State : std::uint8_t { free, filling, dirty, writing, reading, clean };
    std::byte* data = nullptr;  // [chunk_]
    State state = State::free;
    Chunk chunk{};                       // id 0: nobody wants it any more
    std::int64_t offset = 0, bytes = 0;  // on the file
    int pins = 0;                        // copies that are being made of it
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
  std::int64_t reserved_ = 0;  // bytes of the file that the disk has given, or had free
  Tensor ring_;                // u8 [slots * chunk_ + alignment]
  std::vector<Slot> slots_;

  mutable std::mutex mutex_;  // of all below and the slots
  std::condition_variable changed_;
  std::map<Id, Extent> live_;
  std::map<std::int64_t, std::int64_t> extents_;  // bytes by offset
  std::map<Chunk, Slot*> at_;
  std::deque<Slot*> to_write_;
  Id next_ = 1, cursor_ = 0;  // cursor_: the tensor that backward has come to; 0: none
  std::string failure_;
  bool is_full_ = false, stops_ = false;
  std::thread writer_, reader_;
};

}  // namespace lacuna
