// lacuna export: a checkpoint, or a folder with a model, as a folder that timm or transformers loads.
#include "apps/command.h"
#include "apps/commands/opened_model.h"
#include "apps/config/paths.h"
#include "apps/output/output.h"
#include "data/text/tokenizer.h"
#include "models/folders/folder.h"
#include "models/folders/timm.h"
#include "models/folders/transformers.h"
#include "models/io/adapter_folder.h"
#include "nn/weight_formats.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;

class Export {
 public:
  explicit Export(CLI::App& app) {
    app.add_option("model", from_,
                   "a run, whose best checkpoint is meant, one of its checkpoints (RUN/last), or a folder with a model")
        ->type_name("RUN | RUN/last | FOLDER")
        ->required();
    app.add_option("out", out_, "folder to write, which must not exist")->type_name("OUT")->required();
    app.add_option("--format", format_, "whose convention; by default timm's, of a model of text transformers'")
        ->type_name("timm|transformers")
        ->check(CLI::IsMember({"timm", "transformers"}));
    app.add_option("--base", base_, "folder or file with the base of an adapter, where that has moved")
        ->type_name("FOLDER");
    app.add_flag("--adapter", adapter_alone_,
                 "write the adapter of a run alone, as a folder of PEFT, in place of a model that it is merged into");
    app.add_option("--dtype", dtype_, "type of the weights that are written; those of an adapter alone stay f32")
        ->type_name("f32|bf16|f16")
        ->check(CLI::IsMember({"f32", "bf16", "f16"}));
    report_.declare(app);
  }

  ExitCode operator()() const {
    OpenedModel opened = open_model(from_, Device::cpu, base_);
    ModelFolder& folder = opened.folder;
    if (!opened.texts.empty()) {
      auto texts = tokenizer_texts(opened.texts);
      texts.merge(folder.tokenizer);
      folder.tokenizer = std::move(texts);
    }
    const fs::path out = expand_home(out_);
    if (adapter_alone_ && dtype_ != "f32") reject("--dtype: an adapter alone is written in f32");
    folder.stored = dtype_ == "bf16" ? DType::bf16 : dtype_ == "f16" ? DType::f16 : DType::f32;
    const std::string family = describe_model(folder.model, folder.hyper_parameters).family;
    const std::string usual = timm_forms().contains(family) ? "timm" : "transformers";
    if (adapter_alone_) return export_adapter(opened, out, usual);
    const std::string format = format_.empty() ? usual : format_;
    const Library library = format == "timm" ? Library::timm : Library::transformers;
    if (opened.model->adaptation()) {
      std::unique_ptr<Model> merged = build_model(folder.model, folder.hyper_parameters, {.training = false});
      merge(*opened.model, *merged);
      opened.model = std::move(merged);
    }
    const Model& model = *opened.model;
    write_model_folder(out, model, folder, library);
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(out)) files.push_back(entry.path().filename().string());
    std::ranges::sort(files);
    const nlohmann::ordered_json stops = stop_ids(folder);
    report_.write(fmt::format("{} from {}: {} parameters, {} classes, as a folder of {} in {}: {}\n{}", folder.model,
                              opened.weights.string(), model.parameter_count(), model.num_classes(), format,
                              out.string(), fmt::join(files, ", "),
                              stops.is_null() ? "" : fmt::format("generation stops at the ids {}\n", stops.dump())),
                  {{"model", folder.model},
                   {"weights", opened.weights.string()},
                   {"format", format},
                   {"dtype", dtype_},
                   {"parameters", model.parameter_count()},
                   {"classes", model.num_classes()},
                   {"folder", out.string()},
                   {"stop_ids", stops},
                   {"files", files}});
    return 0;
  }

 private:
  /// The ids that end a continuation, as JSON: a number or a list; null: not said.
  static nlohmann::ordered_json stop_ids(const ModelFolder& folder) {
    const auto generation = folder.tokenizer.find("generation_config.json");
    if (generation != folder.tokenizer.end())
      if (const auto json = nlohmann::ordered_json::parse(generation->second, nullptr, false);
          json.is_object() && json.contains("eos_token_id"))
        return json["eos_token_id"];
    const auto token = folder.tokens.find("eos_token_id");
    return token == folder.tokens.end() ? nlohmann::ordered_json() : nlohmann::ordered_json::parse(token->second);
  }

  /// `usual`: the format where neither --format nor the folder of the base tells one.
  ExitCode export_adapter(const OpenedModel& opened, const fs::path& out, const std::string& usual) const {
    if (!opened.model->adaptation()) reject("--adapter: {} was trained without an adapter", from_);
    std::string format = format_.empty() ? usual : format_;
    if (const std::string& base = opened.model->adaptation()->base; format_.empty() && !base.empty())
      if (const auto folder = read_model_folder(base))
        format = folder->library == Library::timm ? "timm" : "transformers";
    const TensorNames* names = nullptr;
    if (format == "transformers") names = transformers_files(*opened.model, opened.folder).names;
    if (names != nullptr && names->body.empty()) names = nullptr;  // they are ours
    const std::vector<Parameter*> all = opened.model->parameters();
    const auto coded = std::ranges::find_if(all, [](const Parameter* one) { return one->tensor().is_coded(); });
    if (coded != all.end())
      print_error(fmt::format(
          "lacuna: note: the adapter was trained on weights in {}, which a folder of PEFT does not say: what loads it "
          "takes the base as it is stored\n",
          type_name((*coded)->tensor())));
    // A value below the adapter is written only if it came with the adapter.
    for (Parameter* const parameter : opened.model->parameters()) parameter->set_trainable(false);
    const auto values = describe_model(opened.folder.model, opened.folder.hyper_parameters).hyper_parameters;
    const Tree* const head = find_value(values, "head");
    write_new_folder(out, [&](const fs::path& folder) {
      write_texts(folder, opened.folder.tokenizer);
      write_adapter(folder, *opened.model, names, peft_task_of(head == nullptr ? opened.folder.problem : head->text));
    });
    const std::vector<std::string>& layers = opened.model->adaptation()->layers;
    report_.write(fmt::format("the adapter of {} from {}: {} layers, as a folder of PEFT for {} in {}\n",
                              opened.folder.model, opened.weights.string(), layers.size(), format, out.string()),
                  {{"model", opened.folder.model},
                   {"weights", opened.weights.string()},
                   {"format", format},
                   {"layers", layers},
                   {"folder", out.string()}});
    return 0;
  }

  std::string from_, base_, out_, format_, dtype_ = "f32";
  bool adapter_alone_ = false;
  Report report_;
};

const RegisterCommand exporting(25, "export", "write a model as a folder that timm or transformers loads",
                                declare<Export>);

}  // namespace
}  // namespace lacuna::apps
