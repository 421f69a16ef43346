// lacuna export: a checkpoint, or a folder with a model, as a folder that timm or transformers loads.
#include "apps/command.h"
#include "apps/config/configuration.h"
#include "apps/config/model_folder.h"
#include "apps/config/paths.h"
#include "apps/config/resolve.h"
#include "apps/output/output.h"
#include "apps/train/run_folder.h"
#include "apps/train/training.h"
#include "data/text/tokenizer.h"
#include "models/folders/folder.h"
#include "models/folders/timm.h"
#include "models/folders/transformers.h"
#include "models/io/adapter_folder.h"

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
    app.add_flag("--adapter", adapter_alone_,
                 "write the adapter of a run alone, as a folder of PEFT, in place of a model that it is merged into");
    report_.declare(app);
  }

  ExitCode operator()() const {
    require_existing(from_);
    Source source = find();
    if (source.folder.tokenizer.empty() && !source.folder.config.empty())
      source.folder.tokenizer = tokenizer_texts(source.folder.config.parent_path());
    const fs::path out = expand_home(out_);
    const std::string family = describe_model(source.folder.model, source.folder.hyper_parameters).family;
    const std::string usual = timm_forms().contains(family) ? "timm" : "transformers";
    if (adapter_alone_) return export_adapter(source, out, usual);
    const std::string format = format_.empty() ? usual : format_;
    const Library library = format == "timm" ? Library::timm : Library::transformers;
    const std::unique_ptr<Model> model =
        build_model(source.folder.model, source.folder.hyper_parameters, {.training = false});
    if (source.adapted) {
      merge(*source.adapted, *model);
    } else {
      const FolderWeights weights = open_weights(source.path, source.folder);
      load_weights(*model, weights.files, weights.options);
    }
    write_model_folder(out, *model, source.folder, library);
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(out)) files.push_back(entry.path().filename().string());
    std::ranges::sort(files);
    report_.write(fmt::format("{} from {}: {} parameters, {} classes, as a folder of {} in {}: {}\n",
                              source.folder.model, source.path.string(), model->parameter_count(), model->num_classes(),
                              format, out.string(), fmt::join(files, ", ")),
                  {{"model", source.folder.model},
                   {"weights", source.path.string()},
                   {"format", format},
                   {"parameters", model->parameter_count()},
                   {"classes", model->num_classes()},
                   {"folder", out.string()},
                   {"files", files}});
    return 0;
  }

 private:
  struct Source {
    fs::path path;
    ModelFolder folder;
    std::unique_ptr<Model> adapted{};  // whose adapters are merged into its weights
  };

  /// `usual`: the format where neither --format nor the folder of the base tells one.
  ExitCode export_adapter(const Source& source, const fs::path& out, const std::string& usual) const {
    if (source.adapted == nullptr) reject("--adapter: {} was trained without an adapter", from_);
    std::string format = format_.empty() ? usual : format_;
    if (const std::string& base = source.adapted->adaptation()->base; format_.empty() && !base.empty())
      if (const auto folder = read_model_folder(base))
        format = folder->library == Library::timm ? "timm" : "transformers";
    const TensorNames* names = nullptr;
    if (format == "transformers") names = transformers_files(*source.adapted, source.folder).names;
    if (names != nullptr && names->body.empty()) names = nullptr;  // they are ours
    // Of the values below the adapter those are written that came with it.
    for (Parameter* const parameter : source.adapted->parameters()) parameter->set_trainable(false);
    write_new_folder(out, [&](const fs::path& folder) { write_adapter(folder, *source.adapted, names); });
    const std::vector<std::string>& layers = source.adapted->adaptation()->layers;
    report_.write(fmt::format("the adapter of {} from {}: {} layers, as a folder of PEFT for {} in {}\n",
                              source.folder.model, source.path.string(), layers.size(), format, out.string()),
                  {{"model", source.folder.model},
                   {"weights", source.path.string()},
                   {"format", format},
                   {"layers", layers},
                   {"folder", out.string()}});
    return 0;
  }

  Source find() const {
    const CheckpointPath point = checkpoint_path(from_);
    std::error_code ignored;
    const bool of_run = fs::is_regular_file(point.run / "config.yaml", ignored);
    fs::path path = expand_home(from_);
    if (of_run) {
      const RunFolder run = RunFolder::open(point.run);
      const fs::path checkpoint = point.checkpoint.empty() ? run.best() : run.checkpoint(point.checkpoint);
      read_progress(checkpoint);  // refuses one whose files have changed
      if (is_adapter_folder(checkpoint)) {
        if (const auto folder = read_model_folder(checkpoint))
          return {checkpoint, *folder, make_adapted_model(checkpoint, *folder, DType::f32)};
        Configuration configuration = resolve(read_configuration(run.configuration(), {}));
        take_weights_of(checkpoint, configuration);
        return {checkpoint, describe_folder(configuration), make_model(configuration, Device::cpu, false).model};
      }
      path = weights_path(checkpoint, "RUN");
    }
    if (auto folder = read_model_folder(path)) return {path, std::move(*folder)};
    if (!of_run)
      reject("{}: expected a run, one of its checkpoints, or a folder with a config.json that says what the model is",
             from_);
    // An earlier version wrote no config.json into checkpoints.
    const Configuration configuration = resolve(read_configuration(RunFolder::open(point.run).configuration(), {}));
    return {path, describe_folder(configuration)};
  }

  std::string from_, out_, format_;
  bool adapter_alone_ = false;
  Report report_;
};

const RegisterCommand exporting(25, "export", "write a model as a folder that timm or transformers loads",
                                declare<Export>);

}  // namespace
}  // namespace lacuna::apps
