// A shared library of NVIDIA's that is opened when it is first needed: one binary serves machines with and without it.
#pragma once

#include <initializer_list>
#include <string>

namespace lacuna::cuda {

class SharedLibrary {
 public:
  /// Opens the first of `files` that the loader finds; then tries the folders of LACUNA_CUDA_LIBRARIES (separated by
  /// colons) and those where CMake found CUDA. Throws Error with `package`, which brings it, if there is none.
  SharedLibrary(std::string name, std::initializer_list<const char*> files, const char* package);

  /// Throws Error if the library lacks it.
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
