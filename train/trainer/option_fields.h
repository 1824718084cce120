// The options of a training as a table: the command lines, their help, the checks of ranges and the record of a run
// come from it.
#pragma once

#include <string_view>
#include <tuple>

#include "core/describe/field.h"
#include "core/describe/text.h"
#include "data/options/image_fields.h"
#include "train/trainer/options.h"

namespace xoe::describe {

template <>
struct TextForm<train::OptimizerKind> : EnumForm<train::OptimizerKind, train::optimizer_name> {};
template <>
struct TextForm<train::DeviceKind> : EnumForm<train::DeviceKind, train::device_name> {};
template <>
struct TextForm<train::Precision> : EnumForm<train::Precision, train::precision_name> {};
template <>
struct TextForm<train::MemoryFormat> : EnumForm<train::MemoryFormat, train::memory_format_name> {};
template <>
struct TextForm<train::OnResize> : EnumForm<train::OnResize, train::on_resize_name> {};

}  // namespace xoe::describe

namespace xoe::train {

// Headings of the help.
inline constexpr std::string_view kDataOptions = "Data";
inline constexpr std::string_view kTrainingOptions = "Training";
inline constexpr std::string_view kMachineOptions = "Machine";
inline constexpr std::string_view kOutputOptions = "Output";

namespace option_fields {

using O = TrainOptions;
using Images = data::ImagePipelineOptions;
using describe::field;
using describe::Rules;

// What the image pipeline says of a field of its own.
template <auto kMember>
constexpr Rules as_in_pipeline() {
  Rules rules = describe::line_of<kMember>().rules;
  rules.group = {};
  rules.option = true;
  rules.if_set = true;
  return rules;
}

constexpr auto data_options() {
  return std::tuple_cat(
      std::tuple(
          field<&O::data_dir>("data", {.what = "images: TFRecord files, archives, a folder for each class, MNIST",
                                       .if_set = true,
                                       .group = kDataOptions,
                                       .option = true,
                                       .placeholder = "DIR"}),
          field<&O::classes>("classes", {.what = "number of classes",
                                         .least = 1,
                                         .if_set = true,
                                         .automatic = 0,
                                         .option = true,
                                         .otherwise = "as the data has; 1000 synthetic"}),
          field<&O::image_key>("image_key", as_in_pipeline<&Images::image_key>()),
          field<&O::label_key>("label_key", as_in_pipeline<&Images::label_key>()),
          field<&O::label_offset>("label_offset", as_in_pipeline<&Images::label_offset>()),
          field<&O::batch>(
              "batch",
              {.what = "images per rank and pass", .least = 1, .most = 1 << 20, .if_set = true, .option = true}),
          field<&O::image_size>("image_size", as_in_pipeline<&Images::image_size>())),
      describe::fields_below<&O::pixels>(),
      std::tuple(
          field<&O::data_threads>("data_threads", as_in_pipeline<&Images::threads>()),
          field<&O::shuffle_buffer>("shuffle_buffer", as_in_pipeline<&Images::shuffle_buffer>()),
          field<&O::remainder>("remainder", as_in_pipeline<&Images::remainder>()),
          field<&O::allow_missing>("allow_missing", as_in_pipeline<&Images::allow_missing>()),
          field<&O::max_bad>("max_bad", {.what = "bad images to leave out per rank and epoch; one more is an error",
                                         .least = 0,
                                         .if_set = true})));
}

constexpr auto length_and_start() {
  return std::tuple(
      field<&O::weights>("weights",
                         {.what = "begin with these: a state dict of PyTorch (.pt), or safetensors; as export "
                                  "writes them",
                          .if_set = true,
                          .group = kTrainingOptions,
                          .option = true,
                          .placeholder = "FILE"}),
      field<&O::new_head>("new_head",
                          {.what = "but for the last layer, which is initialised: to fine-tune for other classes",
                           .if_set = true,
                           .option = true}),
      field<&O::epochs>("epochs", {.what = "how often to go through the data",
                                   .above = 0,
                                   .if_set = true,
                                   .automatic = 0,
                                   .option = true,
                                   .otherwise = "10"}),
      field<&O::steps>("steps", {.what = "how many steps instead",
                                 .least = 1,
                                 .if_set = true,
                                 .automatic = 0,
                                 .option = true,
                                 .otherwise = "100 synthetic"}));
}

constexpr auto recipe() {
  return std::tuple(
      field<&O::lr>("lr", {.what = "peak learning rate for --lr-batch images",
                           .above = 0,
                           .stored_as = "learning_rate",
                           .automatic = 0,
                           .option = true,
                           .otherwise = "sgd 0.1, lars 0.3, adamw and lamb 0.001"}),
      field<&O::lr_batch>(
          "lr_batch",
          {.what = "the rate grows with images per step over this; 0: it does not", .least = 0, .option = true}),
      field<&O::lr_warmup_epochs>(
          "lr_warmup",
          {.what = "epochs in which the rate rises", .least = 0, .stored_as = "lr_warmup_epochs", .option = true}),
      field<&O::lr_schedule>("lr_schedule",
                             {.what = "rates and the epochs between them in place of --lr and the cosine: "
                                      "0.1;30;0.01;60;0.001",
                              .if_set = true,
                              .option = true,
                              .placeholder = "RATES"}),
      field<&O::optimizer>("optimizer", {.what = "the last two are for large batches", .option = true}),
      field<&O::momentum>("momentum", {.what = "of sgd and lars", .least = 0, .below = 1, .option = true}),
      field<&O::weight_decay>("weight_decay",
                              {.least = 0, .option = true, .otherwise = "sgd and lars 5e-5, adamw 0.05, lamb 0.02"}),
      field<&O::label_smoothing>("label_smoothing", {.what = "0 to below 1", .least = 0, .below = 1, .option = true}),
      field<&O::clip_norm>(
          "clip_norm",
          {.what = "largest 2-norm of a step's gradients, all together; 0: any", .least = 0, .option = true}),
      field<&O::clip_value>("clip_value", {.what = "largest size of each number in a step's gradients; 0: any",
                                           .least = 0,
                                           .if_set = true,
                                           .option = true}),
      field<&O::ema>("ema",
                     {.what = "decay of an exponential moving average of the weights, for evaluation and export; "
                              "0: none",
                      .least = 0,
                      .below = 1,
                      .option = true}),
      field<&O::on_resize>("on_resize",
                           {.what = "when ranks come or go: scale the rate with the images of a step, keep these by "
                                    "other batches, or keep batches and rate",
                            .option = true,
                            .otherwise = "scale-lr; with --logical-shards keep-global-batch"}),
      field<&O::logical_shards>("logical_shards",
                                {.what = "a step's batch is so many shards of --batch images, however many ranks there "
                                         "are: any number of them, and any change, gives the same weights to the bit",
                                 .least = 1,
                                 .most = 1 << 16,
                                 .if_set = true,
                                 .automatic = 0,
                                 .option = true,
                                 .otherwise = "none"}),
      field<&O::accumulate>("accumulate", {.what = "passes per step", .least = 1, .if_set = true, .option = true}),
      field<&O::sync_batchnorm>("sync_batchnorm",
                                {.what = "statistics of batch norm over the images of all ranks", .option = true}),
      field<&O::seed>("seed", {.what = "of weights, order and distortions", .option = true}),
      field<&O::precision>("precision", {.what = "bf16, fp16: autocast; fp16 scales the loss", .option = true}));
}

constexpr auto machine_options() {
  return std::tuple(
      field<&O::device>("device", {.what = "auto: CUDA where libtorch sees a device",
                                   .if_set = true,
                                   .group = kMachineOptions,
                                   .option = true}),
      field<&O::threads>("threads", {.what = "of libtorch per rank",
                                     .least = 1,
                                     .most = 1024,
                                     .if_set = true,
                                     .automatic = 0,
                                     .option = true,
                                     .otherwise = "cores / ranks of this host"}),
      field<&O::memory_format>(
          "memory_format",
          {.what =
               "order of weights and images in memory; nhwc: channels last; auto: what the network is fastest in on "
               "the CPU",
           .if_set = true,
           .option = true}),
      field<&O::checkpoint_activations>(
          "checkpoint_activations",
          {.what = "blocks of the network are computed again in backward: less memory, more time", .option = true}),
      field<&O::sharded>(
          "sharded", {.what = "ranks share parameters, each updates its part for all", .if_set = true, .option = true}),
      field<&O::bucket_mib>("bucket_mb", {.what = "MiB of gradients reduced at once",
                                          .most = 4096,
                                          .above = 0,
                                          .stored_as = "bucket_mib",
                                          .option = true}));
}

constexpr auto measuring_and_checkpoints() {
  return std::tuple(
      field<&O::eval_every>("eval_every", {.what = "epochs between evaluations; 0: at the end",
                                           .least = 0,
                                           .if_set = true,
                                           .group = kOutputOptions,
                                           .option = true}),
      field<&O::report_every>("report_every",
                              {.what = "steps between reports", .least = 1, .if_set = true, .option = true}),
      field<&O::warmup_steps>(
          "warmup_steps",
          {.what = "first steps that no speed is measured of", .least = 0, .if_set = true, .option = true}),
      field<&O::checkpoint_dir>(
          "checkpoint", {.what = "folder for checkpoints", .if_set = true, .option = true, .placeholder = "DIR"}),
      field<&O::checkpoint_every>(
          "checkpoint_every",
          {.what = "steps; 0: at the end and when interrupted", .least = 0, .if_set = true, .option = true}),
      field<&O::checkpoint_keep>("checkpoint_keep",
                                 {.what = "newest ones to keep", .least = 1, .if_set = true, .option = true}),
      field<&O::resume>("resume",
                        {.what = "go on from the newest checkpoint, if there is one", .if_set = true, .option = true}),
      field<&O::next_epoch>("next_epoch", {.what = "with --resume: begin the next epoch, with files that have changed",
                                           .if_set = true,
                                           .option = true}));
}

constexpr auto files() {
  return std::tuple(
      field<&O::ledger>("ledger", {.what = "folder for the numbers of the records that each step consumes",
                                   .if_set = true,
                                   .option = true,
                                   .placeholder = "DIR"}),
      field<&O::run_dir>("run_dir", {.what = "new folder for metrics.jsonl, TensorBoard's files and curve.svg",
                                     .if_set = true,
                                     .option = true,
                                     .placeholder = "DIR"}),
      field<&O::tensorboard>(
          "tensorboard",
          {.what = "folder for TensorBoard's event files alone", .if_set = true, .option = true, .placeholder = "DIR"}),
      field<&O::mlflow>(
          "mlflow", {.what = "a run in this store of MLflow", .if_set = true, .option = true, .placeholder = "DIR"}),
      field<&O::mllog>(
          "mllog",
          {.what = "MLPerf's log: lines `:::MLLOG {...}`", .if_set = true, .option = true, .placeholder = "FILE"}),
      field<&O::timeline>(
          "timeline",
          {.what = "trace of all ranks for Perfetto", .if_set = true, .option = true, .placeholder = "FILE"}),
      // This one is an option of `xoe bench train`.
      field<&O::emulated_images_per_s>(
          "emulate_accelerator",
          {.what =
               "images/s of an accelerator, for which each rank sleeps in place of computing: real communication of "
               "the model's gradients, no training",
           .least = 0.01,
           .most = 1e9,
           .if_set = true,
           .automatic = 0,
           .placeholder = "IMAGES_PER_S",
           .otherwise = "none"}));
}

}  // namespace option_fields

constexpr auto fields_of(const TrainOptions*) {
  using namespace option_fields;  // NOLINT(google-build-using-namespace)
  return std::tuple_cat(data_options(), length_and_start(), recipe(), machine_options(), measuring_and_checkpoints(),
                        files());
}

}  // namespace xoe::train
