#include "train/trainer/options.h"

#include <array>
#include <cmath>

#include "core/base/error.h"
#include "train/trainer/exported_file.h"

namespace xoe::train {
namespace {

struct OptimizerRow {
  std::string_view name;
  bool momentum;
  OptimizerDefaults defaults;
};
constexpr std::array<OptimizerRow, 4> kOptimizers = {{{"sgd", true, {.lr = 0.1, .weight_decay = 5e-5}},
                                                      {"adamw", false, {.lr = 1e-3, .weight_decay = 0.05}},
                                                      {"lars", true, {.lr = 0.3, .weight_decay = 5e-5}},
                                                      {"lamb", false, {.lr = 1e-3, .weight_decay = 0.02}}}};
const OptimizerRow& row_of(OptimizerKind kind) noexcept { return kOptimizers[static_cast<std::size_t>(kind)]; }

Status require(bool good, std::string_view option, std::string_view rule) {
  if (good) return {};
  return failure(Code::kInvalidArgument, "--{} must be {}", option, rule);
}

// Options that need or exclude each other.
Status check_together(const TrainOptions& options) {
  if (options.epochs > 0 && options.steps > 0) {
    return failure(Code::kInvalidArgument, "--epochs and --steps exclude each other; give one of them");
  }
  if (options.data_dir.empty() && options.epochs > 0) {
    return failure(Code::kInvalidArgument, "synthetic data has no epochs; say how long with --steps");
  }
  if (options.checkpoint_dir.empty() && (options.resume || options.checkpoint_every > 0)) {
    return failure(Code::kInvalidArgument, "{} needs --checkpoint DIR",
                   options.resume ? "--resume" : "--checkpoint-every");
  }
  if (!options.weights.empty()) {
    if (const auto format = check_export_name(options.weights); !format)
      return failure(Code::kInvalidArgument, "--weights {}: {}", options.weights, format.error().message());
  }
  if (options.new_head && options.weights.empty()) {
    return failure(Code::kInvalidArgument, "--new-head says what not to take of --weights FILE, which is not given");
  }
  if (options.next_epoch && !options.resume) {
    return failure(Code::kInvalidArgument, "--next-epoch says where a run goes on; it needs --resume");
  }
  return {};
}

}  // namespace

std::string_view optimizer_name(OptimizerKind kind) noexcept { return row_of(kind).name; }
std::string_view precision_name(Precision precision) noexcept {
  constexpr std::array<std::string_view, 3> kNames = {"fp32", "bf16", "fp16"};
  return kNames[static_cast<std::size_t>(precision)];
}
bool has_momentum(OptimizerKind kind) noexcept { return row_of(kind).momentum; }
OptimizerDefaults optimizer_defaults(OptimizerKind kind) noexcept { return row_of(kind).defaults; }

Result<TrainOptions> complete_options(TrainOptions options) {
  XOE_TRY(require(options.batch >= 1, "batch", "at least 1"));
  for (const int side : {options.image_size.height, options.image_size.width})
    XOE_TRY(require(side >= 8 && side <= 4096, "image-size", "between 8 and 4096"));
  XOE_TRY(require(options.pixels.antialias || options.pixels.interpolation != data::Interpolation::kArea,
                  "interpolation", "bilinear or bicubic with --no-antialias: area is a mean of pixels"));
  XOE_TRY(require(options.classes >= 0, "classes", "at least 1"));
  XOE_TRY(require(std::isfinite(options.epochs) && options.epochs >= 0, "epochs", "at least 0"));
  XOE_TRY(require(options.steps >= 0, "steps", "at least 0"));
  XOE_TRY(require(std::isfinite(options.lr) && options.lr >= 0, "lr", "positive"));
  XOE_TRY(require(options.lr_batch >= 0, "lr-batch", "at least 0"));
  XOE_TRY(require(std::isfinite(options.lr_warmup_epochs) && options.lr_warmup_epochs >= 0, "lr-warmup", "at least 0"));
  XOE_TRY(require(options.momentum >= 0 && options.momentum < 1, "momentum", "in [0, 1)"));
  XOE_TRY(require(options.label_smoothing >= 0 && options.label_smoothing < 1, "label-smoothing", "in [0, 1)"));
  XOE_TRY(require(std::isfinite(options.clip_norm) && options.clip_norm >= 0, "clip-norm", "at least 0"));
  XOE_TRY(require(options.ema >= 0 && options.ema < 1, "ema", "in [0, 1)"));
  XOE_TRY(require(options.accumulate >= 1, "accumulate", "at least 1"));
  XOE_TRY(require(options.bucket_mib > 0 && options.bucket_mib <= 4096, "bucket-mb", "between 0 and 4096"));
  XOE_TRY(require(std::isfinite(options.eval_every) && options.eval_every >= 0, "eval-every", "at least 0"));
  XOE_TRY(require(options.report_every >= 1, "report-every", "at least 1"));
  XOE_TRY(require(options.warmup_steps >= 0, "warmup-steps", "at least 0"));
  XOE_TRY(require(options.checkpoint_every >= 0, "checkpoint-every", "at least 0"));
  XOE_TRY(require(options.checkpoint_keep >= 1, "checkpoint-keep", "at least 1"));
  XOE_TRY(require(options.threads >= 0 && options.threads <= 1024, "threads", "between 0 and 1024"));
  XOE_TRY(require(options.data_threads >= -1 && options.data_threads <= 1024, "data-threads",
                  "between 0 and 1024, or auto"));
  XOE_TRY(require(options.shuffle_buffer >= -1, "shuffle-buffer", "at least 0, or auto"));
  XOE_TRY(require(options.max_bad >= 0, "max-bad", "at least 0"));
  XOE_TRY(require(std::isfinite(options.emulated_images_per_s) && options.emulated_images_per_s >= 0,
                  "emulate-accelerator", "positive"));
  if (options.weight_decay) XOE_TRY(require(*options.weight_decay >= 0, "weight-decay", "at least 0"));
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
