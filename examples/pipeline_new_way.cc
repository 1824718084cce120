// The recommended order, step by step: each rank reads only its own files, the shuffle buffer holds small records, and
// images are decoded straight into the batch. One flaw is left: ranks whose files hold fewer records get fewer batches.
// open_images() avoids it with shard_batches(), which gives all ranks equally many, also with more ranks than files.
#include <utility>

#include "input_pipelines.h"
#include "xoe/data/image_transform.h"
#include "xoe/data/map_and_batch.h"
#include "xoe/data/records.h"

namespace xoe::examples {
namespace {

using data::StagePtr;

constexpr int kCycle = 10;  // files read in turns

// A copy of a record. A Record would keep the whole block of the file in memory that holds it.
struct Raw {
  std::string bytes;
  std::uint64_t key = 0;
  FileRecord from;  // without the bytes
};

Result<Raw> copy(std::uint64_t seed, const FileRecord& from) {
  const data::Record& record = from.record;
  return Raw{std::string(record.data),
             data::mix(seed, record.offset, static_cast<std::uint64_t>(record.number)),
             {{.data = {}, .number = record.number, .offset = record.offset, .memory = {}}, from.file}};
}

Status decode(const WayOptions& options, const data::Numbered<Raw>& record, std::span<void* const> places) {
  auto parsed = parse(record.element.bytes, options.label_offset);
  if (!parsed) return failure(error_in(record.element.from.name(), parsed.error()));
  *static_cast<std::int64_t*>(places[1]) = parsed->label;
  thread_local data::ImageTransformer transformer;
  const std::uint64_t key =
      data::mix(record.element.key, static_cast<std::uint64_t>(record.epoch));  // another crop each epoch
  const Status made =
      transformer.run({.size = options.image_size, .pixels = options.pixels}, parsed->jpeg, key, places[0]);
  if (!made) return failure(error_in(record.element.from.name(), made.error()));
  return {};
}

Images images_of(const data::TensorBatch& batch) {
  const auto* labels = batch.data<std::int64_t>(1);
  return {std::static_pointer_cast<float>(batch.tensors[0]), {labels, labels + batch.count}, batch.count};
}

}  // namespace

Result<NextImages> new_way(const WayOptions& options) {
  // 1. List the files.
  auto list = record_files(options);
  if (!list) return failure(list.error());
  const auto buffer = static_cast<std::size_t>(options.shuffle);
  const StagePtr<std::string> files = data::from_vector(std::move(*list));
  // 2. Keep this rank's files, before anything is read.
  const auto mine = data::shard(files, options.rank, options.size);
  // 3. Shuffle file names.
  const auto shuffled_files = data::shuffle(mine, buffer, options.seed);
  // 4. Read several files in turns.
  const auto records = data::interleave<FileRecord, std::string>(
      shuffled_files, [options](const std::string& file) { return read_file(options, file); },
      {.cycle_length = kCycle});
  // 5. Read records ahead, not images.
  const auto seed = options.seed;
  const auto raw = data::prefetch(
      data::map<Raw, FileRecord>(records, [seed](const FileRecord& record) { return copy(seed, record); }),
      static_cast<std::size_t>(options.batch));
  // 6. Shuffle encoded records, which are small.
  const auto shuffled = data::shuffle(raw, buffer, options.seed);
  // 7. Repeat, batch by batch, so that each belongs to one epoch; the last one may be short.
  const auto repeated = data::repeat(data::batch(data::numbered(shuffled), options.batch), options.epochs);
  // 8. Decode into the batch's memory, and 9. keep two batches in flight.
  const auto [height, width] = options.image_size;
  auto batches = data::map_and_batch<data::Numbered<Raw>>(
      repeated, options.batch, {{DType::kFloat32, {3, height, width}}, {DType::kInt64, {}}},
      [options](const data::Numbered<Raw>& record, std::span<void* const> places, int) {
        return decode(options, record, places);
      },
      {.threads = options.threads, .depth = 2, .max_bad = options.max_bad});
  if (!batches) return failure(batches.error());

  return [walk = std::shared_ptr<data::TensorIterator>(std::move(*batches))]() -> Result<std::optional<Images>> {
    auto batch = walk->next();
    if (!batch) return failure(batch.error());
    if (!*batch) return std::nullopt;
    return images_of(**batch);
  };
}

}  // namespace xoe::examples
