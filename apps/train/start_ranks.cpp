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
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
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

/// The folder where ranks meet, as long as this lives.
class MeetingPlace {
 public:
  MeetingPlace() {
    if (::mkdtemp(name_.data()) == nullptr) fail("cannot make the folder {}: {}", name_, last_system_error());
  }
  ~MeetingPlace() {
    std::error_code failed;
    std::filesystem::remove_all(name_, failed);
  }
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;
  const std::string& name() const { return name_; }

 private:
  std::string name_ = (std::filesystem::temp_directory_path() / "lacuna-XXXXXX").string();
};

/// Ranks that run, by number; 0: ended.
using Processes = std::vector<pid_t>;

void signal_all(const Processes& processes, int signal) {
  for (const pid_t process : processes)
    if (process > 0) ::kill(process, signal);
}

pid_t start_rank(int rank, const std::vector<std::string>& command, const sigset_t& signals) {
  const pid_t starter = ::getpid(), process = ::fork();
  if (process < 0) fail("cannot start rank {}: {}", rank, last_system_error());
  if (process > 0) return process;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != starter) std::_Exit(run_failed);  // it ended before the line above
  ::setpgid(0, 0);  // a signal to the group reaches the process that started the ranks, which passes it on
  ::sigprocmask(SIG_SETMASK, &signals, nullptr);
  ::setenv(local_rank, std::to_string(rank).c_str(), 1);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execv("/proc/self/exe", words.data());
  std::fputs(fmt::format("lacuna: cannot start rank {}: {}\n", rank, last_system_error()).c_str(), stderr);
  std::_Exit(run_failed);
}

/// Collects ranks that have ended. `code`: the exit code of the first that failed, or 0. A rank that lost another one
/// counts only as long as none has failed by itself.
void collect(Processes& processes, int& code) {
  int status = 0;
  for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    const auto rank = std::ranges::find(processes, ended);
    if (rank == processes.end()) continue;
    *rank = 0;
    const int own = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (own == 0 || (code != 0 && (code != lost_a_rank || own == lost_a_rank))) continue;
    code = own;
    if (WIFSIGNALED(status))
      std::fputs(fmt::format("lacuna: rank {} was ended by a signal ({}): all ranks end. The last checkpoint is whole; "
                             "--resume goes on from it\n",
                             rank - processes.begin(), ::strsignal(WTERMSIG(status)))
                     .c_str(),
                 stderr);
  }
}

/// Ends all ranks and waits for them.
void end(Processes& processes) {
  signal_all(processes, SIGKILL);
  for (pid_t& process : processes)
    if (std::exchange(process, 0) > 0) ::waitpid(process, nullptr, 0);
}

/// Waits until all ranks have ended, and passes signals on. The first that fails ends the others. Returns its code.
int wait_for_ranks(Processes& processes, const sigset_t& signals) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds patience{3};  // sockets of a process with a GPU close long before it has ended
  constexpr timespec second{.tv_sec = 1, .tv_nsec = 0};
  int code = 0;
  Clock::time_point lost{};
  while (std::ranges::any_of(processes, [](pid_t process) { return process > 0; })) {
    const int signal = ::sigtimedwait(&signals, nullptr, &second);
    if (signal == SIGTSTP) {
      signal_all(processes, SIGSTOP);
      ::raise(SIGSTOP);
      signal_all(processes, SIGCONT);
    } else if (signal > 0 && signal != SIGCHLD) {
      signal_all(processes, signal);
    }
    const int before = code;
    collect(processes, code);
    if (before == 0 && code == lost_a_rank) lost = Clock::now();
    if (code != 0 && (code != lost_a_rank || Clock::now() > lost + patience)) end(processes);
  }
  return code == lost_a_rank ? run_failed : code;
}

int run_ranks(int count) {
  const MeetingPlace place;
  ::setenv(local_folder, place.name().c_str(), 1);
  ::setenv(local_ranks, std::to_string(count).c_str(), 1);
  std::fflush(nullptr);
  sigset_t signals, before;
  ::sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGUSR1, SIGUSR2, SIGXCPU})
    ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  const std::vector<std::string> command = own_command();
  Processes processes;
  try {
    for (int rank = 0; rank < count; ++rank) processes.push_back(start_rank(rank, command, before));
  } catch (...) {
    end(processes);
    throw;
  }
  return wait_for_ranks(processes, signals);
}

}  // namespace

void start_ranks(int count) {
  if (const Launch launch = read_launch(); launch.ranks > 1) {
    if (launch.ranks != count)
      reject("--gpus {}: {} started {} processes; expected as many", count, launch.launcher, launch.ranks);
    return;
  }
  if (count > 1) std::_Exit(run_ranks(count));
}

}  // namespace lacuna::apps
