// The display of a run: one live line on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

namespace lacuna::apps {

class Host;

struct ProgressLine {
  std::int64_t epoch = 0, epochs = 0;  // the one under way, counted from 1
  std::int64_t step = 0, steps = 0;    // within the epoch
  double loss = 0;
  std::string metric{};  // as text
  double learning_rate = 0;
  double samples_per_second = 0;
  std::int64_t memory = 0, peak = 0;  // bytes
  double elapsed = 0, remaining = 0;  // seconds
};

struct EvaluationLine {
  std::int64_t epoch = 0, epochs = 0;  // 0: of no run
  std::int64_t samples = 0, of = 0;
  double elapsed = 0;  // seconds of the evaluation
};

/// In at most `width` columns: the least important fields are left out.
std::string to_string(const ProgressLine& line, std::size_t width);
std::string to_string(const EvaluationLine& line, std::size_t width);
/// The share of a run, or of an evaluation, that is done: from 0 to 1.
double share_done(const ProgressLine& line);
double share_done(const EvaluationLine& line);
/// As 1:02:03, or 2:03.
std::string clock_time(double seconds);
/// A metric in words: `accuracy 93.10 %`, `mse 0.1234`.
std::string metric_text(const std::string& name, double value);

class ProgressDisplay {
 public:
  /// `stream` null: shows nothing, or lets the host show it.
  explicit ProgressDisplay(std::FILE* stream);
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  /// Shows the line if the last one is old enough: a tenth of a second on a terminal, ten seconds elsewhere.
  void update(const ProgressLine& line) {
    update([&](std::size_t width) { return to_string(line, width); }, share_done(line));
  }
  /// Nothing of a short evaluation outside of a terminal.
  void update(const EvaluationLine& line) {
    constexpr double is_long = 10;  // seconds
    if (live_ || line.elapsed >= is_long)
      update([&](std::size_t width) { return to_string(line, width); }, share_done(line));
  }
  /// Removes a live line.
  void clear();
  /// A line that stays.
  void print(const std::string& text);

 private:
  void update(const std::function<std::string(std::size_t width)>& text, double done);
  void show(const std::string& text);

  std::FILE* stream_;     // null: none, or nobody reads it any more
  Host* host_;            // null: none, or `stream` is in its place
  bool live_;             // a terminal that can move the cursor: the line is written over
  bool pending_ = false;  // a live line stands there
  std::chrono::steady_clock::time_point shown_{};
};

}  // namespace lacuna::apps
