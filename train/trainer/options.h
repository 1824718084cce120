// The options of a training run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "xoe/data/images.h"

namespace xoe::train {

enum class OptimizerKind : std::uint8_t { kSgd, kAdamW, kLars, kLamb };
enum class DeviceKind : std::uint8_t { kAuto, kCpu, kCuda };
enum class Precision : std::uint8_t { kFp32, kBf16, kFp16 };
enum class MemoryFormat : std::uint8_t { kAuto, kNchw, kNhwc };  // the last is "channels last"
// What a step does. kForward: the forward pass alone, in training mode; kEvaluate: that in evaluation mode, over
// held-out images where the data have some. Neither changes the model.
enum class StepKind : std::uint8_t { kTrain, kForward, kEvaluate };

// What stays when the number of ranks changes: the images of each rank, so that the learning rate grows with the ranks
// as `lr_batch` says; the images of all ranks in a step, and with them the rate; or the images of each rank and the
// rate that the training began with.
enum class OnResize : std::uint8_t { kScaleRate, kKeepGlobalBatch, kKeep };

struct TrainOptions {
  std::string model = "resnet18";
  std::string data_dir;                     // empty: one random batch, made once (as tf_cnn_benchmarks)
  int classes = 0;                          // 0: what the data has; 1000 for synthetic data
  std::string image_key = "image/encoded";  // features of TFRecord files
  std::string label_key = "image/class/label";
  int label_offset = data::kAutoLabelOffset;  // the label stored for class 0
  int batch = 32;                             // per rank and backward pass
  data::ImageSize image_size = 64;
  data::PixelOptions pixels = {};
  std::string weights;    // a file that the model begins with; empty: freshly initialised
  bool new_head = false;  // ... but the last layer, which is initialised: for other classes

  double epochs = 0;       // of the data; 0: `steps` counts
  std::int64_t steps = 0;  // optimizer steps; 0: `epochs` counts. Both 0: 10 epochs of data, or 100 synthetic steps

  double lr = 0;                // for `lr_batch` images in a step of all ranks; 0: the optimizer's usual one
  int lr_batch = 256;           // the rate grows linearly with the images in a step; 0: no scaling
  double lr_warmup_epochs = 1;  // linear, from nearly 0
  std::string lr_schedule;      // see parse_rate_pieces(); empty: a half cosine from `lr` down to 0
  OptimizerKind optimizer = OptimizerKind::kSgd;
  double momentum = 0.9;
  std::optional<double> weight_decay;  // unset: see optimizer_defaults()
  double label_smoothing = 0;
  double clip_norm = 0;   // the largest 2-norm of all gradients together in a step; 0: any
  double clip_value = 0;  // the largest size of a number in a step's gradients; 0: any
  double ema = 0;         // decay of the weights' exponential moving average; 0: there is none
  std::uint64_t seed = 1;
  int accumulate = 1;                   // backward passes in a step
  bool sync_batchnorm = false;          // statistics of batch norm over the images of all ranks
  bool checkpoint_activations = false;  // blocks of the network compute their activations again in backward
  // > 0: a step's batch consists of so many shards of `batch` images, for any number of ranks, and the bits of what is
  // trained do not depend on the ranks; 0: each rank has a batch.
  int logical_shards = 0;
  std::optional<OnResize> on_resize;         // unset: kKeepGlobalBatch with logical shards, else kScaleRate
  std::optional<data::Remainder> remainder;  // of an epoch; unset: kDrop
  bool sharded = false;
  double bucket_mib = 25;

  double eval_every = 1;  // epochs; 0: only at the end
  int report_every = 10;  // steps
  int warmup_steps = 2;   // steps before speed is measured

  std::string checkpoint_dir;         // empty: none are written
  std::int64_t checkpoint_every = 0;  // steps; 0: at the end and when interrupted
  int checkpoint_keep = 3;
  bool resume = false;
  bool next_epoch = false;  // a resumed run begins the next epoch, so its data may have changed

  std::string ledger;       // a folder for the numbers of the records that each step consumes; empty: none
  std::string run_dir;      // metrics.jsonl and curve.svg; empty: none
  std::string timeline;     // a file; empty: none
  std::string tensorboard;  // a folder for event files beside the run's; empty: none
  std::string mlflow;       // a folder that is MLflow's file store; empty: none
  std::string mllog;        // a file for MLPerf's log; empty: none

  int threads = 0;             // of libtorch, per rank; 0: cores / ranks on this host
  int shuffle_buffer = -1;     // records to draw the next one from; -1: all, where each can be read by itself
  int data_threads = -1;       // per rank, that make images; 0: the training thread does; -1: as many as it needs
  bool allow_missing = false;  // goes on without files that should be there and are not
  std::int64_t max_bad = 0;    // images per rank and epoch that cannot be read and are left out; one more is an error
  DeviceKind device = DeviceKind::kAuto;
  Precision precision = Precision::kFp32;
  MemoryFormat memory_format = MemoryFormat::kAuto;  // of 4-dimensional weights and of images; kAuto: the network's own

  // For benchmarks.
  bool evaluate = true;  // on held-out images, where there are any
  StepKind step_kind = StepKind::kTrain;
  std::int64_t synthetic_epoch = 0;  // images in an epoch of synthetic data, for rates; 0: it has none
  double emulated_images_per_s = 0;  // > 0: a timed wait in place of computing, see emulated_accelerator.h
};

// Empty: there is no such value.
std::string_view optimizer_name(OptimizerKind kind);       // "sgd", "adamw", "lars", "lamb"
std::string_view device_name(DeviceKind kind);             // "auto", "cpu", "cuda"
std::string_view precision_name(Precision precision);      // "fp32", "bf16", "fp16"
std::string_view memory_format_name(MemoryFormat format);  // "auto", "nchw", "nhwc"
std::string_view on_resize_name(OnResize policy);          // "scale-lr", "keep-global-batch", "keep"
// Whether options.momentum counts.
bool has_momentum(OptimizerKind kind) noexcept;

struct OptimizerDefaults {
  double lr = 0;
  double weight_decay = 0;
};
OptimizerDefaults optimizer_defaults(OptimizerKind kind) noexcept;

}  // namespace xoe::train
