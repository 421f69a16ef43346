// How long a step would take: the work of a plan on `meta`, at rates that a short calibration measures.
#pragma once

#include "apps/config/configuration.h"
#include "apps/train/measure.h"

#include <cstdint>

namespace lacuna::apps {

/// How fast a machine works. Plans are chosen by ratios of these alone: as they stand here they are nominal, of two
/// cores with AVX-512.
struct Rates {
  double macs = 1.5e11;   // a second, of matrix products
  double bytes = 4.5e10;  // a second, read or written in a pass that does little else
  // Seconds for each byte of a tensor in codes: once encoded, and decoded twice, as backward about does.
  double dithered = 6.5e-11;
  double rotated = 1.5e-10;  // those of few bits (quant::uses_hadamard)

  /// What holding a tensor of so many bytes in codes adds to a step, seconds; 0 at `exact_bits`.
  double coding_seconds(std::int64_t bytes_of_tensor, int bits) const;
  /// What deriving a tensor of so many bytes in backward takes, seconds: another is read, and this one written.
  double deriving_seconds(std::int64_t bytes_of_tensor) const {
    return 2 * static_cast<double>(bytes_of_tensor) / bytes;
  }
  bool operator==(const Rates&) const = default;
};

/// Rates of this machine with as many threads as are set, measured in a tenth of a second or two. Only ratios to the
/// nominal rate of matrix products count, rounded to powers of the square root of two from the nominal ones, so that
/// the noise of a measurement seldom changes a plan. Takes `bytes_to_measure_rates` for as long.
Rates measure_rates();
std::int64_t bytes_to_measure_rates();

/// One step as planned on `meta`.
struct PredictedStep {
  Measurement measured;
  double seconds = 0;  // without codes, and without what is derived
};
PredictedStep predict_step(const Configuration& configuration, const Rates& rates);

}  // namespace lacuna::apps
