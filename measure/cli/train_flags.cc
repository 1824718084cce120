#include "measure/cli/train_flags.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/command_line/parse/field_options.h"
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

Twelve flags are tf_cnn_benchmarks's: --model, --batch-size, --num-batches, --num-warmup-batches, --display-every,
--data-dir, --data-name, --use-fp16, --optimizer (sgd and momentum), --init-learning-rate, --forward-only and --eval.
The names of all flags may have - or _. None of its other flags is here.)";

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
  auto* forward = app.add_flag("--forward-only", flags.forward_only, "the forward pass alone, in training mode");
  app.add_flag("--eval", flags.eval, "the forward pass in evaluation mode, on held-out images")->excludes(forward);
  add_option<&TrainOptions::sync_batchnorm>(app, flags);
  add_option<&TrainOptions::accumulate>(app, flags);
  add_option<&TrainOptions::seed>(app, flags);
  add_option<&TrainOptions::emulated_images_per_s>(app, flags);
}

void add_measurement(CLI::App& app, TrainFlags& flags) {
  using tools::add_number;
  app.option_defaults()->group("Measurement");
  add_number(app, "--num-batches", flags.num_batches, 1, 100'000'000, "measured steps of a run");
  add_number(app, "--num-warmup-batches", flags.num_warmup_batches, 0, 100'000'000, "steps before them");
  add_number(app, "--repeat", flags.repeat, 1, 10'000, "runs, each with a model and buffers of its own");
  add_number(app, "--traced-batches", flags.traced_batches, 0, 10'000,
             "steps of a further run with a timeline, which tells the hidden communication; 0: none");
  tools::add_setting(app, "--display-every", flags.display_every, "steps between lines")->check(CLI::PositiveNumber);
}

// tf_cnn_benchmarks calls sgd with momentum "momentum".
train::OptimizerKind optimizer_of(std::string_view flag) {
  using train::OptimizerKind;
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kLars, OptimizerKind::kLamb})
    if (flag == train::optimizer_name(kind)) return kind;
  return OptimizerKind::kSgd;
}

}  // namespace

CLI::App* add_train_verb(CLI::App& app, TrainFlags& flags) {
  auto* verb =
      app.add_subcommand("train", "images/s of training, with twelve flags and the lines of tf_cnn_benchmarks");
  verb->footer(kExamples);
  flags.options.image_size = 0;  // not given
  add_workload(*verb, flags);
  add_measurement(*verb, flags);
  verb->option_defaults()->group(std::string(train::kMachineOptions));
  tools::add_field_options(*verb, flags.options, train::kMachineOptions);
  add_output(*verb, flags.out);
  return verb;
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
  options.evaluate = flags.eval;
  options.eval_every = 0;
  options.steps = std::int64_t{flags.num_warmup_batches} + flags.num_batches;
  options.report_every = static_cast<int>(std::min<std::int64_t>(options.steps, 1'000'000'000));
  XOE_ASSIGN(options, train::complete_options(std::move(options)));
  return {};
}

}  // namespace xoe::bench
