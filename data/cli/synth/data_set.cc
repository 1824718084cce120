#include "data/cli/synth/data_set.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/text.h"
#include "data/cli/require.h"
#include "data/files/listing.h"
#include "data/jpeg/jpeg.h"
#include "data/records/example.h"
#include "data/stages/random.h"
#include "data/threads.h"
#include "xoe/data/record_writer.h"

namespace xoe::data::synth {
namespace {

struct SplitPlan {
  std::string_view name;
  std::int64_t images;
  int shards;
  std::uint64_t key;
};

Status check(const DataSetOptions& options) {
  XOE_TRY(
      require(options.classes >= 1 && options.classes <= kMaxClasses, "classes must be 1 to 1000", options.classes));
  XOE_TRY(require(options.images >= 1, "images must be 1 or more", options.images));
  XOE_TRY(require(options.validation >= 0, "validation images must be 0 or more", options.validation));
  XOE_TRY(require(options.shards >= 1 && options.shards <= 99999, "shards must be 1 to 99999", options.shards));
  XOE_TRY(require(options.shards <= options.images, "shards must be at most the number of images", options.shards));
  XOE_TRY(require(options.size_min >= 16, "the smallest size must be 16 or more", options.size_min));
  XOE_TRY(require(options.size_max >= options.size_min && options.size_max <= 4096,
                  "the largest size must be between the smallest and 4096", options.size_max));
  if (options.width != 0 || options.height != 0) {
    XOE_TRY(require(options.width >= 16 && options.width <= 4096, "the width must be 16 to 4096", options.width));
    XOE_TRY(require(options.height >= 16 && options.height <= 4096, "the height must be 16 to 4096", options.height));
  }
  const Film& film = options.film;
  if (!(film.grain_min >= 0 && film.grain_min <= film.grain_max && film.grain_max <= 1))
    return failure(Code::kInvalidArgument, "grain must be within 0 to 1, the least first, not {} to {}", film.grain_min,
                   film.grain_max);
  if (!(film.detail >= 0 && film.detail <= 10))
    return failure(Code::kInvalidArgument, "detail must be within 0 to 10, not {}", film.detail);
  XOE_TRY(require(options.quality >= 1 && options.quality <= 100, "quality must be 1 to 100", options.quality));
  return require(options.threads >= 0 && options.threads <= 1024, "threads must be 0 to 1024", options.threads);
}

struct Size {
  int width = 0;
  int height = 0;
};

Size draw_size(const DataSetOptions& options, Random& random) {
  if (options.width != 0) return {options.width, options.height};
  Size size;
  size.width = random.integer(options.size_min, options.size_max);
  size.height =
      std::clamp(static_cast<int>(size.width * random.uniform(0.65, 1.0)), options.size_min, options.size_max);
  if (random.chance(0.3)) std::swap(size.width, size.height);
  return size;
}

// One record, which depends on its number, not on other images.
Result<std::string> make_record(const DataSetOptions& options, const SplitPlan& split, std::int64_t number) {
  Random random(options.seed, split.key, static_cast<std::uint64_t>(number));
  const int label = static_cast<int>(number % options.classes);
  const Size size = draw_size(options, random);
  Image image;
  render(label, size.width, size.height, random.bits(), image, options.film);
  JpegEncoding encoding{.quality = options.quality};
  if (!options.plain) {
    encoding.grey = random.chance(1.0 / 16);
    encoding.progressive = random.chance(0.05);
  }
  XOE_ASSIGN(const std::string jpeg, encode_jpeg(image, encoding));
  return make_image_example({.encoded = jpeg,
                             .label = label + 1,
                             .text = kind_name(label),
                             .filename = fmt::format("{}_{:08}.JPEG", split.name, number),
                             .height = size.height,
                             .width = size.width,
                             .channels = encoding.grey ? 1 : 3});
}

using Records = std::vector<std::optional<Result<std::string>>>;

Records make_records(const DataSetOptions& options, const SplitPlan& split, std::int64_t first, std::int64_t count) {
  Records records(static_cast<std::size_t>(count));
  for_each_in_threads(records.size(), thread_count(options.threads), [&](std::size_t i) {
    records[i].emplace(make_record(options, split, first + static_cast<std::int64_t>(i)));
  });
  return records;
}

class DataSetWriter {
 public:
  DataSetWriter(const DataSetOptions& options, const Progress& progress)
      : options_(options),
        progress_(progress),
        splits_{SplitPlan{"train", options.images, options.shards, 1},
                SplitPlan{"validation", options.validation, validation_shards(options), 2}} {}

  Result<DataSetReport> make() {
    XOE_TRY(prepare());
    for (const SplitPlan& split : splits_) XOE_TRY(write(split));
    if (Status published = publish(); !published) {
      for (const std::string& path : published_) xoe::remove_unfinished(path);
      return failure(published.error());
    }
    return report_;
  }

 private:
  static int validation_shards(const DataSetOptions& options) {
    const std::int64_t wanted = std::min<std::int64_t>((options.shards + 3) / 4, options.validation);
    return static_cast<int>(wanted);
  }

  Status prepare() {
    std::error_code error;
    std::filesystem::create_directories(options_.directory, error);
    if (error)
      return failure(Code::kUnavailable, "{}: cannot make the directory: {}", options_.directory, error.message());
    for (const SplitPlan& split : splits_) {
      const auto there = match_files(options_.directory, fmt::format("{}-*", split.name));
      if (there) replaced_.insert(replaced_.end(), there->begin(), there->end());
    }
    if (!replaced_.empty() && !options_.overwrite)
      return failure(Code::kInvalidArgument, "{}: it already holds {}; choose another directory or overwrite",
                     options_.directory, counted(std::ssize(replaced_), "record file"));
    // Files that a killed run left.
    for (const char* pattern : {".train-*.unfinished-*", ".validation-*.unfinished-*"})
      if (const auto stale = match_files(options_.directory, pattern))
        for (const std::string& path : *stale) ::unlink(path.c_str());
    return {};
  }

  Status write(const SplitPlan& split) {
    std::int64_t written = 0;
    for (int shard = 0; shard < split.shards; ++shard) {
      std::string path = fmt::format("{}/{}-{:05}-of-{:05}", options_.directory, split.name, shard, split.shards);
      paths_.push_back(path);
      XOE_ASSIGN(RecordWriter writer, RecordWriter::create(std::move(path)));
      const std::int64_t end = split.images * (shard + 1) / split.shards;
      for (; written < end; written += kImagesInMemory) {
        const std::int64_t count = std::min(kImagesInMemory, end - written);
        for (auto& record : make_records(options_, split, written, count)) {
          if (!*record) return failure(record->error());
          XOE_TRY(writer.write(**record));
        }
        done_ += count;
        if (!progress_(done_, options_.images + options_.validation))
          return failure(Code::kUnavailable, "stopped after {} images; nothing was kept", done_);
      }
      written = end;
      XOE_TRY(writer.complete());
      writers_.push_back(std::move(writer));
    }
    return {};
  }

  // All files are complete under hidden names before the first one appears.
  Status publish() {
    std::string labels;
    for (int label = 0; label < options_.classes; ++label) labels += kind_name(label) + "\n";
    for (const std::string& path : replaced_) ::unlink(path.c_str());
    const std::string labels_path = options_.directory + "/labels.txt";
    XOE_TRY(write_file(labels_path, labels));
    published_.push_back(labels_path);
    for (std::size_t i = 0; i < writers_.size(); ++i) {
      XOE_TRY(writers_[i].finish());
      published_.push_back(paths_[i]);
      report_.bytes += writers_[i].bytes();
    }
    report_.images = options_.images;
    report_.validation = options_.validation;
    report_.files = static_cast<int>(writers_.size());
    return {};
  }

  const DataSetOptions& options_;
  const Progress& progress_;
  const std::array<SplitPlan, 2> splits_;
  std::vector<std::string> replaced_;
  std::vector<std::string> paths_;
  std::vector<RecordWriter> writers_;
  std::vector<std::string> published_;
  std::int64_t done_ = 0;
  DataSetReport report_;
};

}  // namespace

Result<DataSetReport> make_data_set(const DataSetOptions& options, const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  XOE_TRY(check(options));
  const bool existed = std::filesystem::exists(options.directory);
  auto report = DataSetWriter(options, progress).make();
  if (!report && !existed) ::rmdir(options.directory.c_str());  // fails unless it is empty
  if (report) report->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace xoe::data::synth
