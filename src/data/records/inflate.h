// Decompresses GZIP and ZLIB files, from their beginning or from places noted on an earlier pass.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/records/byte_source.h"

namespace xoe::data {

inline constexpr std::size_t kInflateWindow = std::size_t{32} << 10;

// A place between two deflate blocks where decompression can start: where it is, and the bytes that the next block may
// refer to. As in zran.c of Mark Adler's zlib.
struct RestartPoint {
  std::uint64_t in = 0;   // bytes of the file before it
  std::uint64_t out = 0;  // bytes of output before it
  std::uint8_t bits = 0;  // of the byte before `in`, its high ones, that belong to what follows
  std::string window;     // the output before it, up to 32 KiB
};

// Notes restart points about every MiB of output; more than kMost are thinned out, so that their memory is bounded.
class RestartPoints {
 public:
  static constexpr std::uint64_t kSpan = std::uint64_t{1} << 20;
  static constexpr std::size_t kMost = 4096;

  bool wanted(std::uint64_t out) const { return out >= last_ + span_; }
  void add(RestartPoint point);
  std::vector<RestartPoint> take() { return std::move(points_); }

 private:
  std::uint64_t span_ = kSpan;
  std::uint64_t last_ = 0;
  std::vector<RestartPoint> points_;
};

// REQUIRES: `compression` is kGzip or kZlib. `points`, when given, is told of restart points and must outlive the
// source.
std::unique_ptr<ByteSource> inflate_source(std::shared_ptr<const OpenFile> file, Compression compression,
                                           RestartPoints* points = nullptr);

// The output from `point` on; seek() is not for this one.
std::unique_ptr<ByteSource> inflate_source_at(std::shared_ptr<const OpenFile> file, Compression compression,
                                              const RestartPoint& point);

// Whether a file decompresses to something that begins with a record's header, or to less than one.
bool holds_records(std::shared_ptr<const OpenFile> file, Compression compression);

}  // namespace xoe::data
