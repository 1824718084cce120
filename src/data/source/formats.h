// Data sets of images as they lie on disks. docs/formats describes each.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/source/image_source.h"
#include "xoe/data/images.h"
#include "xoe/data/records.h"
#include "xoe/status.h"

namespace xoe::data {

enum class Split : std::uint8_t { kTrain, kValidation };

struct SourceOptions {
  std::string directory = {};  // or one file, for TFRecord, idx images and tar
  SourceFormat format = SourceFormat::kAuto;
  Split split = Split::kTrain;
  std::string pattern = {};  // of file names in the directory, for TFRecord and tar; empty: by the split
  int threads = 1;           // that open files
  // kSkip: what is damaged or missing is left out and counted (ImageSource::lost()); more than `max_lost` fail.
  OnError on_error = OnError::kFail;
  std::int64_t max_lost = 100;
  std::shared_ptr<BadRecords> bad = {};  // told of each by ChestX-ray14 and tar; may be null
  // TFRecord alone:
  std::string image_key = "image/encoded";
  std::string label_key = "image/class/label";
  int label_offset = 1;
  bool multi_label = false;  // the label feature lists several; needs `classes` or labels.txt
  int classes = 0;           // 0: the lines of labels.txt in the directory, or beside the file
};

using SourcePtr = std::unique_ptr<ImageSource>;

// `unavailable`: no such directory, or nothing in it that fits; `data_loss`: damaged files; `invalid_argument`: options
// that do not fit the format. Each of the others is what this one chooses by options.format.
Result<SourcePtr> open_image_source(const SourceOptions& options);

Result<SourcePtr> open_tfrecord_images(const SourceOptions& options);
Result<SourcePtr> open_image_folder(const SourceOptions& options);
Result<SourcePtr> open_nih_chest(const SourceOptions& options);
Result<SourcePtr> open_idx_images(const SourceOptions& options);
Result<SourcePtr> open_tar_images(const SourceOptions& options);

// Whether one of the first TFRecords lists no class or several: they are meant to be opened with multi_label.
Result<bool> lists_labels(const SourceOptions& options);
inline constexpr int kMostClasses = 1 << 20;  // of several labels

// Which format a directory or file holds. `unavailable`: none that is known.
Result<SourceFormat> detect_source_format(const std::string& directory);

}  // namespace xoe::data
