// The formats that data sets of images come in; docs/formats describes each. A format is a file in this folder that
// defines a SourceLayout, declared below and listed in the table of formats.cc, and a value of SourceFormat in
// xoe/data/images.h. Pipelines and training need nothing else; data/cli checks and writes formats one by one.
#pragma once

#include <string>
#include <string_view>

#include "data/files/listing.h"
#include "data/files/missing.h"
#include "data/source/image_source.h"
#include "xoe/data/images.h"
#include "xoe/data/records.h"
#include "xoe/status.h"

namespace xoe::data {

// What opening a data set left out, because the options allow it.
struct LeftOut {
  BadRecords missing;  // parts that should be there and are not (allow_missing)
  BadRecords bad;      // images and places that cannot be read (max_bad)
};

struct SourceLayout {
  SourceFormat format;
  std::string_view name;  // "tfrecord"
  // Whether a directory, or a single file (its name alone is listed, and it need not exist), is of this format.
  bool (*recognises)(const std::string& path, bool is_directory, const Listing& contents);
  // Whether a directory has anything that belongs to the split (options.training), be it right or not.
  bool (*has_split)(const ImagePipelineOptions& options);
  // `missing` is told of what should be there and is not; `bad`, which may be null, gets a message for each place that
  // is left out (max_bad, which is settled with on_error).
  Result<SourcePtr> (*open)(const ImagePipelineOptions& options, MissingData& missing, BadRecords* bad);
};

extern const SourceLayout kTfRecordFormat;
extern const SourceLayout kFolderFormat;
extern const SourceLayout kNihChestFormat;
extern const SourceLayout kIdxFormat;
extern const SourceLayout kTarFormat;

// Opens the data set that the options name: directory, format, pattern, split or training (which images), threads (that
// open files), allow_missing, on_error and max_bad (damaged places), label_offset, and for TFRecord the keys and
// classes. The other options are ignored. `unavailable`: no such directory, or nothing in it that fits; `data_loss`:
// damaged or missing files; `invalid_argument`: options that do not fit the format. `left_out` may be null.
Result<SourcePtr> open_image_source(ImagePipelineOptions options, LeftOut* left_out = nullptr);

// The format that open_image_source() chooses. `unavailable`: the directory holds none of them.
Result<SourceFormat> detect_source_format(const ImagePipelineOptions& options);

// For formats whose files hold many images: removes those paths in a directory that are no files, and tells `missing`
// of them and of shards that are absent.
void keep_shards(const ImagePipelineOptions& options, std::vector<std::string>& paths, MissingData& missing);
// The label stored for class 0, where options leave it open and `usual` is what the layout has.
inline int label_offset_of(const ImagePipelineOptions& options, int usual) noexcept {
  return options.label_offset == kAutoLabelOffset ? usual : options.label_offset;
}
// `invalid_argument` where a layout whose classes have names, not numbers, gets a label_offset.
Status check_no_label_offset(const ImagePipelineOptions& options, std::string_view layout);

// Those of `paths` that are none of `others`; each is sorted.
std::vector<std::string> without(std::vector<std::string> paths, const std::vector<std::string>& others);

// Both, where both went wrong, so that the first does not hide the second.
Status both(Status first, Status second);

// Whether one of the first TFRecords lists no class or several, so that they must be opened with multi_label.
Result<bool> lists_labels(const ImagePipelineOptions& options);
inline constexpr int kMaxMultiLabelClasses = 1 << 20;

}  // namespace xoe::data
