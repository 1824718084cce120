// Writes images as the NIH distributes ChestX-ray14; docs/formats/nih-chest.md.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/cli/synth/data_set.h"
#include "xoe/status.h"

namespace xoe::data::synth {

// Whose image it is.
struct NihPlace {
  std::int64_t number = 0;  // of the image, from 0
  std::int64_t patient = 0;
  int visit = 0;  // "Follow-up #", from 0
};

struct NihImage {
  std::vector<int> findings;         // numbers within kChestFindings, ascending
  bool frontal = true;               // PA, else AP
  std::vector<std::uint8_t> levels;  // size x size grey levels, row by row
};

struct NihSetOptions {
  std::string directory = {};  // must not exist, or be empty
  std::int64_t images = 3000;  // in train_val_list.txt, for training and validation
  std::int64_t test = 600;     // in test_list.txt; may be 0
  int size = 256;              // pixels, of height and width
  std::uint64_t seed = 0;
  int threads = 0;  // that render; 0: all cores
};

// Data_Entry_2017.csv, images_001/images/00000001_000.png and so on (8-bit grey, up to 5000 a folder), both lists; no
// test_list.txt without test images. `directory` exists: it is to become that of the options. `render` is called in
// several threads at once.
Result<DataSetReport> write_nih_layout(const std::string& directory, const NihSetOptions& options,
                                       std::span<const NihPlace> places,
                                       const std::function<NihImage(const NihPlace&)>& render,
                                       const Progress& progress);

}  // namespace xoe::data::synth
