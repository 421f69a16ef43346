#include "ops/attention/normed_rotary.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

OpSample rotary(std::string name, std::int64_t dimensions, std::int64_t width, Rotary op) {
  op.table = make_rotary_table(rotary_frequencies(dimensions, 100, 12, 12), 12, Device::cpu);
  return {.name = std::move(name),
          .op = bound(op),
          .inputs =
              [rows = op.sequences->rows(), width](DType dtype) {
                return std::vector{sample_values({1, rows, width}, dtype, 1)};
              },
          .differentiable = {0}};
}
OpSample normed(std::string name, std::int64_t width, NormedRotary op) {
  op.rotary.table = make_rotary_table(rotary_frequencies(4, 100, 12, 12), 12, Device::cpu);
  return {.name = std::move(name),
          .op = bound(op),
          .inputs =
              [rows = op.rotary.sequences->rows(), width, heads = op.norm.heads](DType dtype) {
                return std::vector{sample_values({1, rows, width}, dtype, 1),
                                   sample_values({width / heads}, compute_type(dtype), 2, 0.5, 1.5)};
              },
          .differentiable = {0, 1}};
}
SequencesPtr packed(const std::vector<std::int64_t>& offsets) { return Sequences::packed(offsets); }

const RegisterSample rotaries[] = {
    RegisterSample(rotary("rotary", 6, 18, {.heads = 3, .sequences = packed({0, 7, 8, 20})})),
    RegisterSample(rotary("rotary of a part of each head", 4, 14,
                          {.heads = 2, .sequences = Sequences::padded(std::vector<std::int64_t>{3, 1}, 14)})),
    RegisterSample(
        rotary("rotary of neighbours", 6, 14, {.heads = 2, .sequences = packed({0, 5}), .neighbours = true})),
    RegisterSample(rotary("rotary behind a cache", 3, 10,
                          {.heads = 2, .sequences = packed({0, 2, 3}), .first_positions = {9, 4}})),
    RegisterSample(
        normed("normed_rotary", 24, {.norm = {.heads = 3}, .rotary = {.heads = 3, .sequences = packed({0, 7, 9})}})),
    RegisterSample(normed("normed_rotary of whole rows", 10,
                          {.norm = {.offset = 1}, .rotary = {.heads = 2, .sequences = packed({0, 7})}}))};

}  // namespace
}  // namespace lacuna
