#include "core/stand_in/fibers.h"

#include "core/stand_in/queue.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(LACUNA_THREAD_SANITIZER)  // this file is compiled without the sanitizer and annotates the order of threads
                                      // itself
#include <sanitizer/tsan_interface.h>
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace lacuna::cuda::stand_in {
namespace {

constexpr std::size_t stack_bytes = 128 * 1024, guard_bytes = 4096;
constexpr int warp_size = 32;
constexpr std::uint32_t whole_warp = 0xffffffffU;

// A context switch: saves callee-saved registers and exchanges the stack pointer.
#if defined(__x86_64__)
struct Context {
  void* stack_pointer = nullptr;
};
extern "C" void lacuna_switch_stack(void** from, void* to);
__asm__(
    ".text\n.globl lacuna_switch_stack\n.hidden lacuna_switch_stack\n.type lacuna_switch_stack,@function\n"
    "lacuna_switch_stack:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n"
    ".size lacuna_switch_stack, .-lacuna_switch_stack\n");
void prepare(Context& context, std::byte* stack, void (*entry)()) {
  void** top = reinterpret_cast<void**>(stack + stack_bytes);
  *--top = nullptr;                         // keeps the stack aligned as after a call
  *--top = reinterpret_cast<void*>(entry);  // the address to which the first switch returns
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  context.stack_pointer = top;
}
void swap(Context& from, Context& to) { lacuna_switch_stack(&from.stack_pointer, to.stack_pointer); }
#else
struct Context {
  ucontext_t context;
};
void prepare(Context& context, std::byte* stack, void (*entry)()) {
  getcontext(&context.context);
  context.context.uc_stack = {.ss_sp = stack, .ss_flags = 0, .ss_size = stack_bytes};
  context.context.uc_link = nullptr;
  makecontext(&context.context, entry, 0);
}
void swap(Context& from, Context& to) { swapcontext(&from.context, &to.context); }
#endif

// Annotations for the thread sanitizer. Only barriers and warp shuffles order threads.
#if defined(LACUNA_THREAD_SANITIZER)
void release(void* point) { __tsan_release(point); }
void acquire(void* point) { __tsan_acquire(point); }
#else
void release(void*) {}
void acquire(void*) {}
#endif

std::uint64_t& schedule() {
  static std::uint64_t seed = 0;
  return seed;
}

struct Warp {
  std::uint64_t words[2][warp_size];
  std::uint32_t present = 0;  // lanes that wait for the current shuffle
  std::uint64_t exchanges = 0;
};

enum class State : std::uint8_t { ready, at_barrier, at_exchange, done };

struct Fiber {
  Context context;
  std::byte* stack = nullptr;
  int thread = 0;
  State state = State::done;
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
#endif
#if defined(LACUNA_THREAD_SANITIZER)
  void* identity = nullptr;
#endif
};

void enter();

/// The fibers of one host thread, kept for its next launch.
class Fibers {
 public:
  ~Fibers() {
    for (const auto& fiber : fibers_) {
      munmap(fiber->stack - guard_bytes, stack_bytes + guard_bytes);
#if defined(LACUNA_THREAD_SANITIZER)
      __tsan_destroy_fiber(fiber->identity);
#endif
    }
  }

  void run(const Grid& grid, const Body& body) {
    if (current_ != nullptr) throw std::logic_error("a kernel was started by a thread of a kernel");
    reserve(grid.threads);
    body_ = &body;
    threads_ = grid.threads;
    warps_.resize(static_cast<std::size_t>(threads_ / warp_size));
    const std::size_t rounded = (grid.shared_bytes + 31) / 32 * 32;
    std::mt19937_64 draw(schedule());
    std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> shared;
    const Joined joined(*this);
    for (const std::int64_t block : order(grid.blocks, draw)) {
      // Shared memory is a separate heap block of nearly its exact size, so that the address sanitizer detects
      // overruns. It is filled with NaN, so that a kernel that relies on zeros fails its test.
      if (!keeps_shared) shared.clear();
      if (rounded > 0) {
        shared.emplace_back(static_cast<std::byte*>(std::aligned_alloc(32, rounded)), &std::free);
        std::memset(shared.back().get(), 0xff, rounded);
        shared_ = shared.back().get();
      }
      block_ = block;
      // Thread 0 is a different fiber in each block, so that the thread sanitizer sees accesses of two blocks to one
      // address as a race of two fibers.
      first_ = static_cast<int>(block % threads_);
      for (int i = 0; i < threads_; ++i) fiber(i).thread = i;
      release_all();
      order_ = order(threads_, draw);
      run_block();
    }
  }

  void sync() { wait(State::at_barrier); }
  const std::uint64_t* gather(std::uint64_t word, int& lane) {
    const int first = current_->thread / warp_size * warp_size;
    lane = current_->thread - first;
    Warp& warp = warps_[static_cast<std::size_t>(first / warp_size)];
    // Two sets of words alternate: a fast lane may write the next set while others read this one, but cannot be two
    // sets ahead.
    std::uint64_t* const words = warp.words[warp.exchanges % 2];
    words[lane] = word;
    warp.present |= 1U << lane;
    release(&warp);
    if (warp.present == whole_warp) {
      warp.present = 0;
      ++warp.exchanges;
      for (int i = first; i < first + warp_size; ++i)
        if (fiber(i).state == State::at_exchange) fiber(i).state = State::ready;
    } else {
      wait(State::at_exchange);
    }
    acquire(&warp);
    return words;
  }

  /// The main loop of a fiber, with one block per iteration.
  void live() {
    for (;;) {
      Fiber& own = *current_;
      acquire(&own);
      try {
        (*body_)(shared_, block_, own.thread);
      } catch (...) {
        if (!thrown_) thrown_ = std::current_exception();
      }
      release(&own);
      wait(State::done);
    }
  }

#if defined(__SANITIZE_ADDRESS__)
  void arrived(void* fake_stack) { __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr); }
#endif

 private:
#if defined(LACUNA_THREAD_SANITIZER)
  static constexpr bool keeps_shared = true;  // reusing freed memory would order the blocks that use it
#else
  static constexpr bool keeps_shared = false;
#endif

  /// Makes earlier work of the host thread visible to the block's threads.
  void release_all() {
#if defined(LACUNA_THREAD_SANITIZER)
    main_.identity = __tsan_get_current_fiber();
#endif
    for (int i = 0; i < threads_; ++i) release(&fiber(i));
  }
  /// Makes the work of a launch's threads visible to the host thread after it.
  struct Joined {
    explicit Joined(Fibers& of) : fibers(of) {}
    ~Joined() {
      for (int i = 0; i < fibers.threads_; ++i) acquire(&fibers.fiber(i));
    }
    Joined(const Joined&) = delete;
    Joined& operator=(const Joined&) = delete;
    Fibers& fibers;
  };

  Fiber& fiber(int thread) { return *fibers_[static_cast<std::size_t>((thread + first_) % threads_)]; }

  template <class N>
  static std::vector<N> order(N count, std::mt19937_64& draw) {
    std::vector<N> all(static_cast<std::size_t>(count));
    for (N i = 0; i < count; ++i) all[static_cast<std::size_t>(i)] = i;
    if (schedule() == 1) std::reverse(all.begin(), all.end());
    if (schedule() > 1) std::shuffle(all.begin(), all.end(), draw);
    return all;
  }
  void reserve(int threads) {
    while (static_cast<int>(fibers_.size()) < threads) {
      auto fiber = std::make_unique<Fiber>();
      auto* const memory = static_cast<std::byte*>(mmap(nullptr, stack_bytes + guard_bytes, PROT_READ | PROT_WRITE,
                                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
      if (memory == MAP_FAILED) throw std::bad_alloc();
      mprotect(memory, guard_bytes, PROT_NONE);
      fiber->stack = memory + guard_bytes;
#if defined(LACUNA_THREAD_SANITIZER)
      fiber->identity = __tsan_create_fiber(0);
#endif
      prepare(fiber->context, fiber->stack, &enter);
      fibers_.push_back(std::move(fiber));
    }
  }

  void run_block() {
    for (int i = 0; i < threads_; ++i) fiber(i).state = State::ready;
    for (Warp& warp : warps_) warp.present = 0;
    for (;;) {
      // Each fiber switches to the next ready one in the order; the last one returns here.
      place_ = 0;
      Fiber* const first = next_ready();
      const bool ran = first != nullptr;
      if (ran) {
        current_ = first;
        switch_between(main_, *first);
        current_ = nullptr;
      }
      if (thrown_) {
        abandon();
        std::rethrow_exception(std::exchange(thrown_, nullptr));
      }
      if (ran) continue;
      int waiting = 0, done = 0;
      for (int i = 0; i < threads_; ++i) {
        waiting += fiber(i).state == State::at_barrier;
        done += fiber(i).state == State::done;
      }
      if (done == threads_) return;
      if (waiting < threads_) {
        const std::string message = "block " + std::to_string(block_) + ": of " + std::to_string(threads_) +
                                    " threads " + std::to_string(done) + " have ended, " + std::to_string(waiting) +
                                    " wait at a barrier and " + std::to_string(threads_ - done - waiting) +
                                    " for other lanes of their warp";
        abandon();
        throw std::logic_error(message);
      }
      for (int i = 0; i < threads_; ++i) fiber(i).state = State::ready;
    }
  }
  /// Discards fibers in the middle of a kernel by resetting their stacks.
  void abandon() {
    for (int i = 0; i < threads_; ++i) {
      Fiber& one = fiber(i);
      prepare(one.context, one.stack, &enter);
#if defined(__SANITIZE_ADDRESS__)
      one.fake_stack = nullptr;
      __asan_unpoison_memory_region(one.stack, stack_bytes);
#endif
      one.state = State::done;
    }
  }

  Fiber* next_ready() {
    while (place_ < threads_) {
      Fiber& next = fiber(order_[static_cast<std::size_t>(place_++)]);
      if (next.state == State::ready) return &next;
    }
    return nullptr;
  }
  void wait(State state) {
    Fiber& own = *current_;
    own.state = state;
    if (state == State::at_barrier) release(&threads_);
    Fiber* const next = thrown_ ? nullptr : next_ready();
    if (next != nullptr) current_ = next;
    switch_between(own, next != nullptr ? *next : main_);
    if (state == State::at_barrier) acquire(&threads_);
  }
  void switch_between(Fiber& from, Fiber& to) {
#if defined(LACUNA_THREAD_SANITIZER)
    __tsan_switch_to_fiber(to.identity, 1);  // 1: does not synchronize
#endif
#if defined(__SANITIZE_ADDRESS__)
    const void* const bottom = &to == &main_ ? main_bottom() : to.stack;
    __sanitizer_start_switch_fiber(&from.fake_stack, bottom, &to == &main_ ? main_size_ : stack_bytes);
#endif
    swap(from.context, to.context);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
  }
#if defined(__SANITIZE_ADDRESS__)
  const void* main_bottom() {
    if (main_bottom_ == nullptr) {
      pthread_attr_t attributes;
      pthread_getattr_np(pthread_self(), &attributes);
      pthread_attr_getstack(&attributes, &main_bottom_, &main_size_);
      pthread_attr_destroy(&attributes);
    }
    return main_bottom_;
  }
  void* main_bottom_ = nullptr;
  std::size_t main_size_ = 0;
#endif

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Warp> warps_;
  std::vector<int> order_;  // the order of threads
  int place_ = 0;           // position in order_
  Fiber main_{};
  Fiber* current_ = nullptr;
  const Body* body_ = nullptr;
  std::exception_ptr thrown_;
  int threads_ = 0, first_ = 0;  // threads per block; the fiber of thread 0
  std::byte* shared_ = nullptr;
  std::int64_t block_ = 0;
};

// The fibers that run on this host thread. Kernel threads access them at each shuffle and barrier.
[[gnu::tls_model("initial-exec")]] constinit thread_local Fibers* running = nullptr;

void enter() {
#if defined(__SANITIZE_ADDRESS__)
  running->arrived(nullptr);
#endif
  running->live();
}

}  // namespace

void run_blocks(const Grid& grid, const Body& body) {
  thread_local Fibers own;
  running = &own;
  own.run(grid, body);
}

void launch(Stream stream, const Grid& grid, Body body) {
  enqueue(stream, [grid, body = std::move(body)] { run_blocks(grid, body); });
}

ScheduleScope::ScheduleScope(std::uint64_t seed) { schedule() = seed; }
ScheduleScope::~ScheduleScope() { schedule() = 0; }
bool runs_late() { return schedule() % 2 == 1; }

void sync() { running->sync(); }
const std::uint64_t* detail::gather(std::uint64_t word, int& lane) { return running->gather(word, lane); }

}  // namespace lacuna::cuda::stand_in
