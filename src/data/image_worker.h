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

// Bad bytes can be left out; a file that is gone, or a bug, cannot.
bool may_skip(const Error& error);

struct ClassCount {
  int label_offset = 1;
  bool skip_bad = false;  // leaves out what may_skip()
  int threads = 1;        // besides the caller's when above 1
};
// One more than the highest label of all records. Reads them all. The error is that of the first bad record.
Result<int> count_classes(const RecordIndex& index, const ClassCount& count);

}  // namespace xoe::data
