#include "apps/train/progress.h"

#include "apps/output/host.h"
#include "core/launch.h"
#include "core/ledger.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna::apps {
namespace {

constexpr const char* clear_line = "\r\x1b[K";
constexpr std::size_t usual_columns = 79;

}  // namespace

std::string clock_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::max(seconds, 0.0));
  const std::int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string metric_text(const std::string& name, double value) {
  const bool is_share = name.ends_with("accuracy");
  return is_share ? fmt::format("{} {:.2f} %", name, 100 * value) : fmt::format("{} {:.4f}", name, value);
}

double share_done(const ProgressLine& line) {
  const double in_epoch = static_cast<double>(line.step) / static_cast<double>(line.steps);
  return (static_cast<double>(line.epoch - 1) + in_epoch) / static_cast<double>(line.epochs);
}

double share_done(const EvaluationLine& line) {
  return line.of > 0 ? static_cast<double>(line.samples) / static_cast<double>(line.of) : 0;
}

namespace {

struct LinePart {
  std::string text;
  int rank;  // the highest is left out first
};

std::string joined(std::vector<LinePart> parts, std::size_t width) {
  const auto all = [&] {
    std::string text;
    for (const LinePart& part : parts) text += (text.empty() ? "" : "  ") + part.text;
    return text;
  };
  std::string text = all();
  while (text.size() > width && parts.size() > 1) {
    parts.erase(std::ranges::max_element(parts, {}, &LinePart::rank));
    text = all();
  }
  return text.substr(0, width);
}

}  // namespace

std::string to_string(const ProgressLine& line, std::size_t width) {
  std::vector<LinePart> parts{
      {fmt::format("epoch {}/{}", line.epoch, line.epochs), 1},
      {fmt::format("step {:>{}}/{}", line.step, std::to_string(line.steps).size(), line.steps), 0},
      {fmt::format("loss {:.4f}", line.loss), 2},
      {fmt::format("lr {:.3e}", line.learning_rate), 8},
      {fmt::format("{:.1f} samples/s", line.samples_per_second), 6},
      {fmt::format("memory {}", format_bytes(line.memory)), 9},
      {fmt::format("peak {}", format_bytes(line.peak)), 5},
      {fmt::format("{} elapsed", clock_time(line.elapsed)), 7},
      {fmt::format("{} left", clock_time(line.remaining)), 4},
  };
  if (!line.metric.empty()) parts.insert(parts.begin() + 3, {line.metric, 3});
  return joined(std::move(parts), width);
}

std::string to_string(const EvaluationLine& line, std::size_t width) {
  std::vector<LinePart> parts;
  if (line.epochs > 0) parts.push_back({fmt::format("epoch {}/{}", line.epoch, line.epochs), 2});
  parts.push_back({fmt::format("evaluating {}/{}", line.samples, line.of), 0});
  if (line.samples > 0 && line.elapsed > 0) {
    const double rate = static_cast<double>(line.samples) / line.elapsed;
    parts.push_back({fmt::format("{:.1f} samples/s", rate), 3});
    parts.push_back({fmt::format("{} left", clock_time(static_cast<double>(line.of - line.samples) / rate)), 1});
  }
  return joined(std::move(parts), width);
}

namespace {

/// Whether escapes move the cursor of what `stream` writes to. A launcher gives its ranks terminals of their own, whose
/// output it may write to a file.
bool is_live(std::FILE* stream) {
  if (stream == nullptr || ::isatty(::fileno(stream)) != 1 || read_launch().ranks > 1) return false;
  const char* const kind = std::getenv("TERM");
  return kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb";
}

/// Columns of the terminal without the last one: some terminals wrap when it is filled.
std::size_t columns(std::FILE* stream) {
  winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 1) return size.ws_col - 1U;
  return usual_columns;
}

}  // namespace

ProgressDisplay::ProgressDisplay(std::FILE* stream)
    : stream_(stream),
      host_(stream == nullptr ? command_host() : nullptr),
      live_(host_ != nullptr || is_live(stream)) {}

ProgressDisplay::~ProgressDisplay() {
  if (pending_) show("\n");
}

void ProgressDisplay::update(const std::function<std::string(std::size_t width)>& text, double done) {
  if (stream_ == nullptr && host_ == nullptr) return;
  using namespace std::chrono_literals;
  const auto now = std::chrono::steady_clock::now();
  if (now - shown_ < (live_ ? std::chrono::milliseconds(100) : 10s)) return;
  shown_ = now;
  if (host_ != nullptr) return host_->show(text(usual_columns), done);
  if (!live_) return print(text(std::string::npos));
  show(clear_line + text(columns(stream_)));
  pending_ = true;
}

void ProgressDisplay::clear() {
  if (host_ != nullptr) host_->show("", 1);
  if (pending_) show(clear_line);
  pending_ = false;
}

void ProgressDisplay::print(const std::string& text) {
  if (host_ != nullptr) return host_->print(text + "\n");
  if (stream_ == nullptr) return;
  show((pending_ ? clear_line : "") + text + "\n");
  pending_ = false;
}

void ProgressDisplay::show(const std::string& text) {
  if (stream_ == nullptr) return;
  // A terminal that went away ends what is shown, not the run.
  if (std::fwrite(text.data(), 1, text.size(), stream_) != text.size() || std::fflush(stream_) != 0) stream_ = nullptr;
}

}  // namespace lacuna::apps
