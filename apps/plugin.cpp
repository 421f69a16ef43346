#include "apps/plugin.h"

#include "apps/command.h"
#include "autograd/policy.h"
#include "core/error.h"
#include "core/op.h"
#include "data/dataset.h"
#include "models/registry.h"
#include "models/task.h"
#include "optim/optimizer.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <regex>

namespace lacuna::apps {
namespace {

std::vector<std::string>& plugins() {
  static std::vector<std::string> files;
  return files;
}

bool is_elf(const std::string& file) {
  std::array<char, 4> start{};
  std::ifstream(file, std::ios::binary).read(start.data(), start.size());
  return std::memcmp(start.data(), "\177ELF", start.size()) == 0;
}

std::size_t registered() {
  return op_names().size() + model_families().names().size() + model_presets().names().size() + tasks().names().size() +
         dataset_kinds().names().size() + optimizers().names().size() + memory_policies().names().size();
}

[[noreturn]] void reject_unloadable(const std::string& file, const std::string& reason) {
  static const std::regex version(R"(undefined symbol: lacuna_version_(\d+)_(\d+)_(\d+))");
  std::smatch match;
  if (std::regex_search(reason, match, version))
    reject("--load: {} was built against Lacuna {}.{}.{}, this is {}; build it against this version", file,
           match[1].str(), match[2].str(), match[3].str(), LACUNA_VERSION);
  reject("--load: expected a shared object, got {}: {}", file, reason);
}

std::string& being_opened() {
  static std::string path;
  return path;
}

/// Ends the process with the exception of a static object of the file that is opened.
[[noreturn]] void end_opening() {
  std::string reason = "its static objects end the process";
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    reason = error.what();
  } catch (...) {
  }
  std::fputs(fmt::format("lacuna: --load: {}: {}\n", being_opened(), reason).c_str(), stderr);
  ::_exit(wrong_input);
}

/// dlopen with a clear end for an exception of a static object in the file, say for a name that is registered twice.
/// The exception comes out of dlopen or calls std::terminate, which depends on the frames between.
void* open_shared_object(const std::string& path) {
  being_opened() = path;
  const std::terminate_handler outer = std::set_terminate(end_opening);
  // volatile: dlopen is declared as throwing nothing, and the compiler would leave the handler out.
  void* (*volatile const open)(const char*, int) = ::dlopen;
  void* opened = nullptr;
  try {
    opened = open(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  } catch (...) {
    end_opening();
  }
  std::set_terminate(outer);
  return opened;
}

}  // namespace

void load_plugin(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) reject("--load: there is no file {}", file);
  if (!is_elf(file)) reject("--load: expected a shared object (.so), got {}", file);
  const std::size_t before = registered();
  // dlopen looks for a name without a slash in the system's folders.
  const std::string path = std::filesystem::absolute(file).string();
  if (open_shared_object(path) == nullptr) reject_unloadable(file, ::dlerror());
  if (registered() == before)
    reject(
        "--load: {} registers no op, model, task, data set, optimizer or memory policy; is it linked with the library "
        "that this command uses?",
        file);
  plugins().push_back(path);
}

const std::vector<std::string>& loaded_plugins() { return plugins(); }

void load_plugins(std::vector<std::string>& words) {
  constexpr std::string_view option = "--load", with_value = "--load=";
  std::vector<std::string> others;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(with_value)) {
      load_plugin(words[i].substr(with_value.size()));
    } else if (words[i] == option) {
      if (++i == words.size()) reject("--load: expected a file after it");
      load_plugin(words[i]);
    } else {
      others.push_back(std::move(words[i]));
    }
  }
  words = std::move(others);
}

}  // namespace lacuna::apps
