// lacuna keys: the keys of a configuration, with those that a loaded plugin brings.
#include "apps/command.h"
#include "apps/config/schema.h"
#include "apps/output/output.h"
#include "core/registry.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

namespace lacuna::apps {
namespace {

class Keys {
 public:
  explicit Keys(CLI::App& app) {
    app.add_option("section", section_, "a section, as train, or a key, as train.epochs; all where none is given")
        ->type_name("SECTION | KEY");
    app.add_flag("--markdown", markdown_, "print docs/configuration.md");
    report_.declare(app);
  }

  ExitCode operator()() const {
    const std::string section = section_.substr(0, section_.find('.'));
    const bool is_short = !section_.empty() && find_section(section) == nullptr;  // a key without its section
    Names keys;
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    std::string text;
    for (const KeyHelp& key : key_help()) {
      keys.push_back(key.name.substr(key.name.rfind('.') + 1));
      if (is_short ? keys.back() != section_
                   : !section_.empty() && key.name != section_ && !key.name.starts_with(section_ + "."))
        continue;
      text += fmt::format("{:<32} {}{}\n    {}\n", key.name, key.type,
                          key.initial.empty() ? "" : "; default " + key.initial, key.help);
      json.push_back({{"key", key.name}, {"type", key.type}, {"default", key.initial}, {"help", key.help}});
    }
    if (json.empty() && is_short) {
      const Names names = section_names();
      keys.insert(keys.end(), names.begin(), names.end());
      const std::string near = nearest_name(section_, keys);
      reject("unknown section or key \"{}\"{}", section_, near.empty() ? "" : ", did you mean \"" + near + "\"?");
    }
    if (json.empty()) reject("unknown key {}; `lacuna keys {}` lists those of the section", section_, section);
    report_.write(markdown_ ? keys_as_markdown() : text, json);
    return 0;
  }

 private:
  std::string section_;
  bool markdown_ = false;
  Report report_;
};

const RegisterCommand keys_command(85, "keys", "list the keys of a configuration, with types, ranges and defaults",
                                   declare<Keys>);

}  // namespace
}  // namespace lacuna::apps
