#include "apps/train/progress.h"

#include "core/ledger.h"

#include <fmt/core.h>
#include <unistd.h>

#include <string>

namespace lacuna::apps {
namespace {

constexpr const char* clear_line = "\r\x1b[K";

}  // namespace

std::string to_string(const ProgressLine& line) {
  return fmt::format(
      "epoch {}/{}  step {:>{}}/{}  loss {:.4f}  {}  lr {:.3e}  {:.1f} samples/s  memory {} "
      "(peak {})",
      line.epoch, line.epochs, line.step, std::to_string(line.steps).size(), line.steps, line.loss, line.metric,
      line.learning_rate, line.samples_per_second, format_bytes(line.memory), format_bytes(line.peak));
}

std::string metric_text(const std::string& name, double value) {
  const bool is_share = name.ends_with("accuracy");
  return is_share ? fmt::format("{} {:.2f} %", name, 100 * value) : fmt::format("{} {:.4f}", name, value);
}

ProgressDisplay::ProgressDisplay(std::FILE* stream)
    : stream_(stream), live_(stream != nullptr && ::isatty(::fileno(stream)) == 1) {}

ProgressDisplay::~ProgressDisplay() {
  if (pending_) show("\n");
}

void ProgressDisplay::update(const ProgressLine& line) {
  if (stream_ == nullptr) return;
  using namespace std::chrono_literals;
  const auto now = std::chrono::steady_clock::now();
  if (now - shown_ < (live_ ? std::chrono::milliseconds(100) : 10s)) return;
  shown_ = now;
  if (!live_) return print(to_string(line));
  show(clear_line + to_string(line));
  pending_ = true;
}

void ProgressDisplay::print(const std::string& text) {
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
