// Two pipelines from record files to batches, for `xoe data compare` and example_read_images: the same stages in two
// orders, after Dell's article on training CheXNet on several nodes (2019).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "xoe/data/pixels.h"
#include "xoe/data/records.h"
#include "xoe/data/stages.h"

namespace xoe::examples {

struct WayOptions {
  std::string directory;  // of train-* files in the ImageNet layout
  int rank = 0;           // this process of
  int size = 1;           // so many
  int batch = 64;
  data::ImageSize image_size = 224;
  data::PixelOptions pixels = {};
  int threads = 2;             // that decode
  int shuffle = 500;           // elements in the shuffle buffer
  int label_offset = 1;        // the label stored for the first class
  bool allow_missing = false;  // go on without files that should be there
  std::int64_t max_bad = 0;    // records that are left out; one more is an error
  std::uint64_t seed = 0;
  std::int64_t epochs = 0;  // 0: never ends
  int ahead = 0;            // batches in flight in the old way; 0: as many as a batch has images, as in the article
};

// The input of one training step.
struct Images {
  std::shared_ptr<float> pixels;     // [count, 3, height, width]
  std::vector<std::int64_t> labels;  // from 0
  int count = 0;
};
// The next batch; nullopt at the end.
using NextImages = std::function<Result<std::optional<Images>>()>;

Result<NextImages> old_way(const WayOptions& options);
Result<NextImages> new_way(const WayOptions& options);

// The train-* files of a directory, sorted.
Result<std::vector<std::string>> record_files(const WayOptions& options);

// A record, and where it was read.
struct FileRecord {
  data::Record record;
  std::shared_ptr<const std::string> file;

  // "data/train-00000-of-00004: record 17 at byte 90112"
  std::string name() const;
};
// The records of one file.
Result<data::StagePtr<FileRecord>> read_file(const WayOptions& options, const std::string& file);

// The JPEG and the label of one record, counted from 0.
struct Encoded {
  std::string_view jpeg;
  std::int64_t label = 0;
};
Result<Encoded> parse(std::string_view record, int label_offset);

// The same error, with the name of its record in front.
Error error_in(const std::string& name, const Error& error);

}  // namespace xoe::examples
