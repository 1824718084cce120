#include "train/trainer/complete_options.h"

#include <utility>

#include "core/base/error.h"
#include "core/describe/text.h"
#include "train/trainer/exported_file.h"
#include "train/trainer/option_fields.h"
#include "train/trainer/schedule.h"

namespace xoe::train {
namespace {

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

  if (options.epochs == 0 && options.steps == 0) {
    if (options.data_dir.empty()) {
      options.steps = 100;
    } else {
      options.epochs = 10;
    }
  }
  const OptimizerDefaults defaults = optimizer_defaults(options.optimizer);
  if (options.lr == 0) options.lr = defaults.lr;
  if (!options.weight_decay) options.weight_decay = defaults.weight_decay;
  return options;
}

}  // namespace xoe::train
