#include "python/commands.h"

#include "apps/command.h"
#include "apps/config/yaml.h"
#include "apps/output/host.h"
#include "core/tree.h"
#include "python/gil.h"
#include "python/given.h"
#include "python/json.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace lacuna::python {
namespace {

namespace nb = nanobind;

/// Hands to a Python object what a command says. What its methods raise ends the command as a signal does, with
/// everything saved, and is raised at the end.
class PythonHost : public apps::Host {
 public:
  PythonHost(nb::handle listener, std::filesystem::path command)
      : listener_(listener),
        command_(std::move(command)),
        takes_metrics_(nb::cast<bool>(listener.attr("takes_metrics"))) {}

  void print(const std::string& text) override { tell("print", text); }
  void warn(const std::string& text) override { tell("warn", text); }
  void show(const std::string& line, double done) override { tell("show", line, done); }
  void begin(const std::filesystem::path& run) override { tell("begin", run.string()); }
  void metrics(const nlohmann::ordered_json& line) override {
    if (takes_metrics_) within([&] { listener_.attr("metrics")(to_python(line)); });
  }
  void result(const std::string& text, const nlohmann::ordered_json& json) override {
    text_ = text;
    json_ = json;
  }
  std::filesystem::path command() const override { return command_; }
  /// Looks for signals now and then: while other threads run Python, the lock takes milliseconds.
  bool wants_to_stop() override {
    constexpr auto interval = std::chrono::milliseconds(50);
    if (const auto now = Clock::now(); !raised_ && now - looked_ >= interval) {
      looked_ = now;
      within([] {
        if (PyErr_CheckSignals() != 0) nb::raise_python_error();
      });
    }
    return raised_.has_value();
  }

  /// The value of the command and its text.
  nb::object value() const { return nb::make_tuple(to_python(json_), text_); }
  void raise_if_any() {
    if (raised_) throw nb::python_error(std::move(*raised_));
  }

 private:
  using Clock = std::chrono::steady_clock;

  template <class... Args>
  void tell(const char* method, const Args&... args) {
    within([&] { listener_.attr(method)(args...); });
  }
  /// Only the first thing that is raised is kept: it stops the command.
  void within(auto&& call) {
    const PythonScope scope;
    try {
      call();
    } catch (nb::python_error& error) {
      if (!raised_) raised_.emplace(std::move(error));
    }
  }

  nb::handle listener_;
  std::filesystem::path command_;
  bool takes_metrics_;
  Clock::time_point looked_{};
  std::string text_;
  nlohmann::ordered_json json_;
  std::optional<nb::python_error> raised_;
};

/// Runs a command in the turn of this thread. A callback may call another.
nb::object run(const std::vector<std::string>& words, nb::handle listener, const std::string& command, nb::object data,
               nb::object validation, nb::object loss) {
  const auto lock = turn();
  if (!lock.owns_lock())
    reject("expected arrays of a sample, got a call of `{}` while a command reads the sample", words.front());
  PythonHost host(listener, command);
  const GivenScope given({std::move(data), std::move(validation), std::move(loss)});
  try {
    const CppScope scope;
    apps::run_command(words, host);
  } catch (...) {
    host.raise_if_any();
    throw;
  }
  host.raise_if_any();
  return host.value();
}

/// The sections of a configuration as words of the command line.
std::vector<std::string> words_of_yaml(const std::string& text) {
  Problems problems;
  const Tree tree = apps::parse_yaml(text, {"config", 1, 1}, problems);
  problems.refuse_if_any();
  std::vector<std::string> words;
  for (const TreeEntry& entry : tree.entries) words.push_back(entry.key + "=" + to_yaml(entry.value));
  return words;
}

}  // namespace

std::unique_lock<std::recursive_timed_mutex> turn() {
  static std::recursive_timed_mutex one_at_a_time;
  std::unique_lock lock(one_at_a_time, std::try_to_lock);
  while (!lock.owns_lock() && !PythonScope::is_open()) {
    {
      const nb::gil_scoped_release released;
      if (lock.try_lock_for(std::chrono::milliseconds(100))) break;
    }
    if (PyErr_CheckSignals() != 0) nb::raise_python_error();
  }
  return lock;
}

void bind_commands(nb::module_& module) {
  module.def("run", run, nb::arg("words"), nb::arg("listener"), nb::arg("command"), nb::arg("data") = nb::none(),
             nb::arg("validation") = nb::none(), nb::arg("loss") = nb::none(),
             nb::sig("def run(words: collections.abc.Sequence[str], listener: typing.Any, command: str, "
                     "data: typing.Any = None, validation: typing.Any = None, loss: typing.Any = None) "
                     "-> tuple[typing.Any, str]"),
             "Runs a command; returns what --json gives, and its text.");
  module.def("words_of_yaml", words_of_yaml, nb::arg("text"), "The sections of a configuration as key=value.");
}

}  // namespace lacuna::python
