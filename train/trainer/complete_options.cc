#include "train/trainer/complete_options.h"

#include <utility>

#include "core/base/error.h"
#include "core/describe/text.h"
#include "train/trainer/exported_file.h"
#include "train/trainer/option_fields.h"
#include "train/trainer/schedule.h"

namespace xoe::train {
namespace {

// What cannot be together with logical shards, which promise the same bits for any number of ranks.
Status check_shards(const TrainOptions& options) {
  if (options.logical_shards == 0) return {};
  const auto refused = [](std::string_view what) {
    return failure(Code::kInvalidArgument, "--logical-shards: {}", what);
  };
  if (options.on_resize.value_or(OnResize::kKeepGlobalBatch) != OnResize::kKeepGlobalBatch)
    return refused("the images of a step stay as they are; leave out --on-resize, or give keep-global-batch");
  if (options.sync_batchnorm)
    return refused("each shard has its own statistics of batch norm; leave out --sync-batchnorm");
  if (options.sharded)
    return refused("a sharded optimizer sums gradients by ranks, and loses a part with each; leave out --sharded");
  if (options.accumulate > 1)
    return refused(fmt::format("a rank computes one shard after the other; in place of --accumulate {} give {} shards",
                               options.accumulate, options.logical_shards * options.accumulate));
  if (options.remainder == data::Remainder::kKeep)
    return refused("shards have equal numbers of images; give --remainder drop or pad");
  if (options.max_bad > 0) return refused("what takes a bad image's place depends on the ranks; leave out --max-bad");
  if (options.emulated_images_per_s > 0 || options.step_kind != StepKind::kTrain)
    return refused("steps that change no weights have none to compare");
  return {};
}

// Options that need or exclude each other.
Status check_together(const TrainOptions& options) {
  if (options.epochs > 0 && options.steps > 0) {
    return failure(Code::kInvalidArgument, "--epochs and --steps exclude each other; give one of them");
  }
  if (options.data_dir.empty() && options.epochs > 0) {
    return failure(Code::kInvalidArgument, "synthetic data has no epochs; say how long with --steps");
  }
  if (!options.lr_schedule.empty()) {
    if (options.lr > 0) return failure(Code::kInvalidArgument, "--lr-schedule has all rates; leave out the other one");
    if (options.data_dir.empty() && options.synthetic_epoch == 0)
      return failure(Code::kInvalidArgument, "synthetic data has no epochs, in which rates of --lr-schedule change");
    if (const auto pieces = parse_rate_pieces(options.lr_schedule); !pieces)
      return failure(Code::kInvalidArgument, "--lr-schedule {}", pieces.error().message());
  }
  if (options.checkpoint_dir.empty() && (options.resume || options.checkpoint_every > 0)) {
    return failure(Code::kInvalidArgument, "{} needs --checkpoint DIR",
                   options.resume ? "--resume" : "--checkpoint-every");
  }
  if (options.data_dir.empty() && !options.ledger.empty())
    return failure(Code::kInvalidArgument, "--ledger tells of records of --data DIR; synthetic data have none");
  if (options.remainder == data::Remainder::kKeep && options.sync_batchnorm)
    return failure(Code::kInvalidArgument,
                   "--remainder keep: the last step of an epoch may leave ranks without images, for which "
                   "--sync-batchnorm would wait; leave out one of them");
  if (!options.weights.empty()) {
    if (const auto format = check_export_name(options.weights); !format)
      return failure(Code::kInvalidArgument, "--weights {}: {}", options.weights, format.error().message());
  }
  if (options.new_head && options.weights.empty()) {
    return failure(Code::kInvalidArgument, "--new-head says what not to take of --weights FILE, which is not given");
  }
  if (!options.pixels.antialias && options.pixels.interpolation == data::Interpolation::kArea) {
    return failure(Code::kInvalidArgument,
                   "--interpolation must be bilinear or bicubic with --no-antialias: area is a mean of pixels");
  }
  if (options.next_epoch && !options.resume) {
    return failure(Code::kInvalidArgument, "--next-epoch says where a run goes on; it needs --resume");
  }
  return {};
}

}  // namespace

Result<TrainOptions> complete_options(TrainOptions options) {
  XOE_TRY(describe::check_ranges(options, "xoe train"));
  for (const int side : {options.image_size.height, options.image_size.width})
    if (side < 8 || side > 4096)
      return failure(Code::kInvalidArgument, "--image-size {}: expected sides of 8 to 4096 pixels",
                     data::to_text(options.image_size));
  XOE_TRY(check_together(options));
  XOE_TRY(check_shards(options));

  if (options.epochs == 0 && options.steps == 0) {
    if (options.data_dir.empty()) {
      options.steps = 100;
    } else {
      options.epochs = 10;
    }
  }
  const bool has_shards = options.logical_shards > 0;
  if (!options.on_resize) options.on_resize = has_shards ? OnResize::kKeepGlobalBatch : OnResize::kScaleRate;
  // The number of threads decides the bits, and must not depend on how many ranks share the processors.
  if (has_shards && options.threads == 0) options.threads = 1;
  const OptimizerDefaults defaults = optimizer_defaults(options.optimizer);
  if (options.lr == 0) options.lr = defaults.lr;
  if (!options.weight_decay) options.weight_decay = defaults.weight_decay;
  return options;
}

}  // namespace xoe::train
