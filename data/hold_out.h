// The part of a data set that is held out for evaluation where its files have none of their own.
#pragma once

#include "core/schema.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// The fraction of each class that is held out: the default and the limits.
inline constexpr double usual_fraction = 0.1;
inline constexpr NumberRange val_fractions = between(0.001, 0.9);

enum class HoldOut : std::uint8_t {
  by_name,   // a sample's side follows from its name and the seed, so that others may come and go
  by_place,  // drawn by place, in runs that recorded no names
  none       // an evaluation alone, which takes all samples
};

/// Names of the samples on both sides, for a run that compares them with those it began with.
struct HeldOut {
  std::vector<std::string> names;  // held out
  std::int64_t trained_on = 0;     // samples
  bool are_texts = false;          // names are whole texts, of which a run records the hashes alone
  bool are_hashes = false;         // names are hash_of_text of such
};
/// In hexadecimal digits.
std::string hash_of_text(std::string_view text);
/// A phrase for descriptions, with the share that is held out.
std::string describe_held_out(const HeldOut& sides, double fraction);

struct HoldOutOptions {
  HoldOut how = HoldOut::by_name;
  double fraction = usual_fraction;
  std::uint64_t seed = 1;
  std::shared_ptr<const HeldOut> before{};  // those of a run that goes on: they stay held out
};

/// Marks the samples held out. `names` are those within a class, so that a sample keeps its side when its class
/// changes; `paths` are those that HeldOut has. By name, each sample is held out with a probability of `fraction`; of a
/// class that lost none, or all, the one with the least, or greatest, hash changes its side. A class of one sample is
/// trained on. Those of `options.before` stay held out, whatever their classes are now, and no class needs a further
/// one.
std::vector<bool> held_out(const std::vector<std::string>& names, const std::vector<std::string>& paths,
                           const std::vector<std::int32_t>& labels, const HoldOutOptions& options);

}  // namespace lacuna
