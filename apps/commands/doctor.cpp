// lacuna doctor: what this machine and this build can do.
#include "apps/command.h"
#include "apps/output/output.h"
#include "apps/train/machine_costs.h"
#include "apps/version.h"
#include "core/allocator.h"
#include "core/backend.h"
#include "core/launch.h"
#include "core/ledger.h"
#include "core/parallel.h"
#include "core/processor.h"
#include "core/system_memory.h"
#include "data/images/image_reader.h"
#include "ops/cuda_libraries.h"

#include <fmt/ranges.h>
#include <gnu/libc-version.h>
#include <oneapi/dnnl/dnnl.h>
#include <xxhash.h>
#include <CLI/CLI.hpp>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lacuna::apps {
namespace {

std::string advice(const std::vector<InstructionSet>& sets) {
  std::vector<std::string> unused;
  for (const InstructionSet& set : sets)
    if (set.processor && !set.used) unused.push_back(set.name);
  if (unused.empty()) return "the build fits this processor";
  return fmt::format("this processor also has {}: a build with -DLACUNA_ARCH=native is faster",
                     fmt::join(unused, ", "));
}

#ifdef __clang__
constexpr const char* compiler = "Clang " __clang_version__;
#else
constexpr const char* compiler = "GCC " __VERSION__;
#endif

std::string version_of_onednn() {
  const dnnl_version_t* const version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

std::string version_from(int packed) {
  return fmt::format("{}.{}.{}", packed / 10000, packed / 100 % 100, packed % 100);
}

/// The environment variables about threads, as NAME=VALUE.
std::vector<std::string> openmp_settings() {
  std::vector<std::string> found;
  for (const char* const name : {"OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OMP_DYNAMIC", "OMP_MAX_ACTIVE_LEVELS",
                                 "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"})
    if (const char* const value = std::getenv(name)) found.push_back(fmt::format("{}={}", name, value));
  return found;
}

/// MPI in words, and the launcher that started this process.
std::string text_of(const MpiLibrary& mpi, const Launch& launch) {
  const std::string found = mpi.version.empty() ? mpi.problem : fmt::format("{} ({})", mpi.version, mpi.file);
  if (launch.ranks == 1) return found;
  return fmt::format("{}; rank {} of {}, started by {}", found, launch.rank, launch.ranks, launch.launcher);
}

std::string text_of(const CudaDevices& cuda, const std::vector<std::string>& problems,
                    const std::vector<CudaLibrary>& libraries) {
  if (cuda.names.empty()) return cuda.problem;
  std::string text = fmt::format("{}", fmt::join(cuda.names, ", "));
  for (const std::string& problem : problems) text += "; " + problem;
  for (const CudaLibrary& library : libraries) {
    text += fmt::format("; {} {}", library.name, library.problem.empty() ? library.version : library.problem);
    for (const std::string& note : library.notes) text += "; " + note;
  }
  return text;
}

ExitCode run(const Report& report) {
  const MpiLibrary mpi = find_mpi();
  const CudaDevices cuda = find_cuda_devices();
  const std::vector<std::string> problems = cuda.problems();
  const std::vector<CudaLibrary> libraries = cuda.names.empty() ? std::vector<CudaLibrary>() : cuda_libraries();
  nlohmann::ordered_json libraries_json = nlohmann::json::array();
  for (const CudaLibrary& library : libraries)
    libraries_json.push_back(
        {{"name", library.name}, {"version", library.version}, {"problem", library.problem}, {"notes", library.notes}});
  const Launch launch = read_launch();
  const std::vector<InstructionSet> sets = instruction_sets();
  nlohmann::ordered_json used = nlohmann::json::array(), processor = nlohmann::json::array();
  for (const InstructionSet& set : sets) {
    if (set.used && set.processor) used.push_back(set.name);
    if (set.processor) processor.push_back(set.name);
  }
  const nlohmann::ordered_json json = {
      {"version", LACUNA_VERSION},
      {"devices",
       {{{"name", "cpu"},
         {"model", processor_model()},
         {"memory", allocator(Device::cpu).capacity()},
         {"available", allocator(Device::cpu).available()}},
        {{"name", "meta"}, {"model", "shapes only, for planning"}}}},
      {"instruction_sets", {{"used", used}, {"processor", processor}, {"advice", advice(sets)}}},
      {"threads", {{"processors", processors()}, {"used", threads()}, {"settings", openmp_settings()}}},
      {"cuda",
       {{"devices", cuda.names}, {"unusable", problems}, {"problem", cuda.problem}, {"libraries", libraries_json}}},
      {"mpi", {{"version", mpi.version}, {"file", mpi.file}, {"problem", mpi.problem}}},
      {"launch", {{"launcher", launch.launcher}, {"rank", launch.rank}, {"ranks", launch.ranks}}},
      {"costs_file", costs_file().string()},
      {"build", {{"architecture", LACUNA_ARCH}, {"compiler", compiler}}},
      {"libraries",
       {{"oneDNN", version_of_onednn()},
        {"JPEG", jpeg_library()},
        {"fmt", version_from(FMT_VERSION)},
        {"CLI11", CLI11_VERSION},
        {"nlohmann-json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                      NLOHMANN_JSON_VERSION_PATCH)},
        {"yaml-cpp", LACUNA_YAML_CPP_VERSION},
        {"xxHash", fmt::format("{}.{}.{}", XXH_VERSION_MAJOR, XXH_VERSION_MINOR, XXH_VERSION_RELEASE)},
        {"OpenMP", fmt::format("{}", _OPENMP)},
        {"glibc", gnu_get_libc_version()}}}};

  std::string text = fmt::format("Lacuna {}\n", version_and_commit());
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<18}{}\n", name, value);
  };
  line("processor", json["devices"][0]["model"]);
  line("devices", "cpu, meta");
  line("memory", fmt::format("{}, {} available", format_bytes(allocator(Device::cpu).capacity()),
                             format_bytes(allocator(Device::cpu).available())));
  const std::vector<std::string> openmp = openmp_settings();
  line("threads", fmt::format("{} of {}{}", threads(), processors(),
                              openmp.empty() ? "" : fmt::format(" ({})", fmt::join(openmp, ", "))));
  const std::string_view arch = LACUNA_ARCH;
  const std::string march = arch.empty() ? "the compiler's default" : fmt::format("-march={}", arch);
  line("instruction sets",
       fmt::format("kernels use {} (built {}); {}", used.empty() ? "SSE2" : fmt::format("{}", fmt::join(used, " ")),
                   march, advice(sets)));
  std::error_code ignored;
  line("costs for `auto`",
       std::filesystem::exists(costs_file(), ignored) ? costs_file().string() : "nominal; --calibrate measures them");
  line("CUDA", text_of(cuda, problems, libraries));
  line("MPI", text_of(mpi, launch));
  line("compiler", json["build"]["compiler"]);
  for (const auto& [name, version] : json["libraries"].items()) line(name, version);
  report.write(text, json);
  return 0;
}

class Doctor {
 public:
  explicit Doctor(CLI::App& app) {
    app.add_flag("--calibrate", calibrates_, "measure what operations cost on this machine, for plans of `auto`");
    app.add_option("--disk", disk_, "with --calibrate: a folder on the disk of memory.offload, which is measured too")
        ->type_name("DIR")
        ->needs("--calibrate");
    report_.declare(app);
  }
  ExitCode operator()() const {
    if (calibrates_) calibrate(disk_);
    return run(report_);
  }

 private:
  bool calibrates_ = false;
  std::string disk_;
  Report report_;
};

const RegisterCommand doctor(90, "doctor", "show what this machine and this build have", declare<Doctor>);

}  // namespace
}  // namespace lacuna::apps
