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
#include "xoe/data/stages.h"

namespace xoe::examples {

struct WayOptions {
  std::string directory;  // of train-* files in the ImageNet layout
  int rank = 0;           // this process of
  int size = 1;           // so many
  int batch = 64;
  data::ImageSize image_size = 224;
  data::PixelOptions pixels = {};
  int threads = 2;       // that decode
  int shuffle = 500;     // elements in the shuffle buffer
  int label_offset = 1;  // the label stored for the first class
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
Result<std::vector<std::string>> record_files(const std::string& directory);

// The JPEG and the label of one record, counted from 0.
struct Encoded {
  std::string_view jpeg;
  std::int64_t label = 0;
};
Result<Encoded> parse(std::string_view record, int label_offset);

}  // namespace xoe::examples
