// Compressed files and arrays of NumPy, whole in memory.
#pragma once

#include "core/tensor.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace lacuna {

/// The content of a file that may be of gzip. Rejects one that is missing, damaged or larger than `most` bytes.
std::string read_gzip(const std::filesystem::path& path, std::int64_t most);

/// An array as `.npy` has it: little endian, in C order.
struct NumpyArray {
  std::string origin;  // file, and the name in an archive
  std::string type;    // `f4`, `f8`, `i4`, `i8`, `u1`, `b1` …; texts: `S3`, `U3`
  std::vector<std::int64_t> shape;
  std::string bytes;

  std::int64_t count() const;
  /// The values as another type. Rejects types that are no numbers, and numbers that it does not hold.
  std::vector<std::int64_t> whole_numbers() const;
  std::vector<std::int32_t> node_numbers() const;
  Tensor floats() const;  // f32, of Purpose::data; rejects what is not finite
};

/// Rejects files that are no arrays of numbers, and those whose extents and size differ.
NumpyArray read_npy(const std::filesystem::path& path);
/// The arrays of an archive by name, without `.npy`; other files are left out. Rejects damaged data.
std::map<std::string, NumpyArray> read_npz(const std::filesystem::path& path);

}  // namespace lacuna
