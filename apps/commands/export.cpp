// lacuna export: a checkpoint, or a folder with a model, as a folder that timm or transformers loads.
#include "apps/command.h"
#include "apps/commands/opened_model.h"
#include "apps/config/paths.h"
#include "apps/output/output.h"
#include "models/folders/folder.h"
#include "models/folders/transformers.h"
#include "models/io/adapter_folder.h"
#include "nn/weight_formats.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

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
    app.add_option(
           "--format", format_,
           "whose convention; by default timm's, of a model of text transformers'; own: Lacuna's names, which are "
           "torchvision's for fcn, deeplabv3 and detectors")
        ->type_name("timm|transformers|own")
        ->check(CLI::IsMember({"timm", "transformers", "own"}));
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
    const fs::path out = expand_home(out_);
    if (adapter_alone_ && dtype_ != "f32") reject("--dtype: an adapter alone is written in f32");
    if (adapter_alone_) return export_adapter(opened, out);
    const nlohmann::ordered_json made = write_model(opened, out, format_, dtype_);
    const auto text = [&](const char* key) { return made[key].get<std::string>(); };
    for (const nlohmann::ordered_json& note : made["notes"])
      print_error(fmt::format("lacuna: note: {}\n", note.get<std::string>()));
    const nlohmann::ordered_json& stops = made["stop_ids"];
    report_.write(
        fmt::format("{} from {}: {} parameters, {} classes, as a folder{} in {}: {}\n{}", text("model"),
                    text("weights"), made["parameters"].get<std::int64_t>(), made["classes"].get<std::int64_t>(),
                    text("format") == "own" ? "" : " of " + text("format"), text("folder"),
                    fmt::join(made["files"].get<std::vector<std::string>>(), ", "),
                    stops.is_null() ? "" : fmt::format("generation stops at the ids {}\n", stops.dump())),
        made);
    return 0;
  }

 private:
  /// Without --format it is that of the folder of the base, if there is one.
  ExitCode export_adapter(const OpenedModel& opened, const fs::path& out) const {
    const ModelFolder description = description_to_write(opened, "f32");
    if (!opened.model->adaptation()) reject("--adapter: {} was trained without an adapter", from_);
    std::string format = format_.empty() ? usual_format(opened) : format_;
    const std::string& base = opened.model->adaptation()->base;
    const std::optional<ModelFolder> of_base = base.empty() ? std::nullopt : read_model_folder(base);
    if (format_.empty() && of_base) format = of_base->library == Library::timm ? "timm" : "transformers";
    // The base describes the backbone alone, so this folder describes the whole model.
    const bool of_backbone =
        of_base && describe_model(of_base->model, {}).family != describe_model(opened.folder.model, {}).family;
    if (of_backbone && !format_.empty() && format_ != "own")
      reject("--format: the adapter's base {} is the backbone alone; its folder is under our names, --format own",
             base);
    if (of_backbone) format = "own";
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
      write_texts(folder, of_backbone ? files_beside_weights(*opened.model, description) : description.tokenizer);
      write_adapter(folder, *opened.model, names, peft_task_of(head == nullptr ? opened.folder.problem : head->text));
    });
    const std::vector<std::string>& layers = opened.model->adaptation()->layers;
    report_.write(
        fmt::format("the adapter of {} from {}: {} layers, as a folder of PEFT{} in {}\n", opened.folder.model,
                    opened.weights.string(), layers.size(), format == "own" ? "" : " for " + format, out.string()),
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
