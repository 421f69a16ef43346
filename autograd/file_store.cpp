#include "autograd/file_store.h"

#include "core/error.h"
#include "core/parallel.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>

namespace lacuna {
namespace {

constexpr std::int64_t page = 4096;  // granularity of offsets and sizes in direct I/O

std::int64_t whole_pages(std::int64_t bytes) { return (bytes + page - 1) / page * page; }

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  parallel_for(
      bytes, 1 << 18,
      [&](std::int64_t begin, std::int64_t end) {
        std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
      },
      page);
}

/// Writes or reads all bytes. Returns the error number, or 0.
template <class Transfer>
int transfer_all(const Transfer& transfer, std::byte* data, std::int64_t bytes, std::int64_t offset) {
  while (bytes > 0) {
    const ssize_t done = transfer(data, static_cast<std::size_t>(bytes), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return done < 0 ? errno : EIO;
    data += done;
    bytes -= done;
    offset += done;
  }
  return 0;
}

std::string text_of(int error) { return std::generic_category().message(error); }

}  // namespace

FileStore::FileStore(FileStoreOptions options) : options_(std::move(options)) {
  constexpr std::int64_t largest_chunk = std::int64_t{4} << 20, least_slots = 8;
  chunk_ = std::clamp(options_.buffer / least_slots / page * page, page, largest_chunk);
  const std::int64_t slots = std::max(options_.buffer / chunk_, least_slots);
  if (options_.device != Device::meta) open_file();
  const AllocationScope scope({Purpose::workspace, Label("offload"), {}});
  ring_ = Tensor::empty({slots * chunk_ + page}, DType::u8, options_.device, Purpose::workspace);
  if (options_.device == Device::meta) return;
  const auto address = reinterpret_cast<std::uintptr_t>(ring_.raw());
  std::byte* const first =
      ring_.raw() + (whole_pages(static_cast<std::int64_t>(address)) - static_cast<std::int64_t>(address));
  slots_.resize(static_cast<std::size_t>(slots));
  for (std::int64_t i = 0; i < slots; ++i) slots_[static_cast<std::size_t>(i)].data = first + i * chunk_;
  writer_ = std::thread([this] { write_loop(); });
  reader_ = std::thread([this] { read_loop(); });
}

FileStore::~FileStore() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  for (std::thread* const thread : {&writer_, &reader_})
    if (thread->joinable()) thread->join();
  if (file_ >= 0) ::close(file_);
}

void FileStore::open_file() {
  const std::string folder = options_.folder.string();
  for (const int direct : {O_DIRECT, 0}) {  // direct if supported: the page cache would duplicate each byte
    file_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | direct, 0600);
    if (file_ >= 0) return;
  }
  // A file system without O_TMPFILE gets a named file, which is unlinked at once.
  std::string name = (options_.folder / ".lacuna-offload-XXXXXX").string();
  file_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (file_ < 0) reject("memory.offload: cannot create a file in {}: {}", folder, text_of(errno));
  ::unlink(name.c_str());
}

/// Reserves the first `end` bytes of the file; false if the disk has no room for them. File systems with fallocate
/// allocate them, so that writing cannot run out of space. On others they are only free at the moment, and another
/// program may take them.
bool FileStore::reserve(std::int64_t end) {
  if (end <= reserved_) return true;
  constexpr std::int64_t at_once = std::int64_t{64} << 20;
  const std::int64_t left_free = options_.budget == 0 ? std::int64_t{1} << 30 : 0;  // for checkpoints
  struct statvfs disk {};
  const std::int64_t free =
      ::fstatvfs(file_, &disk) == 0 ? static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize) : end;
  for (const std::int64_t aim : {std::max(end, reserved_ + at_once), end}) {
    const bool within_budget = options_.budget == 0 || aim <= options_.budget;
    if (!within_budget || aim - reserved_ > free - left_free) continue;
    const bool given = ::fallocate(file_, 0, reserved_, aim - reserved_) == 0;
    if (given || errno == EOPNOTSUPP || errno == ENOSYS) {
      reserved_ = aim;
      return true;
    }
  }
  return false;
}

void FileStore::refuse_once(const std::string& why) {
  if (!std::exchange(is_full_, true) && options_.warn)
    options_.warn("memory.offload: " + why + "; further saved tensors stay in memory");
}

void FileStore::expect_working() const {
  expect(failure_.empty(), "memory.offload: {}: {}; without memory.offload the run goes on from its last checkpoint",
         options_.folder.string(), failure_);
}

void FileStore::wait(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock);
  expect_working();
}

FileStore::Slot* FileStore::free_slot() {
  const auto slot = std::ranges::find(slots_, Slot::State::free, &Slot::state);
  return slot == slots_.end() ? nullptr : &*slot;
}

/// The clean slot of the tensor that backward needs last, if it was put before `id`.
FileStore::Slot* FileStore::clean_slot_before(Id id) {
  for (const auto& [chunk, slot] : at_) {
    if (chunk.first >= id) break;
    if (slot->state == Slot::State::clean && slot->pins == 0) return slot;
  }
  return nullptr;
}

void FileStore::take(Slot& slot, const Chunk& chunk) {
  if (slot.chunk.first != 0) at_.erase(slot.chunk);
  const Extent& extent = live_.at(chunk.first);
  const std::int64_t begin = chunk.second * chunk_;
  slot.chunk = chunk;
  slot.offset = extent.offset + begin;
  slot.bytes = std::min(chunk_, extent.bytes - begin);
  at_[chunk] = &slot;
}

/// Ends a transfer. Frees the slot if its tensor is no longer needed.
void FileStore::settle(Slot& slot, Slot::State state) {
  slot.state = slot.chunk.first == 0 ? Slot::State::free : state;
  changed_.notify_all();
}

std::optional<FileStore::Id> FileStore::put(const Tensor& tensor) {
  std::unique_lock lock(mutex_);
  expect_working();
  const std::int64_t bytes = tensor.bytes();
  const std::int64_t offset = extents_.empty() ? 0 : extents_.rbegin()->first + extents_.rbegin()->second,
                     end = offset + whole_pages(bytes);
  if (options_.budget > 0 && end > options_.budget) {
    refuse_once("the budget is used up");
    return {};
  }
  const bool is_counted_alone = options_.device == Device::meta;
  if (!is_counted_alone && !reserve(end)) {
    refuse_once("the disk of " + options_.folder.string() + " has no room left");
    return {};
  }
  const Id id = next_++;
  live_[id] = {.offset = offset, .bytes = bytes, .shape = tensor.shape(), .dtype = tensor.dtype()};
  extents_[offset] = end - offset;
  if (is_counted_alone) return id;
  const std::byte* const from = tensor.data<const std::byte>();
  try {
    for (std::int64_t number = 0; number * chunk_ < bytes; ++number) {
      Slot* slot = nullptr;
      while ((slot = free_slot()) == nullptr && (slot = clean_slot_before(next_)) == nullptr) wait(lock);
      take(*slot, {id, number});
      slot->state = Slot::State::filling;
      lock.unlock();
      copy_bytes(slot->data, from + number * chunk_, slot->bytes);
      std::memset(slot->data + slot->bytes, 0, static_cast<std::size_t>(whole_pages(slot->bytes) - slot->bytes));
      lock.lock();
      slot->state = Slot::State::dirty;
      to_write_.push_back(slot);
      changed_.notify_all();
    }
  } catch (...) {
    lock.unlock();
    drop(id);
    throw;
  }
  return id;
}

Tensor FileStore::get(Id id, bool again) {
  std::unique_lock lock(mutex_);
  expect_working();
  Extent& extent = live_.at(id);
  Tensor into = Tensor::empty(extent.shape, extent.dtype, options_.device, Purpose::saved);
  if (options_.device == Device::meta) return into;
  cursor_ = id;
  extent.next = 0;
  changed_.notify_all();
  std::byte* const to = into.raw();
  while (extent.next * chunk_ < extent.bytes) {
    const Chunk chunk{id, extent.next};
    Slot* slot = nullptr;
    while (slot == nullptr) {
      const auto found = at_.find(chunk);
      if (found != at_.end() && found->second->state != Slot::State::reading)
        slot = found->second;
      else
        wait(lock);
    }
    expect_working();  // its read may have failed while the previous chunk was copied
    ++slot->pins;
    lock.unlock();
    copy_bytes(to + chunk.second * chunk_, slot->data, slot->bytes);
    lock.lock();
    --slot->pins;
    ++extent.next;
    if (!again && slot->state == Slot::State::clean) {
      at_.erase(chunk);
      slot->chunk = {};
      slot->state = Slot::State::free;
    }
    changed_.notify_all();  // the next chunk is needed, and this one's slot may be reused
  }
  return into;
}

void FileStore::drop(Id id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  extents_.erase(found->second.offset);
  live_.erase(found);
  for (auto at = at_.lower_bound({id, 0}); at != at_.end() && at->first.first == id; at = at_.erase(at)) {
    Slot& slot = *at->second;
    slot.chunk = {};
    if (slot.state == Slot::State::clean) slot.state = Slot::State::free;
  }
  changed_.notify_all();
}

void FileStore::write_loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stops_ || !to_write_.empty(); });
    if (stops_) return;
    Slot& slot = *to_write_.front();
    to_write_.pop_front();
    if (slot.chunk.first != 0) {
      slot.state = Slot::State::writing;
      lock.unlock();
      const int error = transfer_all([this](auto... what) { return ::pwrite(file_, what...); }, slot.data,
                                     whole_pages(slot.bytes), slot.offset);
      lock.lock();
      if (error != 0 && failure_.empty()) failure_ = "cannot write: " + text_of(error);
    }
    settle(slot, Slot::State::clean);
  }
}

/// The next chunk to read: of the tensor that backward has reached, then of those put before it.
std::optional<FileStore::Chunk> FileStore::wanted() const {
  if (cursor_ == 0) return {};
  for (auto at = live_.upper_bound(cursor_); at != live_.begin();) {
    --at;
    const auto& [id, extent] = *at;
    for (std::int64_t number = extent.next; number * chunk_ < extent.bytes; ++number)
      if (!at_.contains({id, number})) return Chunk{id, number};
  }
  return {};
}

void FileStore::read_loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    Slot* slot = nullptr;
    std::optional<Chunk> chunk;
    changed_.wait(lock, [&] {
      if (stops_) return true;
      chunk = wanted();
      if (!chunk) return false;
      slot = free_slot();
      if (slot == nullptr) slot = clean_slot_before(chunk->first);
      // Backward waits for this chunk, so it may evict prefetched ones.
      if (slot == nullptr && *chunk == Chunk{cursor_, live_.at(chunk->first).next})
        slot = clean_slot_before(std::numeric_limits<Id>::max());
      return slot != nullptr;
    });
    if (stops_) return;
    take(*slot, *chunk);
    slot->state = Slot::State::reading;
    lock.unlock();
    const int error = transfer_all([this](auto... what) { return ::pread(file_, what...); }, slot->data,
                                   whole_pages(slot->bytes), slot->offset);
    lock.lock();
    if (error != 0 && failure_.empty()) failure_ = "cannot read saved tensors back: " + text_of(error);
    settle(*slot, Slot::State::clean);
  }
}

std::int64_t FileStore::bytes() const {
  const std::lock_guard lock(mutex_);
  std::int64_t sum = 0;
  for (const auto& [id, extent] : live_) sum += extent.bytes;
  return sum;
}

}  // namespace lacuna
