// Statistics of a data set, counted by several threads and added up.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/image/image.h"
#include "tools/data/image_facts.h"

namespace xoe::tools {

// Minimum, maximum, median and sum of numbers.
class Spread {
 public:
  void add(std::uint64_t value) {
    ++counts_[value];
    sum_ += value;
    ++count_;
  }
  void add(const Spread& other) {
    for (const auto& [value, count] : other.counts_) counts_[value] += count;
    sum_ += other.sum_;
    count_ += other.count_;
  }
  std::uint64_t min() const { return counts_.empty() ? 0 : counts_.begin()->first; }
  std::uint64_t max() const { return counts_.empty() ? 0 : counts_.rbegin()->first; }
  std::uint64_t median() const {
    std::int64_t before = 0;
    for (const auto& [value, count] : counts_)
      if (before += count; 2 * before >= count_) return value;
    return 0;
  }
  std::uint64_t sum() const { return sum_; }

 private:
  std::map<std::uint64_t, std::int64_t> counts_;
  std::uint64_t sum_ = 0;
  std::int64_t count_ = 0;
};

// Mean and deviation of red, green and blue, as fractions of the highest level.
struct Levels {
  std::int64_t images = 0;
  std::int64_t pixels = 0;
  std::array<double, 3> sum = {};
  std::array<double, 3> squares = {};

  void add(const data::Image& image) {
    std::array<std::uint64_t, 3> levels = {};
    std::array<std::uint64_t, 3> squared = {};
    const std::size_t bytes = image.bytes();
    const std::uint8_t* pixel = image.row(0);
    for (std::size_t i = 0; i < bytes; ++i) {
      levels[i % 3] += pixel[i];
      squared[i % 3] += std::uint64_t{pixel[i]} * pixel[i];
    }
    for (std::size_t c = 0; c < 3; ++c) {
      sum[c] += static_cast<double>(levels[c]) / 255;
      squares[c] += static_cast<double>(squared[c]) / (255.0 * 255.0);
    }
    ++images;
    pixels += static_cast<std::int64_t>(bytes / 3);
  }
  void add(const Levels& other) {
    images += other.images;
    pixels += other.pixels;
    for (std::size_t c = 0; c < 3; ++c) {
      sum[c] += other.sum[c];
      squares[c] += other.squares[c];
    }
  }
  double mean(std::size_t channel) const { return pixels == 0 ? 0 : sum[channel] / static_cast<double>(pixels); }
  double deviation(std::size_t channel) const {
    if (pixels == 0) return 0;
    const double mean_value = mean(channel);
    return std::sqrt(std::max(0.0, squares[channel] / static_cast<double>(pixels) - mean_value * mean_value));
  }
};

struct DataSetStatistics {
  std::int64_t images = 0;
  std::int64_t bad = 0;
  std::string first_bad;
  std::int64_t unlabelled = 0;  // images without a class, where an image can have several
  std::map<std::int64_t, std::int64_t> classes;
  std::map<std::string, std::int64_t> formats;
  Spread width;
  Spread height;
  Spread bytes;
  Levels levels;

  void add(const DataSetStatistics& other) {
    images += other.images;
    bad += other.bad;
    if (first_bad.empty()) first_bad = other.first_bad;
    unlabelled += other.unlabelled;
    for (const auto& [label, count] : other.classes) classes[label] += count;
    for (const auto& [format, count] : other.formats) formats[format] += count;
    width.add(other.width);
    height.add(other.height);
    bytes.add(other.bytes);
    levels.add(other.levels);
  }
};

}  // namespace xoe::tools
