#include "data/files/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "core/base/error.h"

namespace xoe::data {
namespace {

constexpr std::size_t kInput = std::size_t{64} << 10;
// Images and other bytes that are compressed already stay far below; deflate reaches 1032.
constexpr std::uint64_t kMaxRatio = 200;
constexpr std::uint64_t kMaxFree = std::uint64_t{256} << 20;
constexpr int kRaw = -15;  // zlib's windowBits for deflate without header and trailer

class InflateSource final : public ByteSource {
 public:
  InflateSource(std::shared_ptr<const OpenFile> file, Compression compression, RestartPoints* points)
      : file_(std::move(file)), compression_(compression), points_(points), input_(kInput) {
    begin(header_bits());
  }
  ~InflateSource() override { ::inflateEnd(&stream_); }

  // From a restart point on.
  InflateSource(std::shared_ptr<const OpenFile> file, Compression compression, const RestartPoint& point)
      : file_(std::move(file)), compression_(compression), input_(kInput) {
    begin(kRaw);
    in_ = first_in_ = point.in;
    out_ = first_out_ = point.out;
    raw_ = true;
    if (!error_ && !prime(point)) fail({Code::kDataLoss, "a restart point of its index does not fit"});
  }

  Result<std::size_t> read(char* to, std::size_t most) override {
    std::size_t made = 0;
    while (made == 0 && most > 0 && !error_ && !ended_) made = step(to, most);
    if (made == 0 && error_) return failure(*error_);
    return made;
  }
  Status seek(std::uint64_t offset) override {
    if (offset < out_) {
      ::inflateEnd(&stream_);
      begin(header_bits());
    }
    std::vector<char> scratch(kInput);
    while (out_ < offset) {
      XOE_ASSIGN(const std::size_t made,
                 read(scratch.data(), static_cast<std::size_t>(std::min<std::uint64_t>(kInput, offset - out_))));
      if (made == 0)
        return failure(Code::kInvalidArgument, "{}: byte {} of {} decompressed ones", file_->path, offset, out_);
    }
    return {};
  }
  std::optional<std::uint64_t> bytes() const override { return std::nullopt; }
  // Whether the only error was that the file ends too early.
  bool truncated() const { return truncated_; }

 private:
  int header_bits() const { return compression_ == Compression::kGzip ? 31 : 15; }
  std::size_t trailer_bytes() const { return compression_ == Compression::kGzip ? 8 : 4; }

  void begin(int window_bits) {
    stream_ = {};
    error_.reset();
    ended_ = raw_ = fresh_ = false;
    in_ = out_ = first_in_ = first_out_ = 0;
    if (::inflateInit2(&stream_, window_bits) != Z_OK) fail({Code::kResourceExhausted, "no memory to decompress with"});
  }
  bool prime(const RestartPoint& point) {
    if (point.bits > 0) {
      char byte = 0;
      if (point.in == 0 || !file_->read_at(point.in - 1, &byte, 1)) return false;
      if (::inflatePrime(&stream_, point.bits, static_cast<std::uint8_t>(byte) >> (8 - point.bits)) != Z_OK)
        return false;
    }
    return point.window.empty() || ::inflateSetDictionary(&stream_, reinterpret_cast<const Bytef*>(point.window.data()),
                                                          static_cast<uInt>(point.window.size())) == Z_OK;
  }
  void fail(Error error) { error_.emplace(std::move(error)); }
  void fail_here(std::string_view what) {
    fail({Code::kDataLoss,
          fmt::format("the {} stream is {} at byte {} of {}, after {} decompressed bytes",
                      compression_name(compression_), what, in_ - stream_.avail_in, file_->bytes, out_)});
  }

  void fail_as_bomb() {
    fail({Code::kDataLoss,
          fmt::format(
              "{} bytes of {} decompress to {}, more than {} times as many, as in a decompression bomb; where the "
              "file is right, decompress it and read it plain",
              in_ - stream_.avail_in - first_in_, compression_name(compression_), out_ - first_out_, kMaxRatio)});
  }

  // False: the end of the file, or an error.
  bool refill() {
    if (stream_.avail_in > 0) return true;
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(kInput, file_->bytes - in_));
    if (count == 0) return false;
    if (auto got = file_->read_at(in_, input_.data(), count); !got) {
      fail(got.error());
      return false;
    }
    in_ += count;
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = static_cast<uInt>(count);
    return true;
  }

  std::size_t step(char* to, std::size_t most) {
    if (!refill()) {
      if (!error_) end_of_file();
      return 0;
    }
    fresh_ = false;
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(most, std::size_t{1} << 30));
    const uInt room = stream_.avail_out;
    const int result = ::inflate(&stream_, points_ != nullptr ? Z_BLOCK : Z_NO_FLUSH);
    const std::size_t made = room - stream_.avail_out;
    out_ += made;
    if (out_ - first_out_ > kMaxFree && (out_ - first_out_) / kMaxRatio > in_ - stream_.avail_in - first_in_)
      fail_as_bomb();
    else if (result == Z_STREAM_END)
      next_member();
    else if (result == Z_NEED_DICT || (result != Z_OK && result != Z_BUF_ERROR))
      fail_here(stream_.msg != nullptr ? fmt::format("damaged ({})", stream_.msg) : "damaged");
    else if (points_ != nullptr)
      note();
    return made;
  }
  void end_of_file() {
    ended_ = fresh_ || file_->bytes == 0;
    truncated_ = !ended_;
    if (truncated_) fail_here("truncated");
  }
  // A file may hold several GZIP members, one behind the other (RFC 1952, 2.2); TensorFlow reads ZLIB files so, too.
  void next_member() {
    for (std::size_t left = raw_ ? trailer_bytes() : 0; left > 0;) {
      if (!refill()) return error_ ? void() : fail_here("truncated");
      const auto step = static_cast<uInt>(std::min<std::size_t>(left, stream_.avail_in));
      stream_.next_in += step;
      stream_.avail_in -= step;
      left -= step;
    }
    raw_ = false;
    fresh_ = true;
    ::inflateReset2(&stream_, header_bits());
  }
  void note() {
    constexpr int kBetweenBlocks = 128;
    constexpr int kLastBlock = 64;
    if ((stream_.data_type & kBetweenBlocks) == 0 || (stream_.data_type & kLastBlock) != 0 || !points_->wanted(out_))
      return;
    RestartPoint point{
        .in = in_ - stream_.avail_in, .out = out_, .bits = 0, .window = std::string(kInflateWindow, '\0')};
    point.bits = static_cast<std::uint8_t>(stream_.data_type & 7);
    uInt size = 0;
    ::inflateGetDictionary(&stream_, reinterpret_cast<Bytef*>(point.window.data()), &size);
    point.window.resize(size);
    points_->add(std::move(point));
  }

  std::shared_ptr<const OpenFile> file_;
  Compression compression_;
  RestartPoints* points_ = nullptr;
  std::vector<char> input_;
  z_stream stream_ = {};
  std::uint64_t in_ = 0;        // bytes of the file read
  std::uint64_t out_ = 0;       // bytes made
  std::uint64_t first_in_ = 0;  // where it started
  std::uint64_t first_out_ = 0;
  bool raw_ = false;    // started in the middle of a member
  bool fresh_ = false;  // no byte of a further member has been read
  bool ended_ = false;
  bool truncated_ = false;
  std::optional<Error> error_;
};

}  // namespace

void RestartPoints::add(RestartPoint point) {
  last_ = point.out;
  points_.push_back(std::move(point));
  if (points_.size() < kMaxPoints) return;
  std::size_t kept = 0;
  for (std::size_t i = 1; i < points_.size(); i += 2) std::swap(points_[kept++], points_[i]);
  points_.resize(kept);
  span_ *= 2;
}

std::unique_ptr<ByteSource> inflate_source(std::shared_ptr<const OpenFile> file, Compression compression,
                                           RestartPoints* points) {
  return std::make_unique<InflateSource>(std::move(file), compression, points);
}

std::unique_ptr<ByteSource> inflate_source_at(std::shared_ptr<const OpenFile> file, Compression compression,
                                              const RestartPoint& point) {
  return std::make_unique<InflateSource>(std::move(file), compression, point);
}

std::unique_ptr<ByteSource> inflate_source_near(std::shared_ptr<const OpenFile> file, Compression compression,
                                                const std::vector<RestartPoint>& points, std::uint64_t offset) {
  const auto after = std::upper_bound(points.begin(), points.end(), offset,
                                      [](std::uint64_t at, const RestartPoint& point) { return at < point.out; });
  if (after == points.begin()) return inflate_source(std::move(file), compression);
  return inflate_source_at(std::move(file), compression, *std::prev(after));
}

Result<std::string> inflate_head(std::shared_ptr<const OpenFile> file, Compression compression, std::size_t most) {
  InflateSource source(std::move(file), compression, nullptr);
  std::string head(most, '\0');
  std::size_t have = 0;
  while (have < most) {
    const auto made = source.read(head.data() + have, most - have);
    if (!made && !source.truncated()) return failure(made.error());
    if (!made || *made == 0) break;
    have += *made;
  }
  head.resize(have);
  return head;
}

}  // namespace xoe::data
