// Batches of decoded images from TFRecord files in the ImageNet layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "xoe/data/stage.h"
#include "xoe/data/stages.h"

namespace xoe::data {

// Images as float32 [count, channels, height, width], normalised with ImageNet's mean and standard deviation, and their
// classes counted from 0. The memory is the batch's own for as long as a copy of `pixels` lives (it goes back to the
// iterator for reuse then), also after the iterator is gone. May be written to.
struct ImageBatch {
  std::shared_ptr<float> pixels;
  std::vector<std::int64_t> labels;  // [count]
  int count = 0;                     // 0 is possible in evaluation: this rank has no record left, others do
  int channels = 3;
  int height = 0;
  int width = 0;
  std::int64_t epoch = 0;  // from 0
  std::int64_t index = 0;  // of this batch within the epoch
};

enum class OnError : std::uint8_t {
  kFail,  // the first bad record ends the iterator with `data_loss`, naming file, record and byte offset
  kSkip,  // bad records are left out and counted; more than `max_bad` in an epoch fail
};

struct ImagePipelineOptions {
  std::string directory = {};
  std::string pattern = {};    // of file names, with * and ?; empty: "train-*" when training, else "validation-*"
  int batch = 32;              // images per rank and batch
  int image_size = 224;        // height and width of what is delivered
  int rank = 0;                // this rank of
  int size = 1;                // so many
  int threads = 1;             // that decode; 0: next() does the work in its caller's thread
  int shuffle_buffer = 10000;  // records; training only; at least the number of records shuffles perfectly. It holds
                               // positions, 16 bytes each, not images
  int prefetch = 2;            // batches made ahead
  std::uint64_t seed = 0;      // of order and distortions
  bool training = true;        // shuffled, randomly cropped and flipped; else in file order, centre crop
  std::int64_t epochs = 0;     // after so many the iterator ends; 0: never
  std::optional<Remainder> remainder = {};  // unset: kDrop when training, kKeep when not
  OnError on_error = OnError::kFail;
  std::int64_t max_bad = 100;  // per epoch and rank, with OnError::kSkip
  int classes = 0;         // 0: the lines of labels.txt in the directory, else found by reading every record once, in
                           // `threads` threads; with kSkip bad ones are left out
  double min_area = 0.08;  // share of an image that a training crop covers at least; more learns faster from few images
  int label_offset = 1;    // the label stored for class 0; 1 in the ImageNet layout
};

// Order: a pure function of (seed, epoch) and the records; rank r of n takes elements r, r+n, r+2n, ... of it. So step
// s uses the same images for any number of ranks with the same joint batch. Distortions: a pure function of (seed,
// epoch, record). Threads and prefetch change neither.
//
// Every rank delivers the same number of batches per epoch. Training (Remainder::kDrop) leaves out the last records of
// an epoch that fill no batch on all ranks, others every epoch; Remainder::kPad fills up from the epoch's beginning
// instead. Evaluation (kKeep) delivers every record exactly once: the last batch of a rank may be short or empty.
//
// With OnError::kSkip a bad image's place is taken by the next good one of its batch in kDrop and kPad, so that batches
// stay full; with kKeep the batch shrinks. A batch without any good image in kDrop or kPad is `data_loss`.
class ImageIterator : public Iterator<ImageBatch> {
 public:
  virtual std::int64_t records_per_epoch() const = 0;  // over all ranks, before dropping or padding
  virtual std::int64_t batches_per_epoch() const = 0;  // the same on every rank
  virtual int classes() const = 0;
  virtual std::int64_t skipped() const = 0;      // bad records left out so far; kept by save() and restore()
  virtual double waited_seconds() const = 0;     // spent in next() by its caller
  virtual std::size_t memory_bytes() const = 0;  // upper bound of what batches in flight take, for reports
};

// Opens the files and checks their framing (lengths, and their CRCs; the data's CRCs are checked as records are read).
// `unavailable`: no such directory or no file matches; `data_loss`: corrupt or truncated file; `invalid_argument`:
// an option out of range, or fewer records than one batch on all ranks needs.
Result<std::unique_ptr<ImageIterator>> open_images(const ImagePipelineOptions& options);

}  // namespace xoe::data
