#include "train/cli/train_command_line.h"

#include <fmt/format.h>

#include "core/command_line/parse/answer_once.h"
#include "core/command_line/parse/field_options.h"
#include "data/cli/image_options.h"
#include "train/networks/names.h"
#include "train/trainer/complete_options.h"
#include "train/trainer/exported_file.h"
#include "train/trainer/option_fields.h"

namespace xoe {
namespace {

constexpr const char* kExamples = R"(
Examples:
  xoe train --synthetic --model resnet50 --batch 4 --steps 50
  xoe data make --images 3000 --validation 600 --classes 10 demo-data
  xoe train --data demo-data --model resnet18 --epochs 10 --run-dir runs/a
  xoe run -np 2 xoe train --data demo-data --timeline runs/b/timeline.json
  xoe run -np 2 xoe train --data demo-data --checkpoint runs/c --resume
  xoe train export runs/c model.pt

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted (SIGINT, SIGTERM:
the step was finished and a checkpoint written; a second signal, a quarter of a
second later or more, ends at once).)";

// Groups of the help: most options come from the table, beside them stand those that set no field.
void add_options(CLI::App& app, TrainCommandLine& line, bool& synthetic) {
  train::TrainOptions& options = line.options;
  const auto add_group = [&](std::string_view group) {
    app.option_defaults()->group(std::string(group));
    tools::add_field_options(app, options, group);
  };
  add_group(train::kDataOptions);
  app.add_flag("--synthetic", synthetic, "one random batch, made once")->excludes("--data");
  tools::add_max_bad_option(app, options.max_bad,
                            std::string(describe::line_of<&train::TrainOptions::max_bad>().rules.what));
  app.option_defaults()->group(std::string(train::kTrainingOptions));
  add_model_option(app, options.model);
  add_group(train::kTrainingOptions);
  app.get_option("--steps")->excludes("--epochs");
  add_group(train::kMachineOptions);
  add_group(train::kOutputOptions);
  app.add_flag("--json", line.json, "print JSON lines");
  app.add_option("--summary", line.summary, "end with `NAME: accuracy=... images_per_s=...`")->type_name("NAME");
}

constexpr const char* kExportExamples = R"(
Examples:
  xoe train export runs/c model.pt             for torch.load()
  xoe train export runs/c model.safetensors    for safetensors.torch.load_file()
  xoe train export runs/c/step-00000120.ckpt model.pt

Parameters have the names that torchvision has for them, and timm for vision
transformers.)";

void add_export(CLI::App& app, ExportCommandLine& line) {
  auto* verb = app.add_subcommand("export", "write the weights of a run for PyTorch: a state dict, or safetensors");
  verb->footer(kExportExamples);
  verb->add_option("RUN", line.run,
                   "a folder with checkpoints, of which the newest counts, or one checkpoint; or a "
                   "run's folder, if the run wrote checkpoints")
      ->required();
  verb->add_option("FILE", line.file, "the new file: NAME.pt (or .pth), or NAME.safetensors")->required();
}

int usage_error(std::string_view message) { return tools::usage_error("xoe train", message); }

// `app` has understood a command line with the verb `export`.
tl::expected<TrainCommandLine, int> only_export(const CLI::App& app, ExportCommandLine line) {
  for (const CLI::Option* option : app.get_options())
    if (option->count() > 0)
      return tl::unexpected(usage_error(
          fmt::format("{} is an option of training; xoe train export takes none of them", option->get_name())));
  if (auto known = train::check_export_name(line.file); !known)
    return tl::unexpected(usage_error(fmt::format("export {}: {}", line.file, known.error().message())));
  return TrainCommandLine{.exported = std::move(line)};
}

}  // namespace

void add_model_option(CLI::App& app, std::string& model) {
  tools::add_choice(app, "--model", model, {models::kNames.begin(), models::kNames.end()}, "the network");
}

tl::expected<TrainCommandLine, int> parse_train_command_line(int argc, char** argv) {
  CLI::App app("Trains an image classifier, alone or under `xoe run -np N`.", "xoe train");
  app.footer(kExamples);
  TrainCommandLine line;
  bool synthetic = false;
  add_options(app, line, synthetic);
  ExportCommandLine exported;
  add_export(app, exported);
  if (const auto answer = tools::understand(app, argc, argv)) return tl::unexpected(tools::answer_once(*answer));
  if (app.got_subcommand("export")) return only_export(app, std::move(exported));
  if (!synthetic && line.options.data_dir.empty())
    return tl::unexpected(usage_error("say what to train on: --data DIR or --synthetic; see xoe train --help"));
  auto complete = train::complete_options(std::move(line.options));
  if (!complete) return tl::unexpected(usage_error(complete.error().message()));
  line.options = std::move(*complete);
  return line;
}

}  // namespace xoe
