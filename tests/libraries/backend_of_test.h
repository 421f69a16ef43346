// A cuda backend without kernels or memory, in the place of CUDA's.
#pragma once

#include "core/allocator.h"
#include "core/backend.h"

#include <memory>
#include <string>
#include <vector>

namespace lacuna::test {

/// A device whose work ends when the test says so.
class BackendOfTest final : public Backend {
 public:
  bool is_done = true;

  int device_count() const override { return max_devices; }
  std::string problem() const override { return {}; }
  std::vector<std::string> left_out() const override { return {}; }
  std::string name(int) const override { return "test"; }
  std::string identity(int) const override { return "test"; }
  Stream stream(int) override { return nullptr; }
  Stream side_stream(int) override { return nullptr; }
  Stream input_stream(int) override { return nullptr; }
  void synchronize(Stream) override {
    wait_until([this] { return is_done; });
  }
  std::unique_ptr<StreamMark> mark(Stream) override { return nullptr; }
  void wait_for(Stream, const StreamMark&) override {}
  void copy(Stream, void*, const void*, std::size_t) override {}
  void copy_in(Stream, void*, const void*, std::size_t) override {}
  void copy_out(Stream, void*, const void*, std::size_t) override {}
  void copy_out_later(Stream, void*, const void*, std::size_t) override {}
  void copy_in_later(Stream, void*, const void*, std::size_t) override {}
  bool pin(void*, std::size_t) override { return true; }
  void unpin(void*) noexcept override {}
  void set_to_zero(Stream, void*, std::size_t) override {}
  void begin_capture(Stream) override {}
  std::unique_ptr<StreamGraph> end_capture(Stream) override { return nullptr; }
  Card card(int) const override { return {}; }
  std::int64_t capacity(int) const override { return 0; }
  std::byte* reserve(int, std::size_t) override { return nullptr; }
  bool commit(int, std::size_t, std::size_t) override { return true; }
  void decommit(int, std::size_t, std::size_t) noexcept override {}
};

}  // namespace lacuna::test
