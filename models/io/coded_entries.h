// Weights in few bits in files, as bitsandbytes and transformers write them.
//
// In 4 bits the codes of `X` stand beside `X.absmax` (scales), `X.quant_map` (values of the codes), with double
// quantization `X.nested_absmax` and `X.nested_quant_map`, and `X.quant_state.bitsandbytes__nf4`, a JSON object with
// the shape, the block sizes and the type that values are rounded to. In 8 bits `Y.weight` stands beside `Y.SCB`, the
// scales of its rows. int4 has the form of nf4, with `lacuna__int4`.
#pragma once

#include "models/io/safetensors.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace lacuna {

/// A tensor as a file holds it.
struct StoredPart {
  std::string name;
  Tensor tensor;
  std::string_view stored_type{};  // empty: that of the tensor's dtype
};
/// The parts of a coded tensor; bf16 is one. `coded` is on the CPU.
std::vector<StoredPart> stored_parts(const std::string& name, const Tensor& coded);

/// The entries in which one coded tensor lies.
struct CodedEntry {
  SafetensorsEntry codes, scales;
  std::optional<SafetensorsEntry> nested_scales{};
  float offset = 0;  // of nested scales
};
/// Joins the entries of each coded tensor into one, of type `coded` and of the tensor's shape, and returns what they
/// were, by name. `read` gives the bytes of a short entry. Refuses parts that contradict each other, maps of codes
/// that are not those of the type, and parts that are missing.
std::map<std::string, CodedEntry, std::less<>> join_coded_entries(
    std::vector<SafetensorsEntry>& entries, const std::function<std::string(const SafetensorsEntry&)>& read,
    std::string_view origin);

}  // namespace lacuna
