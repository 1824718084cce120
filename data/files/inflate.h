// Decompresses GZIP and ZLIB files, from their beginning or from restart points that an earlier pass noted.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/files/byte_source.h"
#include "xoe/data/records.h"
#include "xoe/status.h"

namespace xoe::data {

inline constexpr std::size_t kInflateWindow = std::size_t{32} << 10;

// A position between two deflate blocks where decompression can start, with the bytes that the next block may refer to;
// as in zran.c of Mark Adler's zlib.
struct RestartPoint {
  std::uint64_t in = 0;   // bytes of the file before it
  std::uint64_t out = 0;  // bytes of output before it
  std::uint8_t bits = 0;  // high bits of the byte before `in` that belong to the next block
  std::string window;     // up to 32 KiB of the output before it
};

// Collects a restart point for about every MiB of output, and every other one is dropped when there are kMaxPoints:
// their memory is bounded.
class RestartPoints {
 public:
  static constexpr std::uint64_t kSpan = std::uint64_t{1} << 20;
  static constexpr std::size_t kMaxPoints = 4096;

  bool wanted(std::uint64_t out) const { return out >= last_ + span_; }
  void add(RestartPoint point);
  std::vector<RestartPoint> take() { return std::move(points_); }

 private:
  std::uint64_t span_ = kSpan;
  std::uint64_t last_ = 0;
  std::vector<RestartPoint> points_;
};

// A stream that makes more than 256 MiB and 200 times what was read of it is taken for a decompression bomb:
// `data_loss`, so that time and memory are bounded by the file's size. REQUIRES: `compression` is kGzip or kZlib.
// `points`, unless null, collects restart points and must outlive the source.
std::unique_ptr<ByteSource> inflate_source(std::shared_ptr<const OpenFile> file, Compression compression,
                                           RestartPoints* points = nullptr);

// The output from `point` on. seek() goes forward only.
std::unique_ptr<ByteSource> inflate_source_at(std::shared_ptr<const OpenFile> file, Compression compression,
                                              const RestartPoint& point);

// The output, such that seek() to `offset` and reading from there on starts at the nearest of the points.
std::unique_ptr<ByteSource> inflate_source_near(std::shared_ptr<const OpenFile> file, Compression compression,
                                                const std::vector<RestartPoint>& points, std::uint64_t offset);

// The first `most` bytes of the output; fewer where the output, or the file itself, ends before. The errors are those
// of damage in front of them.
Result<std::string> inflate_head(std::shared_ptr<const OpenFile> file, Compression compression, std::size_t most);

}  // namespace xoe::data
