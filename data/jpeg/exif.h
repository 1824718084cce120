// The one fact of a JPEG's EXIF data that changes its pixels.
#pragma once

#include <string>
#include <string_view>

namespace xoe::data {

// How the image is stored: 1 as it is meant, 2 to 8 mirrored or turned (Exif 2.32, tag 274). 1 where the first EXIF
// segment has no such tag, has another number in it, or is broken, and where there is none in front of the first scan.
int exif_orientation(std::string_view jpeg) noexcept;

// The JPEG with an EXIF segment that says so behind its first segment. REQUIRES: encode_jpeg() made it.
std::string with_orientation(std::string_view jpeg, int orientation);

}  // namespace xoe::data
