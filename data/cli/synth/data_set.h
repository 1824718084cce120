// Writes a directory of rendered images in the ImageNet TFRecord layout.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "data/cli/synth/render.h"
#include "xoe/status.h"

namespace xoe::data::synth {

struct DataSetOptions {
  std::string directory = {};  // created if missing
  std::int64_t images = 3000;
  std::int64_t validation = 600;  // may be 0
  int classes = 10;
  int shards = 4;  // of the training images; a quarter as many of the validation images
  std::uint64_t seed = 0;
  int size_min = 96;   // of the shorter side, pixels
  int size_max = 200;  // of the longer side
  int width = 0;       // with `height`: of every image, in place of the two above; 0: random
  int height = 0;
  int quality = 88;
  Film film = {};
  bool plain = false;      // no grey or progressive images
  int threads = 0;         // 0: all cores
  bool overwrite = false;  // replaces existing train-*, validation-* and labels.txt
};

inline constexpr std::int64_t kImagesInMemory = 256;  // before they are written

struct DataSetReport {
  std::int64_t images = 0;
  std::int64_t validation = 0;
  int files = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;
};

// Called in the caller's thread; false stops the work.
using Progress = std::function<bool(std::int64_t done, std::int64_t total)>;

// Image i has class i modulo classes, so every file has all classes. One image in 16 is grey, one in 20 progressive,
// unless `plain`. The bytes depend only on the options. After any failure, also of a full disk (`resource_exhausted`),
// none of the new files exists.
Result<DataSetReport> make_data_set(const DataSetOptions& options, const Progress& progress);

}  // namespace xoe::data::synth
