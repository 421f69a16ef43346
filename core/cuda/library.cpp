#include "core/cuda/library.h"

#include "core/error.h"

#include <dlfcn.h>

#include <cstdlib>
#include <sstream>
#include <vector>

namespace lacuna::cuda {
namespace {

/// The folders to search, the loader's own (empty) first.
std::vector<std::string> folders() {
  std::vector<std::string> all{""};
  for (const char* const named :
       {static_cast<const char*>(std::getenv("LACUNA_CUDA_LIBRARIES")), LACUNA_CUDA_LIBRARY_FOLDERS}) {
    std::istringstream parts(named == nullptr ? "" : named);
    for (std::string folder; std::getline(parts, folder, ':');)
      if (!folder.empty()) all.push_back(folder + "/");
  }
  return all;
}

}  // namespace

SharedLibrary::SharedLibrary(std::string name, std::initializer_list<const char*> files, const char* package)
    : name_(std::move(name)) {
  for (const std::string& folder : folders())
    for (const char* const file : files) {
      handle_ = dlopen((folder + file).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return;
    }
  reject("cuda needs {}, which was not found: install {}, or name its folder in LACUNA_CUDA_LIBRARIES", name_, package);
}

void* SharedLibrary::find(const char* symbol) const {
  void* const function = dlsym(handle_, symbol);
  if (function == nullptr) fail("{} has no {}: it is too old", name_, symbol);
  return function;
}

}  // namespace lacuna::cuda
