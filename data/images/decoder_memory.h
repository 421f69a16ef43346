// Memory of decoders that hold a whole picture, which no ledger counts: a share of it that threads wait for.
#pragma once

#include <cstdint>

namespace lacuna {

/// Bytes of a decoder while this object lives. The constructor waits until they are within the limit beside those of
/// other threads, in the order of arrival; a picture that needs more than the limit waits until it is alone. One that
/// needs more than the memory that is left throws DamagedSample.
class DecoderMemory {
 public:
  explicit DecoderMemory(std::int64_t bytes);
  ~DecoderMemory();
  DecoderMemory(const DecoderMemory&) = delete;
  DecoderMemory& operator=(const DecoderMemory&) = delete;

 private:
  std::int64_t bytes_;
};

/// The limit for all threads; 0: a quarter of the memory that is left at the first picture.
void set_decoder_limit(std::int64_t bytes);
/// The most bytes that were held at once.
std::int64_t decoder_peak();

}  // namespace lacuna
