// Converts a data set of images to another format, other files or smaller images.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/cli/convert/reencode.h"
#include "data/cli/convert/shard_writer.h"
#include "data/source/formats.h"

namespace xoe::data {

enum class ConvertOrder : std::uint8_t {
  kAuto,      // kShuffled where each image of the source can be read by itself, or there are few; else kKept
  kShuffled,  // drawn by `seed`; the source is read in that order, so memory holds numbers and no images
  kKept,      // the source's
};

struct ConvertOptions {
  ImagePipelineOptions from = {};  // as open_image_source() takes them; max_bad is for the whole conversion
  std::string directory = {};      // made when missing
  ConvertTo to = ConvertTo::kTfRecord;
  int shards = 0;  // files; 0: suggest_shards(). With kFolder: the units that an interrupted conversion keeps
  Compression compression = Compression::kNone;  // of TFRecord files
  ConvertOrder order = ConvertOrder::kAuto;      // of images in files; folders have none
  std::uint64_t seed = 0;
  int threads = 0;  // each writes one shard at a time; 0: all cores
  ReencodeOptions reencode = {};
};

struct ConvertReport {
  std::int64_t images = 0;
  std::int64_t skipped = 0;                // bad images
  std::vector<std::string> bad;            // the first of them, of this run
  std::int64_t missing = 0;                // parts of the source that are missing, with from.allow_missing
  std::vector<std::string> missing_parts;  // the first of them
  std::string assumed_labels = {};         // which label_offset was taken, and from what; empty: it is certain
  bool shuffled = false;
  bool named = true;  // false: the source has no names of classes, so that they are called by five-digit numbers
  int shards = 0;
  int kept = 0;  // shards that an earlier run had finished
  std::uint64_t bytes = 0;
  double seconds = 0;
};

// Called in the caller's thread 50 times a second; false stops the conversion.
using ConvertProgress = std::function<bool(std::int64_t done, std::int64_t total)>;

// The images, names and order in a shard depend only on source and options, not on threads or interruptions. Each shard
// appears whole. After a failure the finished shards stay, and the same call continues behind them.
//
// `invalid_argument`: an option out of range; images of the same split, or an unfinished conversion with other options,
// in the directory; classes that differ from those in its labels.txt; a format other than TFRecord for images of
// several classes; `data_loss`: too many bad images; `resource_exhausted`: the disk is full; `unavailable`: stopped.
Result<ConvertReport> convert(const ConvertOptions& options, const ConvertProgress& progress);

// The number of files of about 128 MiB each; some more for parallel readers where there are enough images.
int suggest_shards(std::int64_t images, std::uint64_t bytes) noexcept;

}  // namespace xoe::data
