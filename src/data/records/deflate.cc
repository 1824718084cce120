#include "data/records/deflate.h"

#include <algorithm>

#include "base/error.h"

namespace xoe::data {
namespace {

constexpr std::size_t kOutputBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxInputBytes = std::size_t{1} << 30;  // zlib counts in 32 bits

}  // namespace

Deflater::Deflater() : output_(kOutputBytes, '\0') {}

Deflater::~Deflater() { ::deflateEnd(&stream_); }

Result<std::unique_ptr<Deflater>> Deflater::create(Compression compression, int level) {
  std::unique_ptr<Deflater> made(new Deflater);
  const int window_bits = compression == Compression::kGzip ? 31 : 15;
  const int result = ::deflateInit2(&made->stream_, level, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY);
  if (result == Z_MEM_ERROR) return failure(Code::kResourceExhausted, "no memory to compress with");
  if (result != Z_OK) return failure(Code::kInvalidArgument, "compression level {}; 1 to 9 and -1 are known", level);
  return made;
}

Status Deflater::run(OutputFile& to, int flush) {
  do {
    stream_.next_out = reinterpret_cast<Bytef*>(output_.data());
    stream_.avail_out = static_cast<uInt>(output_.size());
    ::deflate(&stream_, flush);
    XOE_TRY(to.write(std::string_view(output_).substr(0, output_.size() - stream_.avail_out)));
  } while (stream_.avail_out == 0);
  return {};
}

Status Deflater::write(std::string_view bytes, OutputFile& to) {
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, kMaxInputBytes);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
    stream_.avail_in = static_cast<uInt>(part.size());
    XOE_TRY(run(to, Z_NO_FLUSH));
    bytes.remove_prefix(part.size());
  }
  return {};
}

Status Deflater::finish(OutputFile& to) {
  stream_.avail_in = 0;
  return run(to, Z_FINISH);
}

}  // namespace xoe::data
