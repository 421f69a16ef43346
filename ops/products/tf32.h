// TF32: products of f32 matrices by the tensor cores of a GPU, which round the factors to 10 bits after the point.
#pragma once

namespace lacuna {

/// While it lives with `on`, products of f32 matrices that this thread starts on cuda round their factors to TF32; sums
/// stay f32. Without it, and on the CPU, f32 is f32. As torch.backends.cuda.matmul.allow_tf32.
class Tf32Scope {
 public:
  explicit Tf32Scope(bool on);
  ~Tf32Scope();
  Tf32Scope(const Tf32Scope&) = delete;
  Tf32Scope& operator=(const Tf32Scope&) = delete;

 private:
  bool outer_;
};

/// Whether such a scope is open.
bool uses_tf32();

}  // namespace lacuna
