#include <cmath>
#include <cstring>
#include <numbers>

#include "data/image/augment/apply.h"

namespace xoe::data {

Affine shear(double columns, double rows) { return {.b = columns, .d = rows}; }

Affine rotation(double degrees, int width, int height) {
  const double angle = -degrees * std::numbers::pi / 180;
  const double cosine = std::cos(angle);
  const double sine = std::sin(angle);
  const double x = width / 2.0;
  const double y = height / 2.0;
  return {cosine, sine, cosine * -x + sine * -y + x, -sine, cosine, -sine * -x + cosine * -y + y};
}

// In fixed point with 16 digits behind the point, as Pillow walks.
void transform(const Image& image, Image& to, const Affine& m) {
  const auto fixed = [](double value) { return static_cast<std::int64_t>(std::floor(value * 65536 + 0.5)); };
  to.resize(image.width(), image.height());
  const std::int64_t across_x = fixed(m.a);
  const std::int64_t across_y = fixed(m.d);
  std::int64_t row_x = fixed(m.c + m.a * 0.5 + m.b * 0.5);
  std::int64_t row_y = fixed(m.f + m.d * 0.5 + m.e * 0.5);
  for (int y = 0; y < to.height(); ++y, row_x += fixed(m.b), row_y += fixed(m.e)) {
    std::uint8_t* pixel = to.row(y);
    std::memset(pixel, 0, to.stride());
    std::int64_t at_x = row_x;
    std::int64_t at_y = row_y;
    for (int x = 0; x < to.width(); ++x, pixel += 3, at_x += across_x, at_y += across_y) {
      const std::int64_t from_x = at_x >> 16;
      const std::int64_t from_y = at_y >> 16;
      if (from_x < 0 || from_x >= image.width() || from_y < 0 || from_y >= image.height()) continue;
      std::memcpy(pixel, image.row(static_cast<int>(from_y)) + 3 * from_x, 3);
    }
  }
}

}  // namespace xoe::data
