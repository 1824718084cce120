// Batches of decoded images from files of many layouts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "xoe/data/augment.h"
#include "xoe/data/opened.h"
#include "xoe/data/pixels.h"
#include "xoe/data/report.h"
#include "xoe/data/stage.h"
#include "xoe/data/stages.h"
#include "xoe/tensor.h"

namespace xoe::data {

// How a data set lies on disk; docs/formats describes each.
enum class SourceFormat : std::uint8_t {
  kAuto,      // by what the directory holds
  kTfRecord,  // tf.Examples in the ImageNet layout
  kFolder,    // one folder of JPEG and PNG files per class
  kNihChest,  // NIH ChestX-ray14: several classes an image
  kIdx,       // MNIST
  kTar,       // WebDataset
};
std::string_view source_format_name(SourceFormat format) noexcept;  // "tfrecord"; empty: there is no such format

// Which images of a data set that has both. kTest: ChestX-ray14's test_list.txt, which is kValidation too unless
// validation_share holds out patients for that.
enum class Split : std::uint8_t { kTrain, kValidation, kTest };

// Where an image was read.
struct ImageOrigin {
  std::string file;
  std::int64_t record = 0;  // within the file, from 0: of a TFRecord, a sample of an archive, an idx image; else 0
  std::string name;         // as in messages: "data/train-00000-of-00004: record 17 at byte 90112"
};

// Finds the origins of records. Thread safety: any thread at any time.
class ImageOrigins {
 public:
  virtual ~ImageOrigins() = default;
  virtual ImageOrigin origin(std::int64_t record) const = 0;
};

// Images, and their classes counted from 0. The memory is the batch's own for as long as a copy of `pixels` lives (it
// goes back to the iterator for reuse then), also after the iterator is gone. May be written to.
struct ImageBatch {
  std::shared_ptr<void> pixels;  // [count, channels, height, width] or [count, height, width, channels]
  DType dtype = DType::kFloat32;
  Layout layout = Layout::kNchw;
  std::vector<std::int64_t> labels;  // [count]; empty where images have several classes
  std::vector<float> targets;  // [count, classes]: the share of each class; empty where images have one class and are
                               // not mixed
  int count = 0;               // 0 is possible in evaluation: this rank has no record left, others do
  int channels = 3;
  int height = 0;
  int width = 0;
  std::int64_t epoch = 0;                       // from 0
  std::int64_t index = 0;                       // of this batch within the epoch
  std::int64_t left = 0;                        // batches of the epoch that follow, the same on every rank
  std::vector<std::int64_t> records;            // [count]: the images' numbers in the data set, from 0
  std::shared_ptr<const ImageOrigins> origins;  // keeps the files open while a copy of it lives

  // Where image i lies on disk: made when asked for. REQUIRES: 0 <= i < count.
  ImageOrigin origin(int i) const { return origins->origin(records[static_cast<std::size_t>(i)]); }

  // REQUIRES: dtype is kFloat32.
  float* floats() const noexcept { return static_cast<float*>(pixels.get()); }
};

template <>
struct ElementBytes<ImageBatch> {
  static constexpr bool kKnown = true;
  static std::int64_t of(const ImageBatch& batch) noexcept {
    return std::int64_t{batch.count} * batch.channels * batch.height * batch.width *
           static_cast<std::int64_t>(dtype_size(batch.dtype));
  }
};

// All records, in a permutation that takes no memory, where each can be read by itself; else a buffer of
// kShuffleBuffer: with shard_by_file, and in compressed files, where each read decompresses about a MiB. Such a buffer
// cannot mix records that lie sorted by class: where it looks so, `warn` is told.
inline constexpr int kAutoShuffle = -1;
inline constexpr int kShuffleBuffer = 10000;

// Labels count from 1 in TFRecord files, as in ImageNet's, and from 0 in all others. Where that is only assumed,
// because up to 64 records that rank 0 reads do not show it, `warn` is told; a label 0 is an error that asks for
// label_offset, and is never skipped.
inline constexpr int kAutoLabelOffset = std::numeric_limits<int>::min();

struct ImagePipelineOptions {
  std::string directory = {};  // or one file, for TFRecord, idx and tar
  SourceFormat format = SourceFormat::kAuto;
  std::string pattern = {};  // of file names, with * and ?, for TFRecord and tar; empty: "train-*" and the like when
                             // training, else "validation-*"
  int batch = 32;            // images per rank and batch
  // Images of all ranks in a batch, in place of `batch`, where they are to be shared out among any number of ranks: the
  // first ranks have one image more than the others where `size` does not divide it. 0: size * batch. From 0 to 2^30.
  std::int64_t joint_batch = 0;
  // More than 0: a batch of all ranks consists of so many logical shards of `batch` images each (joint_batch is 0 then,
  // or their product), however many ranks there are: a rank gets the images of its shards, shards_of_rank(), one shard
  // after the other. mixup and CutMix draw for each shard. At least `size`.
  int shards = 0;
  ImageSize image_size = 224;  // of what is delivered
  int rank = 0;                // this rank of
  int size = 1;                // so many
  int threads = 1;             // that decode; 0: next() does the work in its caller's thread; kAutoThreads: as many
                               // as the consumer needs, up to the CPUs that this process was given
  int processes = 1;           // ranks on this host: what kAutoThreads shares the CPUs with
  int shuffle_buffer = kAutoShuffle;  // records; training only; at least the number of records shuffles perfectly. It
                                      // holds positions, 16 bytes each, not images
  bool shard_by_file = false;  // each rank reads from files of its own, as far as equal shares allow: for storage that
                               // dislikes many readers a file. The order then depends on `size` too
  int prefetch = 2;            // batches made ahead; with kAutoThreads the least of them
  std::size_t memory_budget = 0;    // bytes of batches that kAutoThreads may have in flight; 0: 1 GiB
  std::uint64_t seed = 0;           // of order and distortions
  bool training = true;             // shuffled, randomly cropped and flipped; else in file order, centre crop
  std::optional<Split> split = {};  // unset: kTrain when training, else kValidation
  // NIH ChestX-ray14 alone: the share of the patients of train_val_list.txt, from 0 to below 1, whose images are the
  // validation split. The same patients for every seed. 0: train_val_list.txt is the training split, test_list.txt the
  // validation split.
  double validation_share = 0;
  std::int64_t epochs = 0;                  // after so many the iterator ends; 0: never
  std::optional<Remainder> remainder = {};  // unset: kDrop when training, kKeep when not
  // What should be there and is not is an error by default: links that lead nowhere, folders and pipes in the place of
  // files, empty files, folders of classes without images, shards that names like train-00002-of-00006 promise. True:
  // it is left out, counted (missing()) and told to `warn`.
  bool allow_missing = false;
  // Receives lines about what the caller should know: during open_images(), on rank 0, of what is missing or badly
  // mixed; on every rank, of images that were left out: from next() at the end of an epoch, and as the iterator ends.
  // Each is told of once. Unset: standard error.
  std::function<void(std::string_view)> warn = {};
  // max_bad: images per epoch and rank that cannot be read and are left out, counted (skipped(), lost()) and told to
  // `warn`; one more is an error. on_error need not be said: kSkip alone allows kUsualBad of them.
  OnError on_error = OnError::kFail;
  std::int64_t max_bad = kAutoBad;
  // TFRecord alone: the names of the features, and whether the label feature lists several classes (then `classes` or
  // labels.txt is needed, and batches have targets).
  std::string image_key = "image/encoded";
  std::string label_key = "image/class/label";
  bool multi_label = false;
  int classes = 0;         // 0: the lines of labels.txt in the directory; else no record is read to find out, unless
                           // count_classes() is called or mixing needs it
  bool whole = false;      // the whole image becomes image_size, in training and evaluation: no crop
  bool flip = true;        // training images are mirrored with probability 1/2
  double min_area = 0.08;  // share of an image that a training crop covers at least; more learns faster from few images
  int label_offset = kAutoLabelOffset;  // the label stored for class 0, in TFRecord, tar and idx files
  PixelOptions pixels = {};
  Quality quality = Quality::kExact;
  DType dtype = DType::kFloat32;  // or kFloat16, kBfloat16; kUint8 is not normalised
  Layout layout = Layout::kNchw;
  std::array<float, 3> mean = {0.485F, 0.456F, 0.406F};  // of ImageNet, for values within [0, 1]
  std::array<float, 3> deviation = {0.229F, 0.224F, 0.225F};
  Augmentation augmentation = {};  // training only; mixing and erasing are for kFloat32
};

// Order: a pure function of (seed, epoch) and the records; rank r of n takes elements r, r+n, r+2n, ... of it (with
// `shards`, the elements of its shards). So step
// s uses the same images for any number of ranks with the same joint batch. Distortions: a pure function of (seed,
// epoch, record). Threads and prefetch change neither.
//
// Every rank delivers the same number of batches per epoch. Training (Remainder::kDrop) leaves out the last records of
// an epoch that fill no batch on all ranks, others every epoch; Remainder::kPad fills up from the epoch's beginning
// instead. Evaluation (kKeep) delivers every record exactly once: the last batch of a rank may be short or empty.
//
// A position is the same on every rank but for its count of skipped records, and may be restored with any number of
// ranks and any batch: the rest of the epoch is shared out among those, so that each record still comes once.
//
// With OnError::kSkip a bad image's place is taken by the next good one of its batch in kDrop and kPad, so that batches
// stay full; with kKeep the batch shrinks. A batch without any good image in kDrop or kPad is `data_loss`.
class ImageIterator : public Iterator<ImageBatch> {
 public:
  // Goes on as rank `rank` of `size`, of which `processes` are on this host, with batches of joint_batch images of all
  // ranks, or `batch` of each where that is 0. The files stay open; the position is the beginning, so that a restore()
  // comes next. `invalid_argument`: an option out of range, or too few records.
  virtual Status reshard(int rank, int size, int processes, std::int64_t joint_batch) = 0;
  // Takes back a batch of next(), as it was: after a restore(), its images are not made again. reshard() keeps those
  // that were made ahead in the same way. Has no effect where images of a batch are mixed.
  virtual void keep(const ImageBatch& batch) = 0;
  // Continues with the first batch of an epoch. After a failure the position is undefined until a restore() succeeds.
  virtual Status start_epoch(std::int64_t epoch) = 0;
  virtual std::int64_t records_per_epoch() const = 0;  // over all ranks, before dropping or padding
  virtual std::int64_t batches_per_epoch() const = 0;  // the same on every rank
  virtual int classes() const = 0;  // 0: the files do not tell (TFRecord without labels.txt); count_classes()
  // classes(); where the files do not tell, one more than the highest class, once all records were read, in `threads`
  // threads: so one rank should do it for all. With kSkip bad ones are left out.
  virtual Result<int> count_classes() = 0;
  virtual bool multi_label() const = 0;  // batches have targets, not labels
  // Tells `warn` of images that were left out since it was last told, without waiting for the end of the epoch.
  virtual void warn_of_skipped() = 0;
  virtual std::int64_t skipped() const = 0;  // bad records left out so far by this rank; kept by save() and restore()
  // What was left out when the files were opened (max_bad): images of unreadable formats, damaged framing, rows of
  // tables without their image. They are no part of records_per_epoch(), and count against max_bad once.
  virtual std::int64_t lost() const = 0;
  // Parts of the data that are missing and were left out (allow_missing).
  virtual std::int64_t missing() const = 0;
  // What this rank opened, for compare_opened(). Good also after the iterator is gone.
  virtual OpenedData opened() const = 0;
  // What the order depends on: the options and how many records lie together. Positions are only understood where it is
  // the same, and so it must be on every rank: ranks that find different files make different numbers of batches.
  virtual std::uint64_t order_fingerprint() const = 0;
  virtual double waited_seconds() const = 0;     // spent in next() by its caller
  virtual std::size_t memory_bytes() const = 0;  // upper bound of what batches in flight take, for reports
  virtual PipelineReport report() const = 0;     // where the time went since the start or the last restore()
};

inline PipelineReport report(const ImageIterator& images) { return images.report(); }

// Opens the files and checks their framing (lengths, and their CRCs; the data's CRCs are checked as records are read).
// `unavailable`: no such directory or no file matches; `data_loss`: corrupt, truncated or missing file;
// `invalid_argument`: an option out of range, or fewer records than one batch on all ranks needs.
Result<std::unique_ptr<ImageIterator>> open_images(const ImagePipelineOptions& options);

// Whether there is anything of the split that options.split or options.training names, be it right or not: where there
// is, an error of open_images() is a fault, and where there is not, the data set has only the other split. A single
// file, or the files that a pattern matches, are one split, which is the training one: opened for evaluation they are
// not held out.
bool has_split(const ImagePipelineOptions& options);

}  // namespace xoe::data
