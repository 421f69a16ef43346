#include "ops/cuda_libraries.h"

#include <mutex>
#include <set>
#include <utility>

namespace lacuna {

bool& uses_cudnn() {
  static bool uses = true;
  return uses;
}

std::vector<CudaLibrary> cuda_libraries() {
  std::vector<CudaLibrary> libraries;
  add_cuda_libraries(Device::cuda, libraries);
  return libraries;
}

namespace {
struct Notes {
  std::mutex mutex;
  std::set<std::string> all;
  std::vector<std::string> unread;
};
Notes& notes() {
  static Notes all;
  return all;
}
}  // namespace

void note_library(const std::string& text) {
  Notes& known = notes();
  const std::lock_guard lock(known.mutex);
  if (known.all.insert(text).second) known.unread.push_back(text);
}

std::vector<std::string> new_library_notes() {
  Notes& known = notes();
  const std::lock_guard lock(known.mutex);
  return std::exchange(known.unread, {});
}

}  // namespace lacuna
