// Writes a directory of rendered pictures in the ImageNet TFRecord layout.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tools/data/synth/render.h"
#include "xoe/status.h"

namespace xoe::data::synth {

struct DataSetOptions {
  std::string directory = {};  // made when missing
  std::int64_t images = 3000;
  std::int64_t validation = 600;  // may be 0
  int classes = 10;
  int shards = 4;  // of the training images; a fourth as many of the others
  std::uint64_t seed = 0;
  int size_min = 96;   // of the shorter side, pixels
  int size_max = 200;  // of the longer side
  int width = 0;       // with `height`: of every picture, instead of the two above; 0: drawn
  int height = 0;
  int quality = 88;
  Film film = {};
  bool plain = false;      // neither grey nor progressive ones
  int threads = 0;         // 0: all cores
  bool overwrite = false;  // train-*, validation-* and labels.txt that are there
};

inline constexpr std::int64_t kImagesInMemory = 256;

struct DataSetReport {
  std::int64_t images = 0;
  std::int64_t validation = 0;
  int files = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;
};

// Called from the caller's thread; false stops.
using Progress = std::function<bool(std::int64_t done, std::int64_t total)>;

// Image i has class i modulo classes, so every file has all classes. One picture in 16 is grey, one in 20 progressive,
// unless `plain`. The bytes depend on the options alone. On any failure, a full disk too (`resource_exhausted`), none
// of the files is there.
Result<DataSetReport> make_data_set(const DataSetOptions& options, const Progress& progress);

}  // namespace xoe::data::synth
