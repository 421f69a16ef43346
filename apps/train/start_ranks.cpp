// `lacuna train --gpus N`: a process for each GPU, and their ends.
#include "apps/train/ranks.h"
#include "core/error.h"
#include "core/launch.h"
#include "core/local_ranks.h"
#include "core/system_error.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace lacuna::apps {
namespace {

/// The words of this process's command.
std::vector<std::string> own_command() {
  std::vector<std::string> words;
  std::ifstream own("/proc/self/cmdline");
  for (std::string word; std::getline(own, word, '\0');) words.push_back(word);
  return words;
}

std::filesystem::path make_meeting_place() {
  std::string name = (std::filesystem::temp_directory_path() / "lacuna-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) fail("cannot make the folder {}: {}", name, last_system_error());
  return name;
}

/// Ranks that run, by number; 0: ended.
using Processes = std::vector<pid_t>;

void signal_all(const Processes& processes, int signal) {
  for (const pid_t process : processes)
    if (process > 0) ::kill(process, signal);
}

pid_t start_rank(int rank, const std::vector<std::string>& command, const sigset_t& signals) {
  const pid_t process = ::fork();
  if (process < 0) fail("cannot start rank {}: {}", rank, last_system_error());
  if (process > 0) return process;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::sigprocmask(SIG_SETMASK, &signals, nullptr);
  ::setenv(local_rank, std::to_string(rank).c_str(), 1);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execv("/proc/self/exe", words.data());
  std::_Exit(run_failed);
}

/// Collects ranks that have ended. Returns the exit code of the first that failed, or 0.
int collect(Processes& processes) {
  int code = 0, status = 0;
  for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    const auto rank = std::ranges::find(processes, ended);
    if (rank == processes.end()) continue;
    *rank = 0;
    const int own = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (own == 0 || code != 0) continue;
    code = own;
    if (WIFSIGNALED(status))
      std::fputs(fmt::format("lacuna: rank {} was ended by a signal ({}): all ranks end. The last checkpoint is whole; "
                             "--resume goes on from it\n",
                             rank - processes.begin(), ::strsignal(WTERMSIG(status)))
                     .c_str(),
                 stderr);
  }
  return code;
}

/// Waits until all ranks have ended, and passes signals on. The first that fails ends the others.
int wait_for_ranks(Processes& processes, const sigset_t& signals) {
  int code = 0;
  while (std::ranges::any_of(processes, [](pid_t process) { return process > 0; })) {
    siginfo_t what{};
    const int signal = ::sigwaitinfo(&signals, &what);
    if (signal > 0 && signal != SIGCHLD) {
      if (what.si_code != SI_KERNEL) signal_all(processes, signal);  // a terminal sends its own to all processes
      continue;
    }
    if (const int failed = collect(processes); failed != 0 && code == 0) {
      code = failed;
      signal_all(processes, SIGKILL);
    }
  }
  return code;
}

}  // namespace

void start_ranks(int count) {
  if (const Launch launch = read_launch(); launch.ranks > 1) {
    if (launch.ranks != count)
      reject("--gpus {}: {} started {} processes; expected as many", count, launch.launcher, launch.ranks);
    return;
  }
  if (count == 1) return;
  const std::filesystem::path place = make_meeting_place();
  ::setenv(local_folder, place.c_str(), 1);
  ::setenv(local_ranks, std::to_string(count).c_str(), 1);
  std::fflush(nullptr);
  sigset_t signals, before;
  ::sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  const std::vector<std::string> command = own_command();
  Processes processes;
  for (int rank = 0; rank < count; ++rank) processes.push_back(start_rank(rank, command, before));
  const int code = wait_for_ranks(processes, signals);
  std::error_code failed;
  std::filesystem::remove_all(place, failed);
  std::_Exit(code);
}

}  // namespace lacuna::apps
