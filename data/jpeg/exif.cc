#include "data/jpeg/exif.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace xoe::data {
namespace {

constexpr std::string_view kExif("Exif\0\0", 6);
constexpr int kAsStored = 1;

// The contents of the first EXIF segment, which are laid out as a TIFF file. Empty: there is none.
std::string_view find_exif(std::string_view jpeg) noexcept {
  constexpr int kApp1 = 0xe1;
  constexpr int kScan = 0xda;
  constexpr int kEnd = 0xd9;
  const auto byte_at = [jpeg](std::size_t at) { return static_cast<unsigned char>(jpeg[at]); };
  std::size_t at = 2;  // behind the start of the image
  while (jpeg.size() >= 4 && at <= jpeg.size() - 4 && byte_at(at) == 0xff) {
    const int marker = byte_at(at + 1);
    if (marker == 0xff) {  // a fill byte
      ++at;
      continue;
    }
    if (marker == kScan || marker == kEnd) break;
    const std::size_t length = 256U * byte_at(at + 2) + byte_at(at + 3);
    if (length < 2 || length > jpeg.size() - at - 2) break;
    const std::string_view body = jpeg.substr(at + 4, length - 2);
    if (marker == kApp1 && body.starts_with(kExif)) return body.substr(kExif.size());
    at += 2 + length;
  }
  return {};
}

// Numbers of a TIFF file, in its byte order.
class TiffBytes {
 public:
  TiffBytes(std::string_view bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  bool holds(std::uint64_t at, std::uint64_t size) const noexcept {
    return at <= bytes_.size() && size <= bytes_.size() - at;
  }
  // Of up to eight bytes. nullopt: behind the end.
  std::optional<std::uint64_t> number(std::uint64_t at, std::size_t size) const noexcept {
    if (!holds(at, size)) return std::nullopt;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value = value << 8 | static_cast<unsigned char>(bytes_[at + (big_endian_ ? i : size - 1 - i)]);
    return value;
  }

 private:
  std::string_view bytes_;
  bool big_endian_;
};

// Of TIFF's types of whole numbers, signed ones and IFD among them, and BigTIFF's LONG8; 0: another type.
std::size_t integer_bytes(std::uint64_t type) noexcept {
  switch (type) {
    case 1:  // BYTE
    case 6:  // SBYTE
      return 1;
    case 3:  // SHORT
    case 8:  // SSHORT
      return 2;
    case 4:   // LONG
    case 9:   // SLONG
    case 13:  // IFD
      return 4;
    case 16:  // LONG8
      return 8;
    default: return 0;
  }
}

// The first value of an entry of a directory; nullopt: it is no whole number, or some of its values are not there.
std::optional<std::uint64_t> first_value(const TiffBytes& tiff, std::uint64_t entry) noexcept {
  const std::size_t size = integer_bytes(tiff.number(entry + 2, 2).value_or(0));
  const std::uint64_t count = tiff.number(entry + 4, 4).value_or(0);
  if (size == 0 || count == 0) return std::nullopt;
  // More than four bytes do not fit into the entry, which says where they are.
  const auto at = size * count <= 4 ? std::optional<std::uint64_t>(entry + 8) : tiff.number(entry + 8, 4);
  return at && tiff.holds(*at, size * count) ? tiff.number(*at, size) : std::nullopt;
}

}  // namespace

int exif_orientation(std::string_view jpeg) noexcept {
  constexpr std::uint32_t kMagic = 42;
  constexpr std::uint32_t kOrientation = 274;
  constexpr std::uint32_t kEntryBytes = 12;
  const std::string_view exif = find_exif(jpeg);
  const bool big_endian = exif.starts_with("MM");
  if (!big_endian && !exif.starts_with("II")) return kAsStored;
  const TiffBytes tiff(exif, big_endian);
  const auto directory = tiff.number(4, 4);
  if (tiff.number(2, 2) != kMagic || !directory) return kAsStored;
  const std::uint64_t entries = tiff.number(*directory, 2).value_or(0);
  for (std::uint64_t i = 0; i < entries; ++i) {
    const std::uint64_t entry = *directory + 2 + i * kEntryBytes;
    const auto tag = tiff.number(entry, 2);
    if (!tag) return kAsStored;
    if (*tag != kOrientation) continue;
    // As in Pillow, an entry without a right value does not hide a later one.
    const auto value = first_value(tiff, entry);
    if (!value) continue;
    return *value >= 1 && *value <= 8 ? static_cast<int>(*value) : kAsStored;
  }
  return kAsStored;
}

std::string with_orientation(std::string_view jpeg, int orientation) {
  constexpr std::string_view kSegment(
      "\xff\xe1\0\x22"
      "Exif\0\0MM\0\x2a\0\0\0\x08"
      "\0\x01\x01\x12\0\x03\0\0\0\x01\0",
      29);
  constexpr std::string_view kRest("\0\0\0\0\0\0", 6);
  const std::size_t first = 4 + 256U * static_cast<unsigned char>(jpeg[4]) + static_cast<unsigned char>(jpeg[5]);
  std::string turned(jpeg.substr(0, first));
  turned.append(kSegment);
  turned += static_cast<char>(orientation);
  return turned.append(kRest).append(jpeg.substr(first));
}

}  // namespace xoe::data
