#include "data/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cstring>

#include "base/error.h"
#include "data/crc32c.h"

namespace xoe::data {
namespace {

template <class T>
T load(const char* from) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<std::uint8_t>(from[i])) << (8 * i);
  return value;
}

}  // namespace

std::string record_name(const std::string& path, std::int64_t number, std::uint64_t offset) {
  return fmt::format("{}: record {} at byte {}", path, number, offset);
}

Result<std::uint64_t> parse_record_header(std::string_view header) {
  if (header.size() != kRecordHeader) return failure(Code::kDataLoss, "a header of {} bytes", header.size());
  if (load<std::uint32_t>(header.data() + 8) != mask_crc(crc32c(header.substr(0, 8))))
    return failure(Code::kDataLoss, "the CRC of its length is wrong");
  return load<std::uint64_t>(header.data());
}

Result<RecordFile> RecordFile::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return failure(Code::kUnavailable, "{}: cannot open: {}", path, errno_text(errno));
  struct stat facts = {};
  if (::fstat(fd.get(), &facts) != 0) return failure(Code::kUnavailable, "{}: {}", path, errno_text(errno));
  if (!S_ISREG(facts.st_mode)) return failure(Code::kUnavailable, "{}: not a regular file", path);
  return RecordFile(path, std::move(fd), static_cast<std::uint64_t>(facts.st_size));
}

Status RecordFile::read_at(std::uint64_t offset, char* to, std::size_t bytes, std::int64_t number) const {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = ::pread(fd_.get(), to + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return failure(Code::kDataLoss, "{}: cannot read: {}", record_name(path_, number, offset), errno_text(errno));
    if (got == 0)
      return failure(Code::kDataLoss, "{}: the file became shorter while it was in use",
                     record_name(path_, number, offset));
    done += static_cast<std::size_t>(got);
  }
  return {};
}

Result<RecordPlace> RecordFile::place_at(std::uint64_t offset, std::int64_t number) const {
  const std::uint64_t left = bytes_ - offset;
  if (left < kRecordHeader)
    return failure(Code::kDataLoss, "{}: truncated: {} of the header's {} bytes are there",
                   record_name(path_, number, offset), left, kRecordHeader);
  std::array<char, kRecordHeader> header;
  XOE_TRY(read_at(offset, header.data(), header.size(), number));
  const auto length = parse_record_header({header.data(), header.size()});
  if (!length) return failure(Code::kDataLoss, "{}: {}", record_name(path_, number, offset), length.error().message());
  if (*length > kMaxRecordBytes)
    return failure(Code::kDataLoss, "{}: a length of {} bytes; at most {} are read", record_name(path_, number, offset),
                   *length, kMaxRecordBytes);
  const std::uint64_t whole = kRecordHeader + *length + kRecordFooter;
  if (left < whole)
    return failure(Code::kDataLoss, "{}: truncated: {} of its {} bytes are there", record_name(path_, number, offset),
                   left, whole);
  return RecordPlace{offset, *length};
}

Result<std::vector<RecordPlace>> RecordFile::scan() const {
  std::vector<RecordPlace> places;
  for (std::uint64_t offset = 0; offset < bytes_; offset = places.back().end()) {
    XOE_ASSIGN(const RecordPlace place, place_at(offset, static_cast<std::int64_t>(places.size())));
    places.push_back(place);
  }
  return places;
}

Result<std::string_view> RecordFile::read(const RecordPlace& place, std::int64_t number, std::string& buffer) const {
  const std::uint64_t whole = kRecordHeader + place.length + kRecordFooter;
  buffer.resize(whole);
  XOE_TRY(read_at(place.offset, buffer.data(), whole, number));
  const auto length = parse_record_header(std::string_view(buffer).substr(0, kRecordHeader));
  if (!length || *length != place.length)
    return failure(Code::kDataLoss, "{}: {}", record_name(path_, number, place.offset),
                   length ? "its length changed while the file was in use" : length.error().message());
  const std::string_view data = std::string_view(buffer).substr(kRecordHeader, place.length);
  if (load<std::uint32_t>(data.data() + data.size()) != mask_crc(crc32c(data)))
    return failure(Code::kDataLoss, "{}: the CRC of its {} bytes of data is wrong",
                   record_name(path_, number, place.offset), place.length);
  return data;
}

}  // namespace xoe::data
