// Turns one record into one image of a batch.
#pragma once

#include <memory>
#include <string>

#include "data/jpeg.h"
#include "data/record_index.h"

namespace xoe::data {

struct ImageRecipe {
  int output = 224;
  bool training = true;
  double min_area = 0.08;
  std::uint64_t seed = 0;
  int classes = 0;
  int label_offset = 1;
};

// What a thread needs to make images: keeps its buffers from image to image. One thread at a time.
class ImageWorker {
 public:
  ImageWorker(std::shared_ptr<const RecordIndex> index, ImageRecipe recipe)
      : index_(std::move(index)), recipe_(recipe) {}

  // Writes 3 x output x output floats and returns the class. Errors name file, record and byte offset.
  Result<std::int64_t> make(const RecordRef& ref, float* planes);

 private:
  Result<std::int64_t> decode(std::string_view example);

  std::shared_ptr<const RecordIndex> index_;
  ImageRecipe recipe_;
  std::string record_;
  JpegDecoder decoder_;
  Image image_;
};

// One more than the highest label of all records. Reads them all.
Result<int> count_classes(const RecordIndex& index, int label_offset);

}  // namespace xoe::data
