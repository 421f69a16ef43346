// The fields of a sample: named tensors of a kind, which says how their values follow when an image moves or samples
// are packed (docs/adding-data.md).
#pragma once

#include "core/number.h"
#include "core/shape.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// The meaning of a field's values.
enum class FieldKind : std::uint8_t {
  number,      // numbers that follow nothing: scores, features, ids
  label,       // classes of the sample: i64 [], or multi-label f32 [classes]
  image_file,  // u8 [bytes], an encoded image; a view decodes it to pixels
  pixels,      // [H, W, C]; transforms act on them
  mask,    // u8 or i64 [H, W], a class for each pixel: the nearest pixel follows. `padding` lies outside of the image, and
           // its pixels count for nothing; all others are below `below`
  boxes,   // f32 [K, 4], packed or padded: left, top, right and bottom in pixels; corners follow, and a box that
           // leaves the image is dropped with its row of every field of the same `lengths`
  tokens,  // i64 [L], ids of a vocabulary
  edges    // i64 or i32 [E, ...], packed: row numbers of the fields of lengths `indexes`; they follow those rows' offsets
};
std::string_view name_of(FieldKind kind);

/// How a batch holds the tensors of N samples.
enum class Collation : std::uint8_t {
  stacked,  // samples of one shape [...]: [N, ...]
  packed,   // samples [L, ...] of any lengths L: concatenated to [ΣL, ...]
  padded    // samples [L, ...] of any lengths L: padded at the end to [N, longest, ...], in sixteenths of the most
};

/// Describes a tensor that every sample of a data set has.
struct SampleField {
  std::string name;
  FieldKind kind = FieldKind::number;
  DType dtype = DType::f32;
  Shape shape{};  // shape of one sample; if lengths vary, axis 0 is the maximum length
  Collation collation = Collation::stacked;
  double padding = 0;      // padding value
  std::int64_t below = 0;  // integers are in [0, below); 0: unknown
  std::string lengths{};   // if lengths vary: the name of the batch's offsets or lengths; see lengths_of
  std::string indexes{};   // of edges: the name of the offsets of the rows that they number; empty: `offsets`
};
using SampleFields = std::vector<SampleField>;

/// The name of the batch's tensor, on the host, that delimits the field's samples. Packed: i64 [N + 1], by default
/// `offsets`; sample i has rows [offsets[i], offsets[i + 1]). Padded: i64 [N], the lengths, by default `key_lengths`.
/// Stacked: empty. Fields that share a name share their lengths.
std::string lengths_of(const SampleField& field);
/// The name of the offsets of the rows that edges number; empty for other kinds.
std::string indexes_of(const SampleField& field);

/// The field `name`. Throws if there is none, and the message lists the existing fields.
const SampleField& field_of(const SampleFields& fields, std::string_view name);
/// The first field of a kind; null if there is none.
const SampleField* find_field(const SampleFields& fields, FieldKind kind);
/// The field of images, as files or as pixels; null if there is none.
const SampleField* find_images(const SampleFields& fields);
/// The field of a sample's one class, i64 []; null if there is none.
const SampleField* find_class(const SampleFields& fields);
/// Fields by name and kind, for messages: `images` (pixels), `labels` (label).
std::string to_string(const SampleFields& fields);

}  // namespace lacuna
