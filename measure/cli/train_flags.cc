#include "measure/cli/train_flags.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/command_line/parse/field_options.h"
#include "measure/cli/tf_cnn_flags.h"
#include "measure/cli/words.h"
#include "train/cli/train_command_line.h"
#include "train/trainer/complete_options.h"
#include "train/trainer/option_fields.h"

namespace xoe::bench {
namespace {

constexpr const char* kExamples = R"(
Examples:
  xoe bench train --model resnet18 --batch-size 8 --num-batches 20
  xoe run -np 2 xoe bench train --model resnet50 --batch_size=4 --image-size 64 --repeat 5 --output a.json
  xoe bench train --data-dir demo-data --model resnet18 --image-size 64
  xoe run -np 8 xoe bench train --model resnet50 --emulate-accelerator 2700

Command lines of tf_cnn_benchmarks are understood: names of flags may have - or _, switches are --NAME, --noNAME or
--NAME=false, and a flag that has no meaning here is named once on stderr. docs/reference/tf-cnn-benchmarks.md has them
all.)";

using train::TrainOptions;

// Where tf_cnn_benchmarks has no name for an option, that of `xoe train` counts.
template <auto kMember>
CLI::Option* add_option(CLI::App& app, TrainFlags& flags, std::string name = {}) {
  return tools::add_field_option<kMember>(app, flags.options, std::move(name));
}

void add_workload(CLI::App& app, TrainFlags& flags) {
  app.option_defaults()->group("Workload");
  add_model_option(app, flags.options.model);
  add_option<&TrainOptions::batch>(app, flags, "--batch-size,--batch");
  app.add_option("--data-dir", flags.options.data_dir, "images as `xoe train --data` takes them (default: synthetic)")
      ->type_name("DIR");
  tools::add_choice(app, "--data-name", flags.data_name, {"imagenet", "cifar10"},
                    "sets image size and classes: 224 and 1000, or 32 and 10");
  add_option<&TrainOptions::image_size>(app, flags)->default_str("as --data-name says");
  add_option<&TrainOptions::classes>(app, flags)->default_str("as --data-name or the data have");
  app.add_flag("--use-fp16", flags.use_fp16, "16-bit autocast, which is bfloat16 unless --precision says fp16");
  add_option<&TrainOptions::precision>(app, flags);
  tools::add_choice(app, "--optimizer", flags.optimizer, {"sgd", "momentum", "adamw", "lars", "lamb"}, "");
  add_option<&TrainOptions::lr>(app, flags, "--init-learning-rate")->description("for 256 images");
  add_option<&TrainOptions::lr_warmup_epochs>(app, flags)->each([&flags](const std::string&) {
    flags.has_warmup = true;
  });
  add_option<&TrainOptions::lr_schedule>(app, flags);
  add_option<&TrainOptions::momentum>(app, flags)->description("of momentum and lars");
  add_option<&TrainOptions::weight_decay>(app, flags);
  add_option<&TrainOptions::clip_value>(app, flags);
  tools::add_choice(app, "--variable-update", flags.variable_update,
                    {"replicated", "horovod", "distributed_all_reduce", "collective_all_reduce", "parameter_server",
                     "distributed_replicated", "independent"},
                    "as tf_cnn_benchmarks calls it: the last is for one rank; all others average gradients over ranks");
  auto* forward = app.add_flag("--forward-only", flags.forward_only, "the forward pass alone, in training mode");
  app.add_flag("--eval", flags.eval, "the forward pass in evaluation mode, on held-out images")->excludes(forward);
  add_option<&TrainOptions::sync_batchnorm>(app, flags);
  add_option<&TrainOptions::accumulate>(app, flags);
  add_option<&TrainOptions::seed>(app, flags);
  add_option<&TrainOptions::emulated_images_per_s>(app, flags);
}

void add_images(CLI::App& app, TrainFlags& flags) {
  app.option_defaults()->group("Images of --data-dir");
  tools::add_field_option<&TrainOptions::pixels, &data::PixelOptions::interpolation>(app, flags.options);
  tools::add_field_option<&TrainOptions::pixels, &data::PixelOptions::antialias>(app, flags.options);
  add_option<&TrainOptions::data_threads>(app, flags);
}

void add_files(CLI::App& app, TrainFlags& flags) {
  app.option_defaults()->group("Files of the run");
  app.add_option("--trace-file", flags.trace_file, "timeline of the run that --traced-batches adds")->type_name("FILE");
  add_option<&TrainOptions::checkpoint_dir>(app, flags, "--train-dir")
      ->description("new folder for checkpoints of the measured run");
  add_option<&TrainOptions::checkpoint_every>(app, flags);
  add_option<&TrainOptions::checkpoint_keep>(app, flags);
  add_option<&TrainOptions::tensorboard>(app, flags);
  add_option<&TrainOptions::report_every>(app, flags)
      ->description("steps between values in TensorBoard's files")
      ->default_str("all steps");
}

void add_measurement(CLI::App& app, TrainFlags& flags) {
  using tools::add_number;
  app.option_defaults()->group("Measurement");
  auto* const batches = add_number(app, "--num-batches", flags.num_batches, 1, kMostBatches, "measured steps of a run");
  app.add_option("--num-epochs", flags.num_epochs,
                 "the same in epochs of the data; of synthetic data: 1,281,167 images, or 50,000 by --data-name; with "
                 "--eval of the held-out images: 50,000 or 10,000")
      ->check(CLI::PositiveNumber)
      ->excludes(batches);
  add_number(app, "--num-warmup-batches", flags.num_warmup_batches, 0, 100'000'000, "steps before them");
  add_number(app, "--repeat", flags.repeat, 1, 10'000, "runs, each with a model and buffers of its own");
  add_number(app, "--traced-batches", flags.traced_batches, 0, 10'000,
             "steps of a further run with a timeline, which tells the hidden communication; 0: none");
  tools::add_setting(app, "--display-every", flags.display_every, "steps between lines")->check(CLI::PositiveNumber);
  app.add_flag("--print-training-accuracy", flags.print_training_accuracy,
               "the share of a step's images whose largest logit is right, as a further column");
}

// Known, so that a misspelt flag of tf_cnn_benchmarks gets the right one as an answer. They are translated before the
// command line is parsed.
void add_translated(CLI::App& app) {
  for (const TfCnnFlag& flag : tf_cnn_flags()) {
    std::string name = "--" + std::string(flag.name);
    std::ranges::replace(name, '_', '-');
    if (flag.answer != TfCnnFlag::Answer::kOwn && app.get_option_no_throw(name) == nullptr)
      app.add_option_function<std::string>(name, [](const std::string&) {})->group("");
  }
}

// tf_cnn_benchmarks calls sgd with momentum "momentum".
train::OptimizerKind optimizer_of(std::string_view flag) {
  using train::OptimizerKind;
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kLars, OptimizerKind::kLamb})
    if (flag == train::optimizer_name(kind)) return kind;
  return OptimizerKind::kSgd;
}

Status check_files(const TrainFlags& flags) {
  const train::TrainOptions& options = flags.options;
  if (options.checkpoint_every > 0 && options.checkpoint_dir.empty())
    return failure(Code::kInvalidArgument, "{}",
                   "--checkpoint-every (of tf_cnn_benchmarks: --save-model-steps) needs --train-dir DIR");
  if (!flags.trace_file.empty() && flags.traced_batches == 0)
    return failure(Code::kInvalidArgument, "{}",
                   "--trace-file keeps the timeline of a further run, which --traced-batches 0 leaves out");
  if (options.checkpoint_dir.empty()) return {};
  if (options.step_kind != train::StepKind::kTrain)
    return failure(Code::kInvalidArgument, "--train-dir: {} trains nothing that could be kept, and reads no checkpoint",
                   flags.eval ? "--eval" : "--forward-only");
  if (flags.repeat > 1)
    return failure(Code::kInvalidArgument, "{}", "--train-dir has room for one run; leave out --repeat");
  return {};
}

}  // namespace

std::int64_t epoch_of(const TrainFlags& flags) {
  const bool cifar = flags.data_name == "cifar10";
  if (flags.eval) return cifar ? 10'000 : 50'000;
  return cifar ? 50'000 : 1'281'167;
}

CLI::App* add_train_verb(CLI::App& app, TrainFlags& flags) {
  auto* verb = app.add_subcommand("train", "images/s of training, with the flags and the lines of tf_cnn_benchmarks");
  verb->footer(kExamples);
  flags.options.image_size = 0;    // not given
  flags.options.report_every = 0;  // "
  add_workload(*verb, flags);
  add_images(*verb, flags);
  add_measurement(*verb, flags);
  verb->option_defaults()->group(std::string(train::kMachineOptions));
  tools::add_field_options(*verb, flags.options, train::kMachineOptions);
  add_files(*verb, flags);
  add_output(*verb, flags.out);
  add_translated(*verb);
  return verb;
}

void set_batches(TrainFlags& flags, int batches) {
  train::TrainOptions& options = flags.options;
  flags.num_batches = batches;
  options.steps = std::int64_t{flags.num_warmup_batches} + batches;
  if (flags.reports_at_the_end)
    options.report_every = static_cast<int>(std::min<std::int64_t>(options.steps, 1'000'000'000));
}

Status complete_flags(TrainFlags& flags) {
  train::TrainOptions& options = flags.options;
  const bool imagenet = flags.data_name == "imagenet";
  if (options.image_size.height == 0) options.image_size = imagenet ? 224 : 32;
  if (options.classes == 0 && options.data_dir.empty()) options.classes = imagenet ? 1000 : 10;
  if (flags.use_fp16 && options.precision == train::Precision::kFp32) options.precision = train::Precision::kBf16;
  options.optimizer = optimizer_of(flags.optimizer);
  if (flags.optimizer == "sgd") options.momentum = 0;
  if (flags.forward_only) options.step_kind = train::StepKind::kForward;
  if (flags.eval) options.step_kind = train::StepKind::kEvaluate;
  const bool emulated = options.emulated_images_per_s > 0;
  if (emulated && options.step_kind != train::StepKind::kTrain)
    return failure(Code::kInvalidArgument, "--emulate-accelerator trains; leave out {}",
                   flags.eval ? "--eval" : "--forward-only");
  if (emulated && options.sharded)
    return failure(Code::kInvalidArgument, "{}", "--emulate-accelerator updates no parameters; leave out --sharded");
  XOE_TRY(check_files(flags));
  options.evaluate = flags.eval;
  options.eval_every = 0;
  if ((!options.lr_schedule.empty() || flags.has_warmup) && options.data_dir.empty())
    options.synthetic_epoch = epoch_of(flags);
  flags.reports_at_the_end = options.report_every == 0;
  set_batches(flags, flags.num_batches);
  XOE_ASSIGN(options, train::complete_options(std::move(options)));
  return {};
}

}  // namespace xoe::bench
