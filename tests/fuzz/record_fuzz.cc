// TFRecord framing: any bytes as a file. The first byte chooses whether CRCs are made right, so that the checks behind
// them are reached too.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "data/crc32c.h"
#include "data/record_file.h"

namespace {

void put_crc(std::string& file, std::size_t at, std::string_view of) {
  const std::uint32_t crc = xoe::data::mask_crc(xoe::data::crc32c(of));
  for (std::size_t i = 0; i < 4; ++i) file[at + i] = static_cast<char>((crc >> (8 * i)) & 0xff);
}

void repair(std::string& file) {
  for (std::size_t offset = 0; offset + xoe::data::kRecordHeader <= file.size();) {
    put_crc(file, offset + 8, std::string_view(file).substr(offset, 8));
    const std::size_t length = static_cast<std::uint8_t>(file[offset]);
    const std::size_t footer = offset + xoe::data::kRecordHeader + length;
    if (footer + 4 > file.size()) return;
    put_crc(file, footer, std::string_view(file).substr(offset + xoe::data::kRecordHeader, length));
    offset = footer + 4;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return 0;
  std::string content(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  if (bytes[0] % 2 == 1) repair(content);
  const int fd = ::memfd_create("record", MFD_CLOEXEC);
  if (fd < 0 || ::write(fd, content.data(), content.size()) != static_cast<ssize_t>(content.size())) std::abort();
  const auto file = xoe::data::RecordFile::open("/proc/self/fd/" + std::to_string(fd));
  if (!file) std::abort();
  if (const auto places = file->scan()) {
    std::string buffer;
    for (std::size_t i = 0; i < places->size(); ++i)
      if (const auto data = file->read((*places)[i], static_cast<std::int64_t>(i), buffer))
        if (data->size() != (*places)[i].length) std::abort();
    if (!places->empty() && places->back().end() != content.size()) std::abort();
  }
  ::close(fd);
  return 0;
}
