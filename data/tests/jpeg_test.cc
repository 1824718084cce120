// JPEGs of every kind that libjpeg writes, and broken ones.
#include "data/jpeg/jpeg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include <jpeglib.h>

#include "data/stages/random.h"

namespace xoe::data {
namespace {

// A smooth picture, which JPEG keeps nearly as it is.
Image smooth_image(int width, int height) {
  Image image;
  image.resize(width, height);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      image.row(y)[3 * x] = static_cast<std::uint8_t>(40 + 150 * x / width);
      image.row(y)[3 * x + 1] = static_cast<std::uint8_t>(30 + 180 * y / height);
      image.row(y)[3 * x + 2] = static_cast<std::uint8_t>(200 - 100 * x / width);
    }
  return image;
}

double mean_difference(const Image& a, const Image& b) {
  EXPECT_EQ(a.width(), b.width());
  EXPECT_EQ(a.height(), b.height());
  double sum = 0;
  for (int y = 0; y < a.height(); ++y)
    for (int x = 0; x < 3 * a.width(); ++x) sum += std::abs(a.row(y)[x] - b.row(y)[x]);
  return sum / (3.0 * a.width() * a.height());
}

struct FourInks {
  J_COLOR_SPACE stored = JCS_CMYK;  // or JCS_YCCK
  bool adobe = true;                // with the marker that means inverted inks
};

// The image's colours as inks without black.
std::string encode_inks(const Image& image, FourInks kind) {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(image.width());
  info.image_height = static_cast<JDIMENSION>(image.height());
  info.input_components = 4;
  info.in_color_space = JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, kind.stored);
  info.write_Adobe_marker = kind.adobe ? TRUE : FALSE;
  jpeg_set_quality(&info, 95, TRUE);
  jpeg_start_compress(&info, TRUE);
  std::vector<std::uint8_t> row(static_cast<std::size_t>(image.width()) * 4);
  while (info.next_scanline < info.image_height) {
    const std::uint8_t* rgb = image.row(static_cast<int>(info.next_scanline));
    for (std::size_t x = 0; x < static_cast<std::size_t>(image.width()); ++x) {
      for (std::size_t c = 0; c < 3; ++c)
        row[4 * x + c] = kind.adobe ? rgb[3 * x + c] : static_cast<std::uint8_t>(255 - rgb[3 * x + c]);
      row[4 * x + 3] = kind.adobe ? 255 : 0;
    }
    std::uint8_t* pointer = row.data();
    jpeg_write_scanlines(&info, &pointer, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string jpeg(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return jpeg;
}

TEST(Jpeg, ColourBaselineAndProgressive) {
  JpegDecoder decoder;
  Image decoded;
  for (const auto& [width, height] : {std::pair{1, 1}, {7, 5}, {16, 16}, {33, 100}, {200, 120}})
    for (const bool progressive : {false, true}) {
      const Image image = smooth_image(width, height);
      const auto jpeg = encode_jpeg(image, {.quality = 95, .progressive = progressive}).value();
      ASSERT_TRUE(decoder.decode(jpeg, decoded));
      EXPECT_LT(mean_difference(image, decoded), width > 10 ? 3 : 12) << width << " " << progressive;
    }
}

TEST(Jpeg, GreyComesAsEqualColours) {
  JpegDecoder decoder;
  Image decoded;
  const Image image = smooth_image(64, 48);
  ASSERT_TRUE(decoder.decode(encode_jpeg(image, {.quality = 95, .grey = true}).value(), decoded));
  ASSERT_EQ(decoded.width(), 64);
  for (int x = 0; x < 64; ++x) {
    const std::uint8_t* pixel = decoded.row(20) + 3 * x;
    EXPECT_EQ(pixel[0], pixel[1]);
    EXPECT_EQ(pixel[1], pixel[2]);
    const std::uint8_t* original = image.row(20) + 3 * x;
    EXPECT_NEAR(pixel[0], 0.299 * original[0] + 0.587 * original[1] + 0.114 * original[2], 4);
  }
}

TEST(Jpeg, FourInksInAllTheirWays) {
  JpegDecoder decoder;
  Image decoded;
  const Image image = smooth_image(64, 48);
  for (const FourInks kind : {FourInks{JCS_CMYK, true}, FourInks{JCS_CMYK, false}, FourInks{JCS_YCCK, true}}) {
    ASSERT_TRUE(decoder.decode(encode_inks(image, kind), decoded));
    EXPECT_LT(mean_difference(image, decoded), 3) << kind.stored << " " << kind.adobe;
  }
}

// Any cut within the image data is an error, never a half grey image.
TEST(Jpeg, EveryTruncationFails) {
  JpegDecoder decoder;
  Image decoded;
  for (const bool progressive : {false, true}) {
    const auto jpeg = encode_jpeg(smooth_image(64, 48), {.progressive = progressive}).value();
    for (std::size_t size = 0; size < jpeg.size() - 2; size += 7) {
      const Status status = decoder.decode(std::string_view(jpeg).substr(0, size), decoded);
      ASSERT_FALSE(status) << size << " of " << jpeg.size();
      EXPECT_EQ(status.error().code(), Code::kDataLoss);
      EXPECT_THAT(status.error().message(), ::testing::HasSubstr("JPEG"));
    }
    EXPECT_TRUE(decoder.decode(jpeg, decoded)) << "a decoder stays good after failures";
  }
}

TEST(Jpeg, DamageNeverCrashes) {
  JpegDecoder decoder;
  Image decoded;
  Random random(1);
  for (const bool progressive : {false, true}) {
    const auto jpeg = encode_jpeg(smooth_image(80, 60), {.progressive = progressive}).value();
    for (int round = 0; round < 600; ++round) {
      std::string damaged = jpeg;
      for (int i = random.integer(1, 4); i > 0; --i)
        damaged[static_cast<std::size_t>(random.integer(0, static_cast<int>(jpeg.size()) - 1))] =
            static_cast<char>(random.integer(0, 255));
      (void)decoder.decode(damaged, decoded, 1 << 20);
    }
  }
}

TEST(Jpeg, OtherBytesFail) {
  JpegDecoder decoder;
  Image decoded;
  for (const std::string_view bytes : {"", "\xff\xd8", "\xff\xd8\xff\xd9", "no JPEG at all", "\x89PNG\r\n\x1a\n"})
    EXPECT_EQ(decoder.decode(bytes, decoded).error().code(), Code::kDataLoss);
}

TEST(Jpeg, PixelsAreBounded) {
  JpegDecoder decoder;
  Image decoded;
  auto jpeg = encode_jpeg(smooth_image(64, 48)).value();
  EXPECT_EQ(decoder.decode(jpeg, decoded, 64 * 48 - 1).error().code(), Code::kResourceExhausted);
  EXPECT_TRUE(decoder.decode(jpeg, decoded, 64 * 48));
  // A header that claims 65500 x 65500 pixels.
  const auto frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  for (const std::size_t at : {5U, 6U, 7U, 8U}) jpeg[frame + at] = static_cast<char>(at % 2 == 1 ? 0xff : 0xdc);
  EXPECT_EQ(decoder.decode(jpeg, decoded).error().code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace xoe::data
