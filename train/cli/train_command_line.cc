#include "train/cli/train_command_line.h"

#include <fmt/format.h>

#include "core/command_line/parse/answer_once.h"
#include "core/command_line/parse/command_line.h"
#include "data/cli/image_options.h"
#include "train/networks/names.h"
#include "train/trainer/exported_file.h"

namespace xoe {
namespace {

using tools::add_choice;
using tools::add_number_or;

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

void add_data_options(CLI::App& app, train::TrainOptions& options, bool& synthetic) {
  app.option_defaults()->group("Data");
  auto* data =
      app.add_option("--data", options.data_dir, "images: TFRecord files, archives, a folder for each class, MNIST");
  data->type_name("DIR");
  app.add_flag("--synthetic", synthetic, "one random batch, made once")->excludes(data);
  app.add_option("--classes", options.classes, "number of classes (default: as the data has; 1000 synthetic)")
      ->check(CLI::PositiveNumber);
  tools::add_label_options(app, options);
  tools::add_setting(app, "--batch", options.batch, "images per rank and pass");
  tools::add_image_size(app, options.image_size);
  tools::add_pixel_options(app, options.pixels);
  add_number_or(app, "--data-threads", options.data_threads, "auto", -1,
                "that decode, per rank: a number, 0 for none of their own, or auto: as many as training needs");
  add_number_or(app, "--shuffle-buffer", options.shuffle_buffer, "auto", -1,
                "records to draw the next one from: a number, or auto: all, where each can be read by itself");
  tools::add_missing_option(app, options.allow_missing);
  tools::add_max_bad_option(app, options.max_bad, "bad images to leave out per rank and epoch; one more is an error");
}

void add_recipe_options(CLI::App& app, train::TrainOptions& options) {
  using train::OptimizerKind;
  using train::Precision;
  app.option_defaults()->group("Training");
  add_choice(app, "--model", options.model, {models::kNames.begin(), models::kNames.end()}, "the network");
  app.add_option("--weights", options.weights,
                 "begin with these: a state dict of PyTorch (.pt), or safetensors; as export writes them")
      ->type_name("FILE");
  app.add_flag("--new-head", options.new_head,
               "but for the last layer, which is initialised: to fine-tune for other classes");
  auto* epochs = app.add_option("--epochs", options.epochs, "how often to go through the data (default 10)");
  epochs->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps, "how many steps instead (default 100 synthetic)")
      ->check(CLI::PositiveNumber)
      ->excludes(epochs);
  app.add_option("--lr", options.lr,
                 "peak learning rate for --lr-batch images (default: sgd 0.1, lars 0.3, adamw and lamb 0.001)")
      ->check(CLI::PositiveNumber);
  tools::add_setting(app, "--lr-batch", options.lr_batch,
                     "the rate grows with images per step over this; 0: it does not");
  tools::add_setting(app, "--lr-warmup", options.lr_warmup_epochs, "epochs in which the rate rises");
  add_choice<OptimizerKind>(app, "--optimizer", options.optimizer,
                            {{"sgd", OptimizerKind::kSgd},
                             {"adamw", OptimizerKind::kAdamW},
                             {"lars", OptimizerKind::kLars},
                             {"lamb", OptimizerKind::kLamb}},
                            "the last two are for large batches");
  tools::add_setting(app, "--momentum", options.momentum, "of sgd and lars");
  app.add_option("--weight-decay", options.weight_decay, "(default: sgd and lars 5e-5, adamw 0.05, lamb 0.02)");
  tools::add_setting(app, "--label-smoothing", options.label_smoothing, "0 to 1");
  tools::add_setting(app, "--clip-norm", options.clip_norm,
                     "largest 2-norm of a step's gradients, all together; 0: any");
  tools::add_setting(app, "--ema", options.ema,
                     "decay of an exponential moving average of the weights, for evaluation and export; 0: none");
  tools::add_setting(app, "--accumulate", options.accumulate, "passes per step");
  app.add_flag("--sync-batchnorm", options.sync_batchnorm, "statistics of batch norm over the images of all ranks");
  tools::add_setting(app, "--seed", options.seed, "of weights, order and distortions")->check(CLI::NonNegativeNumber);
  add_choice<Precision>(app, "--precision", options.precision,
                        {{"fp32", Precision::kFp32}, {"bf16", Precision::kBf16}, {"fp16", Precision::kFp16}},
                        "bf16, fp16: autocast; fp16 scales the loss");
}

void add_output_options(CLI::App& app, TrainCommandLine& line) {
  train::TrainOptions& options = line.options;
  app.option_defaults()->group("Output");
  tools::add_setting(app, "--eval-every", options.eval_every, "epochs between evaluations; 0: at the end");
  tools::add_setting(app, "--report-every", options.report_every, "steps between reports");
  tools::add_setting(app, "--warmup-steps", options.warmup_steps, "first steps that no speed is measured of");
  app.add_option("--checkpoint", options.checkpoint_dir, "folder for checkpoints")->type_name("DIR");
  tools::add_setting(app, "--checkpoint-every", options.checkpoint_every, "steps; 0: at the end and when interrupted");
  tools::add_setting(app, "--checkpoint-keep", options.checkpoint_keep, "newest ones to keep");
  app.add_flag("--resume", options.resume, "go on from the newest checkpoint, if there is one");
  app.add_flag("--next-epoch", options.next_epoch, "with --resume: begin the next epoch, with files that have changed");
  app.add_option("--run-dir", options.run_dir, "new folder for metrics.jsonl, TensorBoard's files and curve.svg")
      ->type_name("DIR");
  app.add_option("--tensorboard", options.tensorboard, "folder for TensorBoard's event files alone")->type_name("DIR");
  app.add_option("--mllog", options.mllog, "MLPerf's log: lines `:::MLLOG {...}`")->type_name("FILE");
  app.add_option("--timeline", options.timeline, "trace of all ranks for Perfetto")->type_name("FILE");
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

void add_machine_options(CLI::App& app, train::TrainOptions& options) {
  using train::DeviceKind;
  app.option_defaults()->group("Machine");
  add_choice<DeviceKind>(app, "--device", options.device,
                         {{"auto", DeviceKind::kAuto}, {"cpu", DeviceKind::kCpu}, {"cuda", DeviceKind::kCuda}},
                         "auto: CUDA where libtorch sees a device");
  app.add_option("--threads", options.threads, "of libtorch per rank (default: cores / ranks of this host)")
      ->check(CLI::PositiveNumber);
  app.add_flag("--checkpoint-activations", options.checkpoint_activations,
               "blocks of the network are computed again in backward: less memory, more time");
  app.add_flag("--sharded", options.sharded, "ranks share parameters, each updates its part for all");
  tools::add_setting(app, "--bucket-mb", options.bucket_mib, "MiB of gradients reduced at once");
}

tl::expected<TrainCommandLine, int> parse_train_command_line(int argc, char** argv) {
  CLI::App app("Trains an image classifier, alone or under `xoe run -np N`.", "xoe train");
  app.footer(kExamples);
  TrainCommandLine line;
  bool synthetic = false;
  add_data_options(app, line.options, synthetic);
  add_recipe_options(app, line.options);
  add_machine_options(app, line.options);
  add_output_options(app, line);
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
