#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "data/image_loader.h"
#include "xoe/data/images.h"

namespace xoe::data {
namespace {

constexpr int kMaxSide = 8192;

Status require(bool good, std::string_view what, std::int64_t value) {
  if (good) return {};
  return failure(Code::kInvalidArgument, "images: {} is {}", what, value);
}

Status check(const ImagePipelineOptions& options) {
  XOE_TRY(require(options.batch > 0 && options.batch <= 1 << 20, "batch (1 to 1048576)", options.batch));
  XOE_TRY(
      require(options.image_size > 0 && options.image_size <= kMaxSide, "image_size (1 to 8192)", options.image_size));
  XOE_TRY(require(options.size > 0, "size (1 or more)", options.size));
  XOE_TRY(require(options.rank >= 0 && options.rank < options.size, "rank (0 to size - 1)", options.rank));
  XOE_TRY(require(options.threads >= 0 && options.threads <= 1024, "threads (0 to 1024)", options.threads));
  XOE_TRY(require(options.prefetch >= 0 && options.prefetch <= 1024, "prefetch (0 to 1024)", options.prefetch));
  XOE_TRY(require(options.shuffle_buffer >= 0, "shuffle_buffer (0 or more)", options.shuffle_buffer));
  XOE_TRY(require(options.epochs >= 0, "epochs (0 or more)", options.epochs));
  XOE_TRY(require(options.max_bad >= 0, "max_bad (0 or more)", options.max_bad));
  if (!(options.min_area > 0 && options.min_area <= 1))
    return failure(Code::kInvalidArgument, "images: min_area (above 0, up to 1) is {}", options.min_area);
  return require(options.classes >= 0, "classes (0 or more)", options.classes);
}

// Lines of labels.txt, or nothing when there is no such file.
int count_label_lines(const std::string& directory) {
  std::ifstream file(directory + "/labels.txt");
  int lines = 0;
  for (std::string line; std::getline(file, line);) lines += line.empty() ? 0 : 1;
  return lines;
}

Result<int> find_classes(const ImagePipelineOptions& options, const RecordIndex& index) {
  if (options.classes > 0) return options.classes;
  if (const int lines = count_label_lines(options.directory); lines > 0) return lines;
  return count_classes(index, {.label_offset = options.label_offset,
                               .skip_bad = options.on_error == OnError::kSkip,
                               .threads = options.threads});
}

}  // namespace

Result<std::unique_ptr<ImageIterator>> open_images(const ImagePipelineOptions& options) {
  XOE_TRY(check(options));
  const std::string pattern = !options.pattern.empty() ? options.pattern
                              : options.training       ? "train-*"
                                                       : "validation-*";
  XOE_ASSIGN(const auto paths, match_files(options.directory, pattern));
  XOE_ASSIGN(const auto index, RecordIndex::open(paths, options.threads));
  const Remainder remainder = options.remainder.value_or(options.training ? Remainder::kDrop : Remainder::kKeep);
  const ShardPlan plan = plan_shard(index->records(), options.rank, options.size, options.batch, remainder);
  if (plan.batches == 0)
    return failure(Code::kInvalidArgument, "{}: {} records in {} files {} are too few for {} ranks with batches of {}",
                   options.directory, index->records(), index->files(), pattern, options.size, options.batch);
  XOE_ASSIGN(const int classes, find_classes(options, *index));

  auto records = list_records(index, options.training, options.seed);
  if (options.training) records = shuffle(records, static_cast<std::size_t>(options.shuffle_buffer), options.seed);
  const auto mine = shard(records, options.rank, options.size, options.batch, remainder);
  const auto batches = repeat(batch(mine, options.batch, plan.batches), options.epochs);
  XOE_ASSIGN(auto upstream, batches->iterate(0));

  const LoaderRecipe recipe{.image = {.output = options.image_size,
                                      .training = options.training,
                                      .min_area = options.min_area,
                                      .seed = options.seed,
                                      .classes = classes,
                                      .label_offset = options.label_offset},
                            .batch = options.batch,
                            .threads = options.threads,
                            .depth = static_cast<std::size_t>(std::max(options.prefetch, 1)),
                            .keep_full = remainder != Remainder::kKeep,
                            .on_error = options.on_error,
                            .max_bad = options.max_bad,
                            .records = index->records(),
                            .batches = plan.batches,
                            .joint_batch = std::int64_t{options.batch} * options.size};
  return std::make_unique<ImageLoader>(index, std::move(upstream), recipe);
}

}  // namespace xoe::data
