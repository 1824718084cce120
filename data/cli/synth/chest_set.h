// Writes a directory in the layout of NIH ChestX-ray14.
#pragma once

#include <cstdint>
#include <string>

#include "data/cli/synth/data_set.h"
#include "xoe/status.h"

namespace xoe::data::synth {

struct ChestSetOptions {
  std::string directory = {};  // must not exist, or be empty
  std::int64_t images = 3000;  // in train_val_list.txt, for training and validation
  std::int64_t test = 600;     // in test_list.txt; may be 0
  int size = 256;              // pixels, of height and width
  std::uint64_t seed = 0;
  int threads = 0;  // 0: all cores
};

// DIR/Data_Entry_2017.csv, images_001/images/00000001_000.png and so on (8-bit grey, up to 5000 a folder), both lists.
// About half of the images have no finding, the others one to three; a patient has two images, both in one list. The
// bytes depend only on the options. The directory appears whole or not at all.
Result<DataSetReport> make_chest_set(const ChestSetOptions& options, const Progress& progress);

}  // namespace xoe::data::synth
