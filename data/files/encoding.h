// The encodings of images that are read: one row for each. data/codec has what decodes them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace xoe::data {

enum class Encoding : std::uint8_t { kJpeg, kPng };

struct EncodingTraits {
  Encoding encoding;
  std::string_view name;                       // "JPEG"
  std::string_view description;                // "a JPEG image"
  std::string_view begin;                      // the first bytes of every such file
  std::string_view signature;                  // those that no record has as its length, and no text
  std::array<std::string_view, 2> extensions;  // the first is that of files that are written; others may be empty
};

inline constexpr std::array kEncodings = {
    EncodingTraits{.encoding = Encoding::kJpeg,
                   .name = "JPEG",
                   .description = "a JPEG image",
                   .begin = "\xff\xd8",
                   .signature = "\xff\xd8\xff",
                   .extensions = {".jpg", ".jpeg"}},
    EncodingTraits{.encoding = Encoding::kPng,
                   .name = "PNG",
                   .description = "a PNG image",
                   .begin = "\x89PNG\r\n\x1a\n",
                   .signature = "\x89PNG\r\n\x1a\n",
                   .extensions = {".png", ""}},
};

constexpr const EncodingTraits& traits_of(Encoding encoding) noexcept {
  return kEncodings[static_cast<std::size_t>(encoding)];
}

// Finds the encoding of a file by its first bytes; nullopt: it is no image that is read.
std::optional<Encoding> encoding_of(std::string_view bytes) noexcept;

// Tells whether the name ends in the extension of an encoding, in upper or lower case.
bool is_image_name(std::string_view name) noexcept;
// Tells the same of an extension alone, which is in lower case and has no dot.
bool is_image_extension(std::string_view extension) noexcept;

// "JPEG or PNG", with this word in front of the last one.
std::string encoding_names(std::string_view word);
// ".jpg, .jpeg or .png".
std::string encoding_extensions(std::string_view word);

}  // namespace xoe::data
