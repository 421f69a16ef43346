// Packing of codes that the threads of a block have in shared memory, for .cu files.
#pragma once

#include "ops/cuda/codes.h"

namespace lacuna::cuda {

inline constexpr int tile_threads = 256, tile_elements = 8 * tile_threads;  // eight elements a thread

namespace detail {

/// Calls `f(width, shift, place in the plane, bytes of the plane)` for the plane that holds byte `offset` of a packed
/// block.
template <class F>
LACUNA_DEVICE inline void with_plane(int elements, int bits, int offset, const F& f) {
  int shift = 0;
  for (int width = 8; width > 0; width /= 2) {
    if ((bits & width) == 0) continue;
    const int bytes = plane_bytes(elements, width);
    if (offset < bytes) return f(width, shift, offset, bytes);
    offset -= bytes;
    shift += width;
  }
}

/// Byte `offset` of a packed block of `elements` codes.
LACUNA_DEVICE inline std::uint8_t packed_byte(const std::uint8_t* codes, int elements, int bits, int offset) {
  std::uint32_t byte = 0;
  with_plane(elements, bits, offset, [&](int width, int shift, int place, int bytes) {
    for (int i = place, part = 0; i < elements && part < 8; i += bytes, part += width)
      byte |= (static_cast<std::uint32_t>(codes[i]) >> shift & ((1U << width) - 1)) << part;
  });
  return static_cast<std::uint8_t>(byte);
}
/// Bytes `offset` to `offset` + 3 of a packed block of 128 codes.
LACUNA_DEVICE inline std::uint32_t packed_word(const std::uint8_t* codes, int bits, int offset) {
  std::uint32_t word = 0;
  with_plane(code_block, bits, offset, [&](int width, int shift, int place, int bytes) {
    const std::uint32_t mask = ((1U << width) - 1) * 0x01010101U;
    for (int i = place, part = 0; i < code_block; i += bytes, part += width)
      word |= (load_pack<1>(reinterpret_cast<const std::uint32_t*>(codes + i))[0] >> shift & mask) << part;
  });
  return word;
}

}  // namespace detail

/// Packs `elements` codes in shared memory, aligned to 4, into `out`: the packed bytes of the first one's block, of
/// which it is the first. All threads of the block call it, after a barrier.
template <class K>
LACUNA_DEVICE inline void pack_tile(const Block<K>& block, const std::uint8_t* codes, int elements, int bits,
                                    std::uint8_t* out) {
  const int block_bytes = code_block / 8 * bits;
  int done = 0;  // elements
  if (reinterpret_cast<std::uintptr_t>(out) % 4 == 0) {
    done = elements / code_block * code_block;
    for (int word = block.thread(); word < done / 32 * bits; word += K::threads) {
      const int own = word * 4 / block_bytes, offset = word * 4 % block_bytes;
      store_pack(reinterpret_cast<std::uint32_t*>(out) + word,
                 Pack<std::uint32_t, 1>{detail::packed_word(codes + own * code_block, bits, offset)});
    }
  }
  for (; done < elements; done += code_block) {
    const int here = elements - done < code_block ? elements - done : code_block;
    int bytes = 0;
    for (int width = 8; width > 0; width /= 2)
      if ((bits & width) != 0) bytes += plane_bytes(here, width);
    for (int i = block.thread(); i < bytes; i += K::threads)
      out[done / 8 * bits + i] = detail::packed_byte(codes + done, here, bits, i);
  }
}

/// Writes the codes of a block of threads: `words` has eight of a thread, a byte each, and `elements` of all threads
/// count. Whole blocks of codes are packed by exchange within warps, the rest in `shared` [tile_elements], which is
/// aligned to 4.
template <class K>
LACUNA_DEVICE inline void write_codes(const Block<K>& block, std::uint8_t* shared, const EightCodes& words,
                                      int elements, int bits, std::uint8_t* out) {
  constexpr int eights = code_block / 8;  // neighbouring lanes have a block of codes
  const int at = block.thread() * 8;
  if (elements % code_block != 0 || reinterpret_cast<std::uintptr_t>(out) % 8 != 0) {
    if (at < elements) store_pack(shared + at, std::bit_cast<Pack<std::uint8_t, 8>>(words));
    block.sync();
    return pack_tile(block, shared, elements, bits, out);
  }
  std::uint8_t* plane = out + at / code_block * (code_block / 8 * bits);
  const int lane = block.thread() % eights;
  int shift = 0;
#pragma unroll
  for (int width = 8; width > 0; width /= 2) {
    if ((bits & width) == 0) continue;
    const std::uint32_t mask = ((1U << width) - 1) * 0x01010101U;
    EightCodes own{{words[0] >> shift & mask, words[1] >> shift & mask}};
    // The codes of a lane go above those of the lane that is so many before it, until `lanes` have the plane.
    const int lanes = eights * width / 8;
#pragma unroll
    for (int apart = eights / 2, part = 4; apart >= 1; apart /= 2, part /= 2) {
      if (apart < lanes) break;
      own[0] |= exchange(own[0], apart) << part;
      own[1] |= exchange(own[1], apart) << part;
    }
    if (lane < lanes && at < elements) store_pack(reinterpret_cast<std::uint32_t*>(plane + lane * 8), own);
    plane += code_block / 8 * width;
    shift += width;
  }
}

}  // namespace lacuna::cuda
