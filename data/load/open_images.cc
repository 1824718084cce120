#include <algorithm>
#include <cstdio>
#include <limits>
#include <string>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "data/load/assumed_labels.h"
#include "data/load/class_runs.h"
#include "data/load/count_classes.h"
#include "data/load/image_loader.h"
#include "data/options/check_ranges.h"
#include "data/source/formats.h"
#include "data/tune/tuning.h"
#include "xoe/data/images.h"

namespace xoe::data {
namespace {

constexpr std::size_t kMaxDepth = 64;  // batches in flight

ImageTransform transform_of(const ImagePipelineOptions& options) {
  return {.size = options.image_size,
          .training = options.training,
          .whole = options.whole,
          .flip = options.flip,
          .min_area = options.min_area,
          .pixels = options.pixels,
          .quality = options.quality,
          .dtype = options.dtype,
          .layout = options.layout,
          .mean = options.mean,
          .deviation = options.deviation,
          .augmentation = options.augmentation};
}

Status check(const ImagePipelineOptions& options) {
  XOE_TRY(check_ranges(options));
  const BatchMixing& mixing = options.augmentation.mixing;
  if ((mixing.mixup_alpha > 0 || mixing.cutmix_alpha > 0) && options.dtype != DType::kFloat32)
    return failure(Code::kInvalidArgument, "images: mixup and cutmix are for float32, not for {}",
                   dtype_name(options.dtype));
  return check(transform_of(options));
}

// Of the opening, which is the same on all ranks.
void warn_once(const ImagePipelineOptions& options, const std::string& line) {
  if (options.rank == 0) warn(options, line);
}

Result<std::shared_ptr<const ImageSource>> open_source(const ImagePipelineOptions& options) {
  LeftOut left_out;
  XOE_ASSIGN(std::shared_ptr<const ImageSource> opened, open_image_source(options, &left_out));
  if (opened->lost() > options.max_bad)
    return failure(Code::kDataLoss, "{}: {} places are damaged or missing, more than the {} allowed by max_bad: {}",
                   options.directory, opened->lost(), options.max_bad, left_out.bad.text());
  if (opened->missing() > 0)
    warn_once(options, fmt::format("{}: {} left out: {}", options.directory, counted(opened->missing(), "missing part"),
                                   left_out.missing.text()));
  if (opened->lost() > 0)
    warn_once(options, fmt::format("{}: {} left out: {}", options.directory, counted(opened->lost(), "bad image"),
                                   left_out.bad.text()));
  for (const std::string& line : opened->warnings()) warn_once(options, line);
  return opened;
}

// Rank 0 looks for all.
Status check_labels(const ImagePipelineOptions& options, const ImageSource& source) {
  if (options.rank != 0) return {};
  XOE_ASSIGN(const std::string assumed, check_assumed_offset(source, options.directory, options.threads));
  if (!assumed.empty()) warn(options, assumed);
  return {};
}

// 0: only the labels tell, and nothing needs to know: then no rank reads all records for it.
Result<int> find_classes(const ImagePipelineOptions& options, const ImageSource& source) {
  if (options.classes > 0 && source.multi_label() && options.classes != source.classes())
    return failure(Code::kInvalidArgument, "images: classes is {}; {} has {}", options.classes, options.directory,
                   source.classes());
  if (options.classes > 0) return options.classes;
  if (source.classes() > 0) return source.classes();
  const BatchMixing& mixing = options.augmentation.mixing;
  const bool mixes = options.training && (mixing.mixup_alpha > 0 || mixing.cutmix_alpha > 0);  // targets need a length
  return source.labels_at_hand() || mixes ? count_classes(source, options) : Result<int>(0);
}

int shuffle_buffer_of(const ImagePipelineOptions& options, const ImageSource& source) {
  if (options.shuffle_buffer != kAutoShuffle) return options.shuffle_buffer;
  if (options.shard_by_file || !source.random_access()) return kShuffleBuffer;
  return static_cast<int>(std::min<std::int64_t>(source.records(), std::numeric_limits<int>::max()));
}

// Threads and batches in flight, within the CPUs and the memory of this process.
void plan_threads(MapAndBatchOptions& batching, const ImagePipelineOptions& options, int wanted_threads) {
  batching.threads = wanted_threads;
  batching.depth = static_cast<std::size_t>(std::max(options.prefetch, 1));
  if (wanted_threads != kAutoThreads) return;
  batching.tune = true;
  batching.threads = batching.cpus = most_threads(wanted_threads, options.processes);
  const std::size_t batch_bytes = 3 * static_cast<std::size_t>(options.image_size.pixels()) *
                                  dtype_size(options.dtype) * static_cast<std::size_t>(options.batch);
  const std::size_t budget = memory_budget(options.memory_budget);
  const std::size_t fitting = budget / std::max<std::size_t>(batch_bytes, 1);  // one of them is the consumer's
  batching.depth = std::clamp<std::size_t>(fitting > 0 ? fitting - 1 : 0, 1, kMaxDepth);
  batching.least_depth = std::min(static_cast<std::size_t>(std::max(options.prefetch, 1)), batching.depth);
}

// What may be together with logical shards, whose images must not depend on the ranks.
Status check_shards(const ImagePipelineOptions& options) {
  if (options.shards == 0) return {};
  const auto refused = [](std::string_view what) {
    return failure(Code::kInvalidArgument, "images: shards and {} exclude each other", what);
  };
  if (options.shard_by_file) return refused("shard_by_file, whose order depends on the ranks,");
  if (options.max_bad > 0) return refused("max_bad, with which the ranks decide what takes a bad image's place,");
  const BatchMixing& mixing = options.augmentation.mixing;
  if (options.remainder == Remainder::kKeep && (mixing.mixup_alpha > 0 || mixing.cutmix_alpha > 0))
    return refused("mixup or CutMix with remainder=keep");
  const std::int64_t joint = std::int64_t{options.shards} * options.batch;
  if (options.joint_batch == 0 || options.joint_batch == joint) return {};
  return failure(Code::kInvalidArgument, "images: joint_batch is {}, but {} of {} are {}", options.joint_batch,
                 counted(options.shards, "logical shard"), counted(options.batch, "image"), joint);
}

}  // namespace

Status plan_for_rank(ImagePlan& plan, std::int64_t records) {
  ImagePipelineOptions& options = plan.options;
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    return failure(Code::kInvalidArgument, "images: rank {} of {}", options.rank, options.size);
  if (options.shards > 0) options.joint_batch = std::int64_t{options.shards} * plan.wanted_batch;
  if (options.shards > 0 && options.shards < options.size)
    return failure(Code::kInvalidArgument, "images: {} share {}, and each needs one", counted(options.size, "rank"),
                   counted(options.shards, "logical shard"));
  std::int64_t joint = options.joint_batch;
  options.batch = joint > 0 ? static_cast<int>(share_of(joint, 0, options.size)) : plan.wanted_batch;
  if (options.shards > 0) options.batch = (options.shards + options.size - 1) / options.size * plan.wanted_batch;
  if (joint == 0) joint = std::int64_t{options.size} * options.batch;
  const std::int64_t batches = plan_joint_shard(records, options.rank, options.size, joint, plan.remainder).batches;
  if (batches == 0)
    return failure(Code::kInvalidArgument, "{}: {} {} too few for {} with batches of {}", options.directory,
                   counted(records, "record"), records == 1 ? "is" : "are", counted(options.size, "rank"),
                   options.batch);
  if (joint < options.size)
    return failure(Code::kInvalidArgument, "{}: {} share a batch of {}: some would have none", options.directory,
                   counted(options.size, "rank"), counted(joint, "image"));
  plan.batches_per_epoch = batches;
  plan_threads(plan.batching, options, plan.wanted_threads);
  options.threads = plan.batching.threads;
  return {};
}

void warn(const ImagePipelineOptions& options, const std::string& text) {
  const std::string line = printable_utf8(text);  // names of files may hold anything
  if (options.warn)
    options.warn(line);
  else
    std::fprintf(stderr, "xoe: %s\n", line.c_str());
}

Result<std::unique_ptr<ImageIterator>> open_images(const ImagePipelineOptions& wanted) {
  ImagePipelineOptions options = wanted;
  resolve_bad_limit(options);
  XOE_TRY(check(options));
  XOE_TRY(check_shards(options));
  const Remainder remainder = options.remainder.value_or(options.training ? Remainder::kDrop : Remainder::kKeep);
  ImagePlan plan{.options = options,
                 .transform = transform_of(options),
                 .batching = {.on_error = options.on_error,
                              .max_bad = options.max_bad,
                              .keep_full = remainder != Remainder::kKeep,
                              .name_elements = false},  // records have names of their own
                 .remainder = remainder,
                 .wanted_batch = options.batch,
                 .wanted_threads = options.threads};
  plan_threads(plan.batching, options, options.threads);
  plan.options.threads = plan.batching.threads;
  XOE_ASSIGN(const std::shared_ptr<const ImageSource> source, open_source(plan.options));
  XOE_TRY(plan_for_rank(plan, source->records()));
  XOE_ASSIGN(plan.options.classes, find_classes(plan.options, *source));
  XOE_TRY(check_labels(plan.options, *source));
  plan.options.shuffle_buffer = shuffle_buffer_of(options, *source);
  if (const std::string runs = describe_runs(*source, plan.options); !runs.empty()) warn_once(options, runs);
  plan.order_fingerprint = order_fingerprint(*source, plan.options);
  XOE_ASSIGN(auto loader, ImageLoader::open(source, std::move(plan)));
  return loader;
}

}  // namespace xoe::data
