// JPEGs that say how they are turned.
#pragma once

#include <string>

namespace xoe::data {

struct ExifForm {
  bool big_endian = false;
  bool wide = false;  // the orientation is a number of 32 bits
};

// The JPEG with an EXIF segment in front of all others, in which another tag comes before the orientation.
inline std::string with_exif(const std::string& jpeg, int orientation, ExifForm form = {}) {
  const auto number = [&form](unsigned value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) {
      const int place = form.big_endian ? bytes - 1 - i : i;
      text += static_cast<char>(value >> (8 * place) & 0xff);
    }
    return text;
  };
  const auto entry = [&](unsigned tag, unsigned type, unsigned value) {
    const int bytes = type == 3 ? 2 : 4;
    return number(tag, 2) + number(type, 2) + number(1, 4) + number(value, bytes) + std::string(4 - bytes, '\0');
  };
  std::string body("Exif\0\0", 6);
  body += form.big_endian ? "MM" : "II";
  body += number(42, 2) + number(8, 4) + number(2, 2);
  body += entry(256, 4, 4000) + entry(274, form.wide ? 4 : 3, static_cast<unsigned>(orientation)) + number(0, 4);
  const std::size_t length = body.size() + 2;
  std::string segment("\xff\xe1");
  segment += static_cast<char>(length >> 8);
  segment += static_cast<char>(length & 0xff);
  return jpeg.substr(0, 2) + segment + body + jpeg.substr(2);
}

}  // namespace xoe::data
