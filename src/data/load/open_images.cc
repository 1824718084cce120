#include <algorithm>

#include "base/error.h"
#include "data/load/image_loader.h"
#include "data/load/label_scan.h"
#include "data/source/formats.h"
#include "data/tune/tuning.h"
#include "xoe/data/images.h"

namespace xoe::data {
namespace {

constexpr std::size_t kMostAhead = 64;

Status require(bool good, std::string_view what, std::int64_t value) {
  if (good) return {};
  return failure(Code::kInvalidArgument, "images: {} is {}", what, value);
}

ImageMaking making_of(const ImagePipelineOptions& options) {
  return {.size = options.image_size,
          .training = options.training,
          .min_area = options.min_area,
          .quality = options.quality,
          .dtype = options.dtype,
          .layout = options.layout,
          .mean = options.mean,
          .deviation = options.deviation,
          .augmentation = options.augmentation};
}

Status check(const ImagePipelineOptions& options) {
  XOE_TRY(require(options.batch > 0 && options.batch <= 1 << 20, "batch (1 to 1048576)", options.batch));
  XOE_TRY(require(options.size > 0, "size (1 or more)", options.size));
  XOE_TRY(require(options.rank >= 0 && options.rank < options.size, "rank (0 to size - 1)", options.rank));
  XOE_TRY(require(options.threads >= kAutoThreads && options.threads <= 1024, "threads (0 to 1024, or kAutoThreads)",
                  options.threads));
  XOE_TRY(require(options.processes > 0, "processes (1 or more)", options.processes));
  XOE_TRY(require(options.prefetch >= 0 && options.prefetch <= 1024, "prefetch (0 to 1024)", options.prefetch));
  XOE_TRY(require(options.shuffle_buffer >= 0, "shuffle_buffer (0 or more)", options.shuffle_buffer));
  XOE_TRY(require(options.epochs >= 0, "epochs (0 or more)", options.epochs));
  XOE_TRY(require(options.max_bad >= 0, "max_bad (0 or more)", options.max_bad));
  const BatchMixing& mixing = options.augmentation.mixing;
  if ((mixing.mixup_alpha > 0 || mixing.cutmix_alpha > 0) && options.dtype != DType::kFloat32)
    return failure(Code::kInvalidArgument, "images: mixup and cutmix are for float32, not for {}",
                   dtype_name(options.dtype));
  XOE_TRY(check(making_of(options)));
  return require(options.classes >= 0, "classes (0 or more)", options.classes);
}

Result<std::shared_ptr<const ImageSource>> open_source(const ImagePipelineOptions& options, int threads) {
  SourceOptions source;
  source.directory = options.directory;
  source.format = options.format;
  source.split = options.training ? Split::kTrain : Split::kValidation;
  source.pattern = options.pattern;
  source.threads = threads;
  source.on_error = options.on_error;
  source.max_lost = options.max_bad;
  source.label_offset = options.label_offset;
  source.image_key = options.image_key;
  source.label_key = options.label_key;
  source.multi_label = options.multi_label;
  source.classes = options.classes;
  XOE_ASSIGN(std::shared_ptr<const ImageSource> opened, open_image_source(source));
  if (opened->lost() > options.max_bad)
    return failure(Code::kDataLoss, "{}: {} places are damaged or missing, more than the {} allowed", options.directory,
                   opened->lost(), options.max_bad);
  return opened;
}

Result<int> find_classes(const ImagePipelineOptions& options, const ImageSource& source, int threads) {
  if (options.classes > 0 && source.multi_label() && options.classes != source.classes())
    return failure(Code::kInvalidArgument, "images: classes is {}; {} has {}", options.classes, options.directory,
                   source.classes());
  if (options.classes > 0) return options.classes;
  if (source.classes() > 0) return source.classes();
  return count_classes(
      source,
      {.label_offset = source.label_offset(), .skip_bad = options.on_error == OnError::kSkip, .threads = threads});
}

// Threads and batches ahead, as far as the CPUs and the memory that were given go.
MapAndBatchOptions plan_making(const ImagePipelineOptions& options, bool keep_full) {
  MapAndBatchOptions making{.threads = options.threads,
                            .depth = static_cast<std::size_t>(std::max(options.prefetch, 1)),
                            .on_error = options.on_error,
                            .max_bad = options.max_bad,
                            .keep_full = keep_full};
  if (options.threads != kAutoThreads) return making;
  making.tune = true;
  making.threads = making.cpus = most_threads(options.threads, options.processes);
  const auto side = static_cast<std::size_t>(options.image_size);
  const std::size_t batch_bytes = 3 * side * side * dtype_size(options.dtype) * static_cast<std::size_t>(options.batch);
  const std::size_t budget = memory_budget(options.memory_budget);
  const std::size_t fitting = budget / std::max<std::size_t>(batch_bytes, 1);  // one of them is the consumer's
  making.depth = std::clamp<std::size_t>(fitting > 0 ? fitting - 1 : 0, 1, kMostAhead);
  making.least_depth = std::min(static_cast<std::size_t>(std::max(options.prefetch, 1)), making.depth);
  return making;
}

}  // namespace

Result<std::unique_ptr<ImageIterator>> open_images(const ImagePipelineOptions& options) {
  XOE_TRY(check(options));
  const MapAndBatchOptions sized = plan_making(options, true);
  XOE_ASSIGN(std::shared_ptr<const ImageSource> source, open_source(options, sized.threads));
  const Remainder remainder = options.remainder.value_or(options.training ? Remainder::kDrop : Remainder::kKeep);
  const ShardPlan plan = plan_shard(source->records(), options.rank, options.size, options.batch, remainder);
  if (plan.batches == 0)
    return failure(Code::kInvalidArgument, "{}: {} records are too few for {} ranks with batches of {}",
                   options.directory, source->records(), options.size, options.batch);
  XOE_ASSIGN(const int classes, find_classes(options, *source, sized.threads));

  const OrderOptions ordering{.shuffle = options.training,
                              .buffer = static_cast<std::size_t>(options.shuffle_buffer),
                              .seed = options.seed,
                              .by_file = options.shard_by_file};
  const auto order = record_order(source, ordering);
  const auto mine = shard_batches(order, {options.rank, options.size, options.batch, remainder});
  const LoaderRecipe recipe{.image = {.making = making_of(options),
                                      .seed = options.seed,
                                      .classes = classes,
                                      .label_offset = source->label_offset(),
                                      .rank = options.rank},
                            .batch = options.batch,
                            .batches = plan.batches,
                            .processes = options.processes,
                            .order_fingerprint = order_fingerprint(*source, ordering),
                            .making = plan_making(options, remainder != Remainder::kKeep)};
  XOE_ASSIGN(auto loader, ImageLoader::open(std::move(source), repeat(mine, options.epochs), recipe));
  return loader;
}

}  // namespace xoe::data
