#include "apps/output/output.h"

#include "apps/output/host.h"
#include "core/error.h"
#include "core/file.h"
#include "core/system_error.h"

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lacuna::apps {
namespace {

/// Why a file cannot be written, so that it is said before the work rather than after; empty where it can.
std::string refusal_to_write(const std::string& file) {
  namespace fs = std::filesystem;
  if (file == "-") return {};
  std::error_code ignored;
  const fs::path path(file), folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, ignored))
    return fmt::format("cannot write {}: there is no folder {}", file, folder.string());
  const bool exists = fs::exists(path, ignored);
  if (exists && fs::is_directory(path, ignored)) return fmt::format("cannot write {}: it is a folder", file);
  // A regular file is replaced, which its folder has to allow.
  const bool replaced = !exists || fs::is_regular_file(path, ignored);
  if (::access((replaced ? folder : path).c_str(), W_OK) != 0)
    return fmt::format("cannot write {}: {}", file, last_system_error());
  return {};
}

}  // namespace

namespace {
bool is_silent = false;
}

bool print_output(const std::string& text) {
  if (text.empty()) return true;
  if (command_host() != nullptr) {
    command_host()->print(text);
    return true;
  }
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return true;
  if (errno == EPIPE) return false;
  reject("cannot write to standard output: {}", last_system_error());
}

void print_error(const std::string& text) {
  if (is_silent) return;
  if (command_host() != nullptr)
    command_host()->warn(text);
  else
    std::fputs(text.c_str(), stderr);
}

std::string shell_word(const std::string& word) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c >= 0x80 || std::strchr("_-./,:=+@%", c);
  };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

void silence_warnings() { is_silent = true; }

void Report::declare(CLI::App& app) {
  app.add_option("--json", file_, "write the result as JSON; - writes it to standard output, without the text")
      ->type_name("FILE")
      ->check(refusal_to_write);
}

bool Report::for_people() const { return file_ != "-" && command_host() == nullptr; }

void Report::write(const std::string& text, const nlohmann::ordered_json& json) const {
  if (command_host() != nullptr) return command_host()->result(text, json);
  if (for_people()) print_output(text);
  if (file_.empty()) return;
  const std::string content = json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (!for_people()) {
    print_output(content);
    return;
  }
  std::error_code ignored;
  if (!std::filesystem::exists(file_, ignored) || std::filesystem::is_regular_file(file_, ignored))
    return write_file_atomically(file_, content);
  std::ofstream stream(file_);  // a pipe or a device cannot be replaced
  if (!(stream << content << std::flush)) reject("cannot write {}", file_);
}

}  // namespace lacuna::apps
