// Ranks that are processes of one machine and talk over sockets in a folder: several GPUs need no MPI.
#pragma once

#include "core/communicator.h"

#include <filesystem>
#include <memory>

namespace lacuna {

/// Names of the environment variables by which `lacuna train --gpus` tells its processes who they are.
inline constexpr const char *local_rank = "LACUNA_RANK", *local_ranks = "LACUNA_RANKS",
                            *local_folder = "LACUNA_RENDEZVOUS";

/// The exit code of a rank that fails because another one has ended. It stays between the ranks and their starter.
inline constexpr int lost_a_rank = 3;

/// Joins the ranks that meet in `folder`. An operation that waits for a rank which has ended, or longer than `timeout`
/// seconds, is an Error that names the rank.
std::unique_ptr<Communicator> join_local_ranks(const std::filesystem::path& folder, int rank, int size, double timeout);

}  // namespace lacuna
