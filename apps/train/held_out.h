// held_out.json of a run: the samples that its data set held out for evaluation, where the files have no part for it.
//
//   {"seed", "trained_on": samples, "names": [held out, ...]}
#pragma once

#include "apps/config/experiment.h"

#include <filesystem>
#include <string>

namespace lacuna::apps {

/// Takes over from the run in `folder` which samples are held out: a run that recorded none drew them by place.
/// `data_given`: the command line names other files; unless they are the same ones at another place, all are evaluated.
/// Returns what differs from the run's samples; empty if nothing does.
std::string follow_held_out(const std::filesystem::path& folder, bool data_given, Experiment& experiment);

/// Records the samples held out; removes the record of an earlier run if there are none.
void save_held_out(const std::filesystem::path& folder, const Experiment& experiment, const DatasetInfo& samples);

}  // namespace lacuna::apps
