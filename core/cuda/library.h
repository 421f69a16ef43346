// NVIDIA's shared libraries, opened on first use so that one binary serves machines with and without them.
#pragma once

#include <initializer_list>
#include <string>

namespace lacuna::cuda {

class SharedLibrary {
 public:
  /// Opens the first of `files` that the loader finds, then tries the folders in LACUNA_CUDA_LIBRARIES (separated by
  /// colons) and those where CMake found CUDA. If all fail, throws Error that names `package` as the one to install.
  SharedLibrary(std::string name, std::initializer_list<const char*> files, const char* package);

  /// Looks up a function. Throws Error if the library lacks it.
  template <class F>
  F function(const char* symbol) const {
    return reinterpret_cast<F>(find(symbol));
  }

 private:
  void* find(const char* symbol) const;

  std::string name_;
  void* handle_ = nullptr;
};

}  // namespace lacuna::cuda
