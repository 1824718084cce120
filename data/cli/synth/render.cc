#include "data/cli/synth/render.h"

#include "core/base/error.h"
#include "data/cli/synth/patterns.h"

namespace xoe::data::synth {
namespace {

// Full turns around the colour circle, from red over green and blue.
Colour colour_of_hue(float hue, float strength, float light) {
  const auto part = [=](float shift) {
    const float turn = hue + shift - std::floor(hue + shift);
    const float wave = std::clamp(std::abs(6 * turn - 3) - 1, 0.0F, 1.0F);
    return light * (1 - strength + strength * wave);
  };
  return {part(0), part(2.0F / 3), part(1.0F / 3)};
}

Colour any_colour(Random& random) { return {uniform(random, 0, 1), uniform(random, 0, 1), uniform(random, 0, 1)}; }

// Backgrounds are mostly muted.
Colour muted_colour(Random& random) {
  const Colour colour = any_colour(random);
  const float grey = brightness(colour);
  return blend(colour, {grey, grey, grey}, uniform(random, 0.5, 0.9));
}

// A colour of another brightness, so that it also differs in grey images.
Colour colour_against(Random& random, Colour other, float difference) {
  for (int attempt = 0; attempt < 30; ++attempt) {
    const Colour colour = muted_colour(random);
    if (std::abs(brightness(colour) - brightness(other)) >= difference) return colour;
  }
  return brightness(other) > 0.5F ? Colour{0.05F, 0.05F, 0.05F} : Colour{0.95F, 0.95F, 0.95F};
}

Placement place_object(Random& random, const Canvas& canvas, double low, double high, double spread) {
  const auto side = static_cast<double>(canvas.shorter());
  Placement placement;
  placement.radius = uniform(random, low, high) * static_cast<float>(side);
  placement.centre = {uniform(random, 0.5 - spread, 0.5 + spread) * static_cast<float>(canvas.width()),
                      uniform(random, 0.5 - spread, 0.5 + spread) * static_cast<float>(canvas.height())};
  placement.angle = uniform(random, 0, kFullTurn);
  return placement;
}

void paint_background(Canvas& canvas, Random& random, const Noise& noise) {
  const Colour from = muted_colour(random);
  const Colour to = muted_colour(random);
  const Colour tint = muted_colour(random);
  const float angle = uniform(random, 0, kFullTurn);
  const float across = std::cos(angle) / static_cast<float>(canvas.shorter());
  const float along = std::sin(angle) / static_cast<float>(canvas.shorter());
  const float scale = uniform(random, 1.5, 6) / static_cast<float>(canvas.shorter());
  const float strength = uniform(random, 0.2, 0.9);
  for (int y = 0; y < canvas.height(); ++y)
    for (int x = 0; x < canvas.width(); ++x) {
      const auto fx = static_cast<float>(x);
      const auto fy = static_cast<float>(y);
      const float cloud = noise.cloud(fx * scale, fy * scale, 5);
      const float way = smooth_step(-0.8F, 0.8F, fx * across + fy * along - 0.5F * (across + along) + 0.4F * cloud);
      canvas.at(x, y) =
          blend(blend(from, to, way), tint, std::clamp(strength * cloud, 0.0F, 1.0F)) * (1 + 0.5F * cloud);
    }
}

void paint_distractor(Canvas& canvas, Random& random, const Noise& noise) {
  const Placement placement = place_object(random, canvas, 0.03, 0.1, 0.5);
  const int shape = random.integer(0, kShapes - 1);
  const Colour colour = muted_colour(random);
  const float soft = 1.2F / placement.radius;
  for_each_pixel(canvas, placement, 1.3F, [&](int x, int y, Point p) {
    const float cover = 1 - smooth_step(-soft, soft, shape_distance(shape, p));
    if (cover > 0) canvas.at(x, y) = blend(canvas.at(x, y), colour * (1 + 0.2F * noise.at(p.x, p.y)), cover);
  });
}

void paint_shadow(Canvas& canvas, const Placement& object, int shape, Random& random) {
  Placement shadow = object;
  shadow.centre.x += uniform(random, -0.2, 0.2) * object.radius;
  shadow.centre.y += uniform(random, 0.05, 0.2) * object.radius;
  const float depth = uniform(random, 0.2, 0.6);
  for_each_pixel(canvas, shadow, 1.5F, [&](int x, int y, Point p) {
    Colour& colour = canvas.at(x, y);
    colour = colour * (1 - depth * (1 - smooth_step(-0.1F, 0.25F, shape_distance(shape, p))));
  });
}

struct Paint {
  Colour first;
  Colour second;
};

void paint_object(Canvas& canvas, const Placement& object, const Kind& kind, const Paint& paint, Random& random,
                  const Noise& noise) {
  const float soft = 1.0F / object.radius;
  const float frequency = uniform(random, 2.2, 3.2);
  const Point offset{uniform(random, 0, 9), uniform(random, 0, 9)};
  const bool centred = kind.texture == 5;  // rings around the middle
  const Point light{uniform(random, -0.3, 0.3), uniform(random, -0.3, 0.3)};
  for_each_pixel(canvas, object, 1.4F, [&](int x, int y, Point p) {
    const float cover = 1 - smooth_step(-soft, soft, shape_distance(kind.shape, p));
    if (cover <= 0) return;
    const Point q = centred ? Point{p.x * frequency, p.y * frequency}
                            : Point{p.x * frequency + offset.x, p.y * frequency + offset.y};
    const float shade = 1 + light.x * p.x + light.y * p.y + 0.12F * noise.at(5 * p.x, 5 * p.y);
    const Colour colour = blend(paint.first, paint.second, texture_value(kind.texture, q, noise));
    canvas.at(x, y) = blend(canvas.at(x, y), colour * shade, cover);
  });
}

// On a plate, because a pattern would hide it.
void paint_digit(Canvas& canvas, const Placement& object, int digit, Random& random) {
  Placement plate_area = object;
  plate_area.radius *= uniform(random, 0.42, 0.55);
  plate_area.centre.x += uniform(random, -0.25, 0.25) * object.radius;
  plate_area.centre.y += uniform(random, -0.25, 0.25) * object.radius;
  plate_area.angle = uniform(random, -0.3, 0.3);
  const Colour plate = muted_colour(random);
  const float ink_light = brightness(plate) > 0.5F ? uniform(random, 0, 0.15) : uniform(random, 0.85, 1);
  const Colour ink{ink_light, ink_light, ink_light};
  const float pen = uniform(random, 0.09, 0.16);
  const float soft = 0.8F / plate_area.radius;
  for_each_pixel(canvas, plate_area, 1.3F, [&](int x, int y, Point p) {
    const float rim = std::max(std::abs(p.x) - 0.75F, std::abs(p.y) - 1.1F);
    const float cover = 1 - smooth_step(-soft, soft, rim);
    if (cover <= 0) return;
    const float mark = 1 - smooth_step(pen - soft, pen + soft, digit_distance(digit, p));
    canvas.at(x, y) = blend(canvas.at(x, y), blend(plate, ink, mark), cover);
  });
}

// Brightness noise of all scales, from a quarter of the image down to two pixels.
void add_detail(Canvas& canvas, const Noise& noise, float strength) {
  constexpr float kCoarsest = 4;  // cells across the shorter side
  const float scale = kCoarsest / static_cast<float>(canvas.shorter());
  const int octaves = std::max(1, static_cast<int>(std::log2(0.5F / scale)) + 1);
  for (int y = 0; y < canvas.height(); ++y)
    for (int x = 0; x < canvas.width(); ++x) {
      const float cloud = noise.cloud(static_cast<float>(x) * scale, static_cast<float>(y) * scale, octaves);
      canvas.at(x, y) = canvas.at(x, y) * (1 + strength * cloud);
    }
}

// Exposure, darker corners, grain, and 8 bits.
void finish_image(Canvas& canvas, Random& random, Film film, Image& image) {
  image.resize(canvas.width(), canvas.height());
  const float exposure = uniform(random, 0.75, 1.2);
  const float corners = uniform(random, 0, 0.35);
  const float grain = uniform(random, film.grain_min, film.grain_max);
  const auto half_width = static_cast<float>(canvas.width()) / 2;
  const auto half_height = static_cast<float>(canvas.height()) / 2;
  const std::uint64_t key = random.bits();
  const auto to_byte = [](float value) {
    const float shifted = std::clamp(value, 0.0F, 1.0F) * 255 + 0.5F;  // truncation rounds positive numbers
    return static_cast<std::uint8_t>(shifted);
  };
  for (int y = 0; y < canvas.height(); ++y) {
    std::uint8_t* row = image.row(y);
    for (int x = 0; x < canvas.width(); ++x, row += 3) {
      const float dx = (static_cast<float>(x) - half_width) / half_width;
      const float dy = (static_cast<float>(y) - half_height) / half_height;
      const Colour colour = canvas.at(x, y) * (exposure * (1 - corners * (dx * dx + dy * dy) / 2));
      const std::uint64_t bits = mix(key, static_cast<std::uint64_t>(y), static_cast<std::uint64_t>(x));
      // The sum of two numbers has a triangular distribution; the channels share most of the grain.
      const auto number = [bits](int at) { return static_cast<float>((bits >> at) & 0xff) / 127.5F - 1; };
      const float shared = grain * (number(0) + number(8));
      row[0] = to_byte(colour.r + shared + 0.4F * grain * number(16));
      row[1] = to_byte(colour.g + shared + 0.4F * grain * number(24));
      row[2] = to_byte(colour.b + shared + 0.4F * grain * number(32));
    }
  }
}

}  // namespace

Kind kind_of(int label) noexcept {
  const int ones = label % 10;
  const int tens = label / 10 % 10;
  const int hundreds = label / 100 % 10;
  return {ones, (ones + tens) % 10, (ones + tens + hundreds) % 10};
}

std::string kind_name(int label) {
  const Kind kind = kind_of(label);
  return fmt::format("{}-{}-{}", shape_name(kind.shape), texture_name(kind.texture), kind.digit);
}

void render(int label, int width, int height, std::uint64_t key, Image& image, Film film) {
  Random random(key);
  const Noise noise(random);
  Canvas canvas(width, height);
  const Kind kind = kind_of(label);
  paint_background(canvas, random, noise);
  for (int i = random.integer(3, 8); i > 0; --i) paint_distractor(canvas, random, noise);
  const Placement object = place_object(random, canvas, 0.36, 0.5, 0.1);
  // The class leans towards a hue, which touches its neighbours.
  const float hue = static_cast<float>(kind.shape) / kShapes + uniform(random, -0.05, 0.05);
  const Colour first = colour_of_hue(hue, uniform(random, 0.7, 1), uniform(random, 0.6, 1));
  const Paint paint{first, colour_against(random, first, 0.3F)};
  paint_shadow(canvas, object, kind.shape, random);
  paint_object(canvas, object, kind, paint, random, noise);
  paint_digit(canvas, object, kind.digit, random);
  if (film.detail > 0) add_detail(canvas, noise, static_cast<float>(film.detail));
  finish_image(canvas, random, film, image);
}

}  // namespace xoe::data::synth
