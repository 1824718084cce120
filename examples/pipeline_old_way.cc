// The slow order, step by step. It does no harm with one rank. With several,
// - each rank decodes all images and drops those of the others: N ranks do the work N times;
// - the shuffle buffer holds decoded images, ten times as large as the files;
// - 64 whole batches are made ahead: gigabytes before the first step.
#include <cstring>
#include <utility>

#include "input_pipelines.h"
#include "xoe/data/image_transform.h"
#include "xoe/data/records.h"

namespace xoe::examples {
namespace {

using data::StagePtr;

struct Decoded {
  std::shared_ptr<float> pixels;
  std::int64_t label = 0;
};

std::size_t image_floats(const WayOptions& options) {
  return 3 * static_cast<std::size_t>(options.image_size.pixels());
}

std::shared_ptr<float> floats(std::size_t count) { return {new float[count], std::default_delete<float[]>()}; }

Result<Decoded> decode(const WayOptions& options, const FileRecord& from) {
  const data::Record& record = from.record;
  auto parsed = parse(record.data, options.label_offset);
  if (!parsed) return failure(error_in(from.name(), parsed.error()));
  thread_local data::ImageTransformer transformer;
  Decoded image{floats(image_floats(options)), parsed->label};
  // The same crop in every epoch, because the function of a map sees only its element.
  const std::uint64_t key = data::mix(options.seed, record.offset, static_cast<std::uint64_t>(record.number));
  auto made =
      transformer.run({.size = options.image_size, .pixels = options.pixels}, parsed->jpeg, key, image.pixels.get());
  if (!made) return failure(error_in(from.name(), made.error()));
  return image;
}

Result<Images> gather(const WayOptions& options, const data::Batch<Decoded>& images) {
  const std::size_t each = image_floats(options);
  Images batch{floats(each * images.elements.size()), {}, static_cast<int>(images.elements.size())};
  float* to = batch.pixels.get();
  for (const Decoded& image : images.elements) {
    std::memcpy(to, image.pixels.get(), each * sizeof(float));
    to += each;
    batch.labels.push_back(image.label);
  }
  return batch;
}

}  // namespace

Result<NextImages> old_way(const WayOptions& options) {
  // 1. List the files.
  auto files = record_files(options);
  if (!files) return failure(files.error());
  // 2. Read one file after the other.
  const auto records = data::interleave<FileRecord, std::string>(
      data::from_vector(std::move(*files)), [options](const std::string& file) { return read_file(options, file); },
      {.cycle_length = 1});
  // 3. Parse, decode and preprocess.
  const auto decoded =
      data::map<Decoded, FileRecord>(records, [options](const FileRecord& record) { return decode(options, record); },
                                     {.threads = options.threads, .max_bad = options.max_bad});
  // 4. Keep this rank's images: too late, all were decoded.
  const auto mine = data::shard(decoded, options.rank, options.size);
  // 5. Shuffle decoded images.
  const auto shuffled = data::shuffle(mine, static_cast<std::size_t>(options.shuffle), options.seed);
  // 6. Repeat.
  const auto repeated = data::repeat(shuffled, options.epochs);
  // 7. Copy images together into batches.
  const auto batches = data::map<Images, data::Batch<Decoded>>(
      data::batch(repeated, options.batch),
      [options](const data::Batch<Decoded>& images) { return gather(options, images); });
  // 8. Make as many batches ahead as a batch has images.
  const auto ahead =
      data::prefetch(batches, static_cast<std::size_t>(options.ahead > 0 ? options.ahead : options.batch));

  auto iterator = ahead->iterate(0);
  if (!iterator) return failure(iterator.error());
  return [walk = std::shared_ptr<data::Iterator<Images>>(std::move(*iterator))] { return walk->next(); };
}

}  // namespace xoe::examples
