// EXIF orientation: the tag in a JPEG's headers, and images that it turns.
#include "data/jpeg/exif.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/image/push.h"
#include "data/image/resizer.h"
#include "data/jpeg/jpeg.h"
#include "data/stages/random.h"
#include "data/tests/exif_segment.h"
#include "xoe/data/image_transform.h"

namespace xoe::data {
namespace {

Image any_image(int width, int height) {
  Image image;
  image.resize(width, height);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      image.row(y)[3 * x] = static_cast<std::uint8_t>(3 * x);
      image.row(y)[3 * x + 1] = static_cast<std::uint8_t>(4 * y);
      image.row(y)[3 * x + 2] = static_cast<std::uint8_t>(200 - x - y);
    }
  return image;
}

// Where pixel (x, y) of the image as it is meant is stored, by the definition of each orientation.
std::pair<int, int> stored_at(int orientation, int x, int y, int width, int height) {
  switch (orientation) {
    case 2: return {width - 1 - x, y};
    case 3: return {width - 1 - x, height - 1 - y};
    case 4: return {x, height - 1 - y};
    case 5: return {y, x};
    case 6: return {y, height - 1 - x};
    case 7: return {width - 1 - y, height - 1 - x};
    case 8: return {width - 1 - y, x};
    default: return {x, y};
  }
}

// The same image, stored as it is meant.
Image upright(const Image& stored, int orientation) {
  Image image;
  const bool swapped = orientation >= 5;
  image.resize(swapped ? stored.height() : stored.width(), swapped ? stored.width() : stored.height());
  for (int y = 0; y < image.height(); ++y)
    for (int x = 0; x < image.width(); ++x) {
      const auto [sx, sy] = stored_at(orientation, x, y, stored.width(), stored.height());
      for (int c = 0; c < 3; ++c) image.row(y)[3 * x + c] = stored.row(sy)[3 * sx + c];
    }
  return image;
}

std::vector<std::uint8_t> made(const std::string& file, ImageTransform transform, std::uint64_t key = 1) {
  transform.dtype = DType::kUint8;
  transform.layout = Layout::kNhwc;
  std::vector<std::uint8_t> pixels(3 * static_cast<std::size_t>(transform.size.pixels()));
  const auto done = ImageTransformer().run(transform, file, key, pixels.data());
  EXPECT_TRUE(done) << done.error().message();
  return pixels;
}

// Pixels of a decoded JPEG, pushed as a PNG would be.
std::vector<std::uint8_t> expected(const Image& image, const ImageTransform& transform, std::uint64_t key) {
  const Resampling how{transform.pixels.interpolation, transform.pixels.antialias};
  Random random(key);
  Target target{.dtype = DType::kUint8, .layout = Layout::kNhwc};
  target.width = transform.size.width;
  target.height = transform.size.height;
  Crop crop = evaluation_crop(image.width(), image.height(), transform.size, how);
  if (transform.training) {
    crop = crop_then_resize(random_crop(image.width(), image.height(), random), how);
    target.flip = random.chance(0.5);
  }
  std::vector<std::uint8_t> pixels(3 * static_cast<std::size_t>(transform.size.pixels()));
  target.to = pixels.data();
  Resizer resizer;
  resizer.prepare(crop, target);
  push_image(image, needed_pixels(crop), resizer);
  EXPECT_TRUE(resizer.complete());
  return pixels;
}

TEST(Exif, ReadsAllOrientationsInBothByteOrders) {
  const std::string jpeg = encode_jpeg(any_image(20, 10)).value();
  EXPECT_EQ(exif_orientation(jpeg), 1);
  for (int orientation = 1; orientation <= 8; ++orientation)
    for (const bool big_endian : {false, true})
      for (const bool wide : {false, true})
        EXPECT_EQ(exif_orientation(with_exif(jpeg, orientation, {big_endian, wide})), orientation);
  for (const int wrong : {0, 9, 255, 65535}) EXPECT_EQ(exif_orientation(with_exif(jpeg, wrong)), 1);
}

// Cameras and programs write other types of whole numbers, and counts, than the standard's one short.
TEST(Exif, ReadsAllTypesOfWholeNumbers) {
  using namespace std::string_literals;
  const std::string jpeg = with_exif(encode_jpeg(any_image(20, 10)).value(), 6, {.big_endian = true, .wide = true});
  const std::size_t entry = jpeg.find("\x01\x12\0\x04\0\0\0\x01"s);
  ASSERT_NE(entry, std::string::npos);
  const auto with_entry = [&](const std::string& type_count_value) {
    std::string changed = jpeg;
    return changed.replace(entry + 2, type_count_value.size(), type_count_value);
  };
  EXPECT_EQ(exif_orientation(with_entry("\0\x01\0\0\0\x01\x06\0\0\0"s)), 6) << "BYTE";
  EXPECT_EQ(exif_orientation(with_entry("\0\x06\0\0\0\x01\x06\0\0\0"s)), 6) << "SBYTE";
  EXPECT_EQ(exif_orientation(with_entry("\0\x03\0\0\0\x01\0\x06\0\0"s)), 6) << "SHORT";
  EXPECT_EQ(exif_orientation(with_entry("\0\x08\0\0\0\x01\0\x06\0\0"s)), 6) << "SSHORT";
  EXPECT_EQ(exif_orientation(with_entry("\0\x04\0\0\0\x01\0\0\0\x06"s)), 6) << "LONG";
  EXPECT_EQ(exif_orientation(with_entry("\0\x09\0\0\0\x01\0\0\0\x06"s)), 6) << "SLONG";
  EXPECT_EQ(exif_orientation(with_entry("\0\x0d\0\0\0\x01\0\0\0\x06"s)), 6) << "IFD";
  EXPECT_EQ(exif_orientation(with_entry("\0\x03\0\0\0\x02\0\x06\0\x01"s)), 6) << "two shorts: the first";
  // Two longs do not fit into the entry: here they stand where its count is.
  const auto place = static_cast<char>(entry + 4 - jpeg.find("MM\0\x2a"s));
  EXPECT_EQ(exif_orientation(with_entry("\0\x04\0\0\0\x02\0\0\0"s + place)), 2);
  EXPECT_EQ(exif_orientation(with_entry("\0\x03\0\0\0\xff\0\0\0"s + place)), 1) << "not all of the values are there";
  EXPECT_EQ(exif_orientation(with_entry("\0\x04\0\0\0\x02\xff\xff\xff\xff"s)), 1) << "behind the end";
  EXPECT_EQ(exif_orientation(with_entry("\0\x03\xff\xff\xff\xff\0\x06\0\0"s)), 1) << "an absurd count";
  EXPECT_EQ(exif_orientation(with_entry("\0\x03\0\0\0\0\0\x06\0\0"s)), 1) << "no value";
  for (const char type : {'\x02', '\x05', '\x0a', '\x0b', '\x0c', '\0'})
    EXPECT_EQ(exif_orientation(with_entry("\0"s + type + "\0\0\0\x01\0\0\0\x06"s)), 1) << int(type);
  EXPECT_EQ(exif_orientation(with_entry("\0\x09\0\0\0\x01\xff\xff\xff\xff"s)), 1) << "-1";
}

std::string number_of(std::size_t value, std::size_t bytes, bool big_endian) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i)
    text += static_cast<char>(value >> 8 * (big_endian ? bytes - 1 - i : i) & 0xff);
  return text;
}

// A JPEG with an EXIF directory of these entries, and what stands behind it, at byte 14 + 12 * entries of the TIFF
// file.
std::string with_entries(const std::string& jpeg, std::string_view order, const std::vector<std::string>& entries,
                         const std::string& rest, bool big_endian) {
  using namespace std::string_literals;
  const auto number = [big_endian](std::size_t value, std::size_t bytes) {
    return number_of(value, bytes, big_endian);
  };
  std::string body = "Exif\0\0"s + std::string(order) + number(42, 2) + number(8, 4) + number(entries.size(), 2);
  for (const std::string& entry : entries) body += entry;
  body += number(0, 4) + rest;
  std::string segment = "\xff\xe1"s;
  segment += static_cast<char>((body.size() + 2) >> 8);
  segment += static_cast<char>((body.size() + 2) & 0xff);
  return jpeg.substr(0, 2) + segment + body + jpeg.substr(2);
}

// As Pillow reads them: values of more than four bytes stand behind the directory, and so do those of LONG8.
TEST(Exif, ReadsTheFirstOfManyValuesOfEveryType) {
  const std::string jpeg = encode_jpeg(any_image(20, 10)).value();
  for (const bool big_endian : {false, true})
    for (const auto& [type, size] :
         {std::pair<std::size_t, std::size_t>{1, 1}, {6, 1}, {3, 2}, {8, 2}, {4, 4}, {9, 4}, {13, 4}, {16, 8}})
      for (std::size_t count = 1; count <= 9; ++count) {
        const auto number = [big_endian](std::size_t value, std::size_t bytes) {
          return number_of(value, bytes, big_endian);
        };
        std::string values = number(6, size);
        for (std::size_t i = 1; i < count; ++i) values += number(3, size);
        const bool apart = values.size() > 4;
        const std::string place = apart ? number(14 + 12, 4) : values + std::string(4 - values.size(), '\0');
        const std::string entry = number(274, 2) + number(type, 2) + number(count, 4) + place;
        const std::string rest = apart ? values : "";
        const auto read = [&](const std::vector<std::string>& entries, const std::string& behind) {
          return exif_orientation(with_entries(jpeg, big_endian ? "MM" : "II", entries, behind, big_endian));
        };
        EXPECT_EQ(read({entry}, rest), 6) << type << " x " << count;
        EXPECT_EQ(read({entry}, rest.substr(apart ? 1 : 0)), apart ? 1 : 6) << "cut: " << type << " x " << count;
        if (type != 16 || count > 1) continue;
        // LONG8 counts with all of its bytes, and an entry that is none is passed over.
        EXPECT_EQ(read({entry}, number(6 + (std::size_t{1} << 32), 8)), 1);
        const std::string wrong = number(274, 2) + number(5, 2) + number(1, 4) + number(0, 4);
        const std::string right = number(274, 2) + number(3, 2) + number(1, 4) + number(8, 2) + number(0, 2);
        EXPECT_EQ(read({wrong, right}, ""), 8);
        EXPECT_EQ(read({right, entry}, rest), 8) << "the first one counts";
      }
}

TEST(Exif, BrokenSegmentsAreIgnored) {
  const std::string jpeg = with_exif(encode_jpeg(any_image(20, 10)).value(), 6);
  for (std::size_t size = 0; size < 60; ++size) {
    const int orientation = exif_orientation(jpeg.substr(0, size));
    EXPECT_TRUE(orientation == 1 || orientation == 6) << size;
  }
  EXPECT_EQ(exif_orientation(""), 1);
  EXPECT_EQ(exif_orientation("no JPEG at all"), 1);
}

TEST(Exif, EveryOrientationIsTurned) {
  const Image stored = any_image(61, 43);
  const std::string jpeg = encode_jpeg(stored, {.quality = 95}).value();
  Image decoded;
  ASSERT_TRUE(JpegDecoder().decode(jpeg, decoded));
  for (int orientation = 1; orientation <= 8; ++orientation)
    for (const bool training : {false, true})
      for (const Interpolation interpolation : {Interpolation::kBilinear, Interpolation::kBicubic})
        for (const std::uint64_t key : {1U, 2U, 3U}) {
          ImageTransform transform{.size = ImageSize(17, 24), .training = training};
          transform.pixels.interpolation = interpolation;
          transform.pixels.exif_orientation = true;
          EXPECT_EQ(made(with_exif(jpeg, orientation), transform, key),
                    expected(upright(decoded, orientation), transform, key))
              << orientation << " " << training;
          // Without the option, the image stays as it is stored.
          transform.pixels.exif_orientation = false;
          EXPECT_EQ(made(with_exif(jpeg, orientation), transform, key), made(jpeg, transform, key)) << orientation;
        }
}

TEST(Exif, GreyAndFastImagesAreTurnedToo) {
  const Image image = any_image(50, 30);
  const std::string grey = encode_jpeg(image, {.quality = 95, .grey = true}).value();
  Image decoded;
  ASSERT_TRUE(JpegDecoder().decode(grey, decoded));
  ImageTransform transform{.size = 20, .training = false};
  transform.pixels.exif_orientation = true;
  EXPECT_EQ(made(with_exif(grey, 6), transform), expected(upright(decoded, 6), transform, 1));
  const std::string colour = encode_jpeg(image, {.quality = 95}).value();
  const auto exact = made(with_exif(colour, 8), transform);
  transform.quality = Quality::kFast;
  EXPECT_EQ(made(with_exif(colour, 8), transform), exact);
}

}  // namespace
}  // namespace xoe::data
