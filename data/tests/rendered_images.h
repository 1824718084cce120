// Shared by tests of open_images(): rendered files, whole and damaged, and batches by value.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "core/testing/scratch.h"
#include "data/cli/synth/data_set.h"
#include "data/tests/record_extents.h"
#include "xoe/data/images.h"

namespace xoe::data::test {

inline constexpr int kImages = 45;
inline constexpr int kValidation = 11;

// Rendered once for all tests, which do not change it.
inline const Scratch& rendered() {
  static const Scratch scratch;
  static const bool made = [] {
    const synth::DataSetOptions options{.directory = scratch.path(),
                                        .images = kImages,
                                        .validation = kValidation,
                                        .classes = 5,
                                        .shards = 3,
                                        .size_min = 24,
                                        .size_max = 40};
    return synth::make_data_set(options, [](std::int64_t, std::int64_t) { return true; }).has_value();
  }();
  EXPECT_TRUE(made);
  return scratch;
}

inline ImagePipelineOptions small(const std::string& directory = rendered().path()) {
  return {.directory = directory, .batch = 4, .image_size = 16, .threads = 0, .seed = 3, .epochs = 2};
}

// A delivered batch by value.
struct Made {
  std::int64_t epoch;
  std::int64_t index;
  std::vector<std::int64_t> labels;
  std::vector<float> pixels;

  bool operator==(const Made&) const = default;
};

inline Made made_of(const ImageBatch& batch) {
  EXPECT_EQ(batch.labels.size(), static_cast<std::size_t>(batch.count));
  const auto floats = static_cast<std::size_t>(batch.count * batch.channels * batch.height * batch.width);
  return {batch.epoch, batch.index, batch.labels, {batch.floats(), batch.floats() + floats}};
}

inline std::vector<Made> drain(ImageIterator& iterator, std::size_t most = 10000) {
  std::vector<Made> all;
  while (all.size() < most) {
    auto batch = iterator.next();
    EXPECT_TRUE(batch) << batch.error().message();
    if (!batch || !*batch) break;
    all.push_back(made_of(**batch));
  }
  return all;
}
inline std::vector<Made> drain(const ImagePipelineOptions& options) { return drain(*open_images(options).value()); }

using Pixels = std::vector<float>;

// The images of an epoch as a sorted list, to compare what was delivered whatever the order.
inline std::vector<Pixels> images_of(const std::vector<Made>& batches, std::int64_t epoch) {
  std::vector<Pixels> images;
  for (const Made& made : batches) {
    if (made.epoch != epoch) continue;
    const std::size_t floats = made.labels.empty() ? 0 : made.pixels.size() / made.labels.size();
    for (std::size_t i = 0; i < made.labels.size(); ++i) {
      const auto start = made.pixels.begin() + static_cast<std::ptrdiff_t>(i * floats);
      images.emplace_back(start, start + static_cast<std::ptrdiff_t>(floats));
    }
  }
  std::sort(images.begin(), images.end());
  return images;
}

// A copy of the rendered files in which some records of the first training file are damaged.
class Damaged {
 public:
  explicit Damaged(const std::vector<std::size_t>& records) {
    for (const auto& entry : std::filesystem::directory_iterator(rendered().path()))
      std::filesystem::copy(entry.path(), scratch_.path());
    places_ = extents_of(path());
    std::string bytes = read_file(path());
    for (const std::size_t record : records) bytes[places_[record].offset + kRecordHeader + 400] ^= 1;
    put_file(path(), bytes);
  }

  std::string path() const { return scratch_.file("train-00000-of-00003"); }
  const std::string& directory() const { return scratch_.path(); }
  std::string name(std::size_t record) const {
    return path() + ": record " + std::to_string(record) + " at byte " + std::to_string(places_[record].offset);
  }

 private:
  Scratch scratch_;
  std::vector<RecordExtent> places_;
};

}  // namespace xoe::data::test
