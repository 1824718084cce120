// A data set of images, whatever its files look like: records that are read by number, in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "xoe/data/images.h"
#include "xoe/data/opened.h"
#include "xoe/status.h"

namespace xoe::data {

// One image as stored. The views are into the buffer that read() was given, or into the source.
struct ImageRecord {
  std::string_view bytes;  // a JPEG or PNG file; raw pixels where `width` is not 0
  int width = 0;           // of raw pixels, interleaved, 8 bits each, without gaps; 0: `bytes` is a file
  int height = 0;
  int channels = 0;                // 1 or 3
  std::int64_t label = 0;          // the class as stored, before any offset; unused where there are targets
  std::span<const float> targets;  // one per class, 0 or 1, where an image can be of several classes at once
};

// Thread safety: any number of threads may read at a time, each with a buffer of its own.
class ImageSource : public ImageOrigins {
 public:
  ImageSource() = default;
  ImageSource(const ImageSource&) = delete;
  ImageSource& operator=(const ImageSource&) = delete;

  virtual std::int64_t records() const noexcept = 0;

  // Records that lie together are a group: those of one file, where files hold many. Group g has the records first(g)
  // to first(g + 1) - 1. Shuffling starts with the order of the groups, and sharding by file deals whole groups.
  virtual std::size_t groups() const noexcept { return 1; }
  virtual std::int64_t first(std::size_t group) const noexcept { return group == 0 ? 0 : records(); }
  // Whether any record can be read at about the price of the next one.
  virtual bool random_access() const noexcept { return true; }
  // Whether each record is a file of its own.
  virtual bool own_files() const noexcept { return false; }

  // REQUIRES: 0 <= record < records(). `buffer` keeps its memory from call to call. Errors name the record (name()).
  // `data_loss`: the record is broken, others may be whole; `unavailable`: its file is gone or cannot be read.
  virtual Result<ImageRecord> read(std::int64_t record, std::string& buffer) const = 0;

  // The label of a record as stored, as read() gives it. REQUIRES: !multi_label().
  virtual Result<std::int64_t> label(std::int64_t record, std::string& buffer) const {
    const auto image = read(record, buffer);
    if (!image) return failure(image.error());
    return image->label;
  }
  // Whether label() reads no file.
  virtual bool labels_at_hand() const noexcept { return true; }

  // "data/train-00000-of-00004: record 17 at byte 90112", "photos/cat/0017.jpg": for messages.
  virtual std::string name(std::int64_t record) const = 0;
  // REQUIRES: 0 <= record < records().
  ImageOrigin origin(std::int64_t record) const override = 0;

  // The number of classes, where the layout gives it (labels.txt, folders, a CSV's columns); 0: only the labels tell.
  virtual int classes() const noexcept = 0;
  // The names of the classes() classes, where the layout gives them; else none.
  virtual std::vector<std::string> class_names() const { return {}; }
  // Whether records have targets instead of a label.
  virtual bool multi_label() const noexcept { return false; }
  // The label stored for class 0, and whether that is only usual for the layout, so that a label 0 below it makes
  // class_of() ask.
  virtual int label_offset() const noexcept { return 0; }
  virtual bool label_offset_assumed() const noexcept { return false; }
  // Whether a record itself names its class as the data set names the class of its label.
  virtual bool label_confirmed(std::int64_t, std::string&) const { return false; }
  // Sentences about what opening left out, though it may have been meant to be in: hidden images, images of no class.
  virtual std::vector<std::string> warnings() const { return {}; }
  // The same about what is no image.
  virtual std::vector<std::string> remarks() const { return {}; }
  // Places where opening the source left out records, because the framing itself is damaged there.
  virtual std::int64_t lost() const noexcept { return 0; }

  // For ranks to compare: the files that were opened, in their order, and a number that is the same where the labels
  // are that names and tables give.
  virtual std::size_t files() const noexcept = 0;
  virtual OpenedFile file(std::size_t number) const = 0;
  virtual std::uint64_t labels_fingerprint() const { return static_cast<std::uint64_t>(classes()); }

  // Parts of the data that are missing and were left out, because that was allowed.
  std::int64_t missing() const noexcept { return missing_; }
  void set_missing(std::int64_t missing) noexcept { missing_ = missing; }

 private:
  std::int64_t missing_ = 0;
};

using SourcePtr = std::unique_ptr<ImageSource>;

inline constexpr std::int64_t kMaxClasses = 1 << 24;

// The class, from 0, that a stored label means. `data_loss`: it is none of the `classes` (0: kMaxClasses at most);
// `invalid_argument`: a label 0 where label_offset was left open and is 1. Errors do not name the record; the caller
// does.
Result<std::int64_t> class_of(const ImageSource& source, std::int64_t label, int classes);

}  // namespace xoe::data
