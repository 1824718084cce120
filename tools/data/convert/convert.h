// Writes a data set of images anew: other files, other layout, smaller images.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/source/formats.h"
#include "tools/data/convert/picture.h"
#include "tools/data/convert/shard_writer.h"

namespace xoe::data {

struct ConvertOptions {
  ImagePipelineOptions from = {};  // as open_image_source() takes them; on_error and max_bad are skip_bad's
  std::string directory = {};      // made when missing
  ConvertTo to = ConvertTo::kTfRecord;
  int shards = 0;  // files; 0: suggest_shards(). Of a folder: the parts that are done or not
  Compression compression = Compression::kNone;  // of TFRecord
  std::optional<std::uint64_t> shuffle = {};     // the seed of another order
  int threads = 0;                               // each writes a shard; 0: all cores
  PictureOptions pictures = {};
  std::int64_t skip_bad = 0;  // so many bad images are left out and counted
};

struct ConvertReport {
  std::int64_t images = 0;
  std::int64_t skipped = 0;
  std::vector<std::string> bad;  // the first of them, of this run
  int shards = 0;
  int kept = 0;  // shards that an earlier run had finished
  std::uint64_t bytes = 0;
  double seconds = 0;
};

// Called from the caller's thread 50 times a second; false stops.
using ConvertProgress = std::function<bool(std::int64_t done, std::int64_t total)>;

// Images, names and order of shard s depend on source and options alone, not on threads or interruptions. Each shard
// appears whole; those that are finished when something fails stay, and the same call goes on behind them.
//
// `invalid_argument`: an option out of range; images of the same split, or an unfinished conversion with other options,
// in the directory; classes that differ from those in its labels.txt; images of several classes to something else
// than TFRecord; `data_loss`: too many bad images; `resource_exhausted`: the disk is full; `unavailable`: stopped.
Result<ConvertReport> convert(const ConvertOptions& options, const ConvertProgress& progress);

// So many files that each has about 128 MiB, and some for several readers where there are enough images.
int suggest_shards(std::int64_t images, std::uint64_t bytes) noexcept;

}  // namespace xoe::data
