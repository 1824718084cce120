#include "data/files/foreign_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "data/files/encoding.h"

namespace xoe::data {
namespace {

using namespace std::string_view_literals;

struct Kind {
  std::string_view begin;
  std::string_view name;
};

// As the length of a first record, each would be of many gigabytes.
constexpr std::array kKinds = {
    Kind{"GIF87a"sv, "a GIF image"},
    Kind{"GIF89a"sv, "a GIF image"},
    Kind{"RIFF"sv, "a RIFF file, such as a WebP image"},
    Kind{"II*\0\x08\0\0\0"sv, "a TIFF image"},
    Kind{"MM\0*\0\0\0\x08"sv, "a TIFF image"},
    Kind{"PK\x03\x04"sv, "a ZIP archive"},
    Kind{"BZh91AY&"sv, "a bzip2 file"},
    Kind{"\xFD\x37zXZ\0"sv, "an xz file"},
    Kind{"\x28\xB5\x2F\xFD"sv, "a zstd file"},
    Kind{"PAR1"sv, "a Parquet file"},
    Kind{"\x89HDF\r\n\x1A\n"sv, "an HDF5 file"},
    Kind{"%PDF-"sv, "a PDF document"},
    Kind{"\x93NUMPY"sv, "an array of NumPy"},
    Kind{"version http"sv, "a pointer of Git LFS, which stands for the file until `git lfs pull` fetches it"},
};

bool begins_with_any_case(std::string_view text, std::string_view begin) noexcept {
  return text.size() >= begin.size() && std::equal(begin.begin(), begin.end(), text.begin(), [](char a, char b) {
           return a == std::tolower(static_cast<unsigned char>(b));
         });
}

// Of HTML 12 bytes are enough: the shortest piece that may be looked at.
bool is_html(std::string_view begin) noexcept {
  if (begin.starts_with("\xef\xbb\xbf")) begin.remove_prefix(3);
  begin.remove_prefix(std::min(begin.find_first_not_of(" \t\r\n"), begin.size()));
  return begins_with_any_case(begin, "<!doctype") || begins_with_any_case(begin, "<html");
}

// The size of a second header follows the 14 bytes of the first.
bool is_bmp(std::string_view begin) noexcept {
  static constexpr std::string_view kSizes = "\x0c\x28\x34\x38\x40\x6c\x7c";
  return begin.size() >= 18 && begin.starts_with("BM") && begin.substr(6, 4) == "\0\0\0\0"sv &&
         kSizes.find(begin[14]) != std::string_view::npos && begin.substr(15, 3) == "\0\0\0"sv;
}

}  // namespace

std::string_view foreign_kind_of(std::string_view begin) noexcept {
  for (const EncodingTraits& one : kEncodings)
    if (begin.starts_with(one.signature)) return one.description;
  const auto kind = std::ranges::find_if(kKinds, [begin](const Kind& one) { return begin.starts_with(one.begin); });
  if (kind != kKinds.end()) return kind->name;
  if (is_html(begin)) return "an HTML page, as a server answers in the place of a file";
  if (is_bmp(begin)) return "a BMP image";
  const std::string_view box = begin.size() >= 12 ? begin.substr(4, 8) : std::string_view();
  if (box.starts_with("ftypavif") || box.starts_with("ftypavis")) return "an AVIF image";
  if (box.starts_with("ftyphei") || box.starts_with("ftyphev") || box.starts_with("ftypmif1")) return "a HEIC image";
  if (box.starts_with("ftyp")) return "a video, of the kind of MP4";
  if (box.starts_with("jP  ")) return "a JPEG 2000 image";
  return {};
}

std::string describe_no_image(std::string_view bytes) {
  constexpr std::size_t kLook = 64;
  const std::string_view begin = bytes.substr(0, kLook);
  std::string_view kind = foreign_kind_of(begin);
  const auto is_text = [](char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t'; };
  if (begin.starts_with("RIFF") && begin.size() >= 12 && begin.substr(8, 4) == "WEBP") kind = "a WebP image";
  // A part of an image that is read, but none of its files.
  for (const EncodingTraits& one : kEncodings)
    if (begin.starts_with(one.begin.substr(0, 4))) kind = {};
  if (kind.empty() && begin.starts_with("\x1f\x8b")) kind = "a gzip file";
  if (kind.empty() && begin.starts_with("\xFF\x0A")) kind = "a JPEG XL image";
  if (kind.empty() && bytes.size() >= 132 && bytes.substr(128, 4) == "DICM") kind = "a DICOM file";
  if (kind.empty() && (begin.starts_with("<?xml") || begin.starts_with("<svg"))) kind = "an XML text, such as SVG";
  if (kind.empty() && !begin.empty() && std::ranges::all_of(begin, is_text)) kind = "a text";
  if (kind.empty() && bytes.find_first_not_of('\0') == std::string_view::npos && !bytes.empty())
    kind = "zeros, as a file has whose content was never written";
  return fmt::format("{} bytes that are neither {}{}{}", bytes.size(), encoding_names("nor"),
                     kind.empty() ? "" : ", but ", kind);
}

}  // namespace xoe::data
