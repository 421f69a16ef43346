// held_out.json of a run: the samples that its data set held out for evaluation, where the files have no part for it.
//
//   {"seed", "trained_on": samples, "names": [held out, ...]}, for texts "hashes" in place of "names"
#pragma once

#include "apps/config/experiment.h"

#include <filesystem>
#include <string>

namespace lacuna::apps {

/// For people: at most one of both.
struct FollowedSamples {
  std::string note{}, warning{};
};

/// Takes over from the run in `folder` which samples are held out: a run that recorded none drew them by place.
/// `data_given`: the command line names files. Where half of those that were held out are among them, they are the
/// run's data; all of others are evaluated.
FollowedSamples follow_held_out(const std::filesystem::path& folder, bool data_given, Experiment& experiment);

/// Records the samples held out; removes the record of an earlier run if there are none.
void save_held_out(const std::filesystem::path& folder, const Experiment& experiment, const DatasetInfo& samples);

}  // namespace lacuna::apps
