#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "data/image/augment/plan.h"

namespace xoe::data {
namespace {

constexpr int kErasingAttempts = 10;

// Value `i` of `count` from `first` to `last`, in float32 and from both ends, as torch.linspace rounds.
float spaced(float first, float last, int count, int i) {
  const float step = (last - first) / static_cast<float>(count - 1);
  if (i < count / 2) return first + step * static_cast<float>(i);
  return last - step * static_cast<float>(count - 1 - i);
}

// From the Gamma distribution with this shape.
double draw_gamma(Random& random, double shape) {
  if (shape < 1) {
    const double larger = draw_gamma(random, shape + 1);
    return larger * std::pow(1 - random.uniform(), 1 / shape);
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = draw_normal(random);
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double u = 1 - random.uniform();  // above 0
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

CutmixPlan draw_cutmix(Random& random, double alpha, int width, int height) {
  const double share = draw_beta(random, alpha);
  const int x = random.integer(0, width - 1);
  const int y = random.integer(0, height - 1);
  const double half = 0.5 * std::sqrt(1 - share);
  const int half_width = static_cast<int>(half * width);
  const int half_height = static_cast<int>(half * height);
  const int left = std::max(x - half_width, 0);
  const int top = std::max(y - half_height, 0);
  const PixelRect box = {left, top, std::min(x + half_width, width) - left, std::min(y + half_height, height) - top};
  const double pasted = static_cast<double>(box.width) * box.height;
  return {box, 1 - pasted / (static_cast<double>(width) * height)};
}

Status within(const char* name, double value, double low, double high) {
  if (value >= low && value <= high) return {};
  return failure(Code::kInvalidArgument, "{} is {}; it lies between {} and {}", name, value, low, high);
}

Status check(const RandomErasing& options) {
  XOE_TRY(within("erasing.probability", options.probability, 0, 1));
  XOE_TRY(within("erasing.area[0]", options.area[0], 0, 1));
  XOE_TRY(within("erasing.area[1]", options.area[1], options.area[0], 1));
  XOE_TRY(within("erasing.ratio[0]", options.ratio[0], 1e-3, 1e3));
  return within("erasing.ratio[1]", options.ratio[1], options.ratio[0], 1e3);
}

}  // namespace

Status check(const Augmentation& augmentation) {
  constexpr double kStrongest = 1e3;
  if (const auto& jitter = augmentation.colour_jitter) {
    XOE_TRY(within("colour_jitter.brightness", jitter->brightness, 0, kStrongest));
    XOE_TRY(within("colour_jitter.contrast", jitter->contrast, 0, kStrongest));
    XOE_TRY(within("colour_jitter.saturation", jitter->saturation, 0, kStrongest));
    XOE_TRY(within("colour_jitter.hue", jitter->hue, 0, 0.5));
  }
  if (const auto& rand = augmentation.rand_augment) {
    XOE_TRY(within("rand_augment.operations", rand->operations, 0, 100));
    XOE_TRY(within("rand_augment.bins", rand->bins, 2, 1000));
    XOE_TRY(within("rand_augment.magnitude", rand->magnitude, 0, rand->bins - 1));
  }
  if (augmentation.erasing) XOE_TRY(check(*augmentation.erasing));
  XOE_TRY(within("mixing.mixup_alpha", augmentation.mixing.mixup_alpha, 0, kStrongest));
  XOE_TRY(within("mixing.cutmix_alpha", augmentation.mixing.cutmix_alpha, 0, kStrongest));
  return within("mixing.cutmix_probability", augmentation.mixing.cutmix_probability, 0, 1);
}

double draw_normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

double draw_beta(Random& random, double alpha) {
  const double a = draw_gamma(random, alpha);
  const double b = draw_gamma(random, alpha);
  return a + b > 0 ? a / (a + b) : 0.5;  // both can vanish when alpha is tiny
}

std::vector<PixelChange> draw_colour_jitter(Random& random, const ColourJitter& options) {
  std::vector<PixelChange> changes;
  const auto add = [&](PixelOp op, double centre, double range) {
    if (range > 0) changes.push_back({op, random.uniform(std::max(centre - range, centre - 1), centre + range)});
  };
  add(PixelOp::kBrightness, 1, options.brightness);
  add(PixelOp::kContrast, 1, options.contrast);
  add(PixelOp::kSaturation, 1, options.saturation);
  add(PixelOp::kHue, 0, options.hue);
  for (std::size_t i = changes.size(); i > 1; --i)
    std::swap(changes[i - 1], changes[static_cast<std::size_t>(random.integer(0, static_cast<int>(i) - 1))]);
  return changes;
}

double rand_augment_amount(PixelOp op, const RandAugment& options, int width, int height) {
  const int bins = options.bins;
  const int bin = options.magnitude;
  switch (op) {
    case PixelOp::kShearX:
    case PixelOp::kShearY: return spaced(0, 0.3F, bins, bin);
    case PixelOp::kTranslateX: return spaced(0, static_cast<float>(150.0 / 331 * width), bins, bin);
    case PixelOp::kTranslateY: return spaced(0, static_cast<float>(150.0 / 331 * height), bins, bin);
    case PixelOp::kRotate: return spaced(0, 30, bins, bin);
    case PixelOp::kBrightness:
    case PixelOp::kSaturation:
    case PixelOp::kContrast:
    case PixelOp::kSharpness: return spaced(0, 0.9F, bins, bin);
    case PixelOp::kPosterize: return 8 - std::nearbyint(static_cast<float>(bin) / static_cast<float>((bins - 1) / 4.0));
    case PixelOp::kSolarize: return spaced(255, 0, bins, bin);
    case PixelOp::kIdentity:
    case PixelOp::kAutoContrast:
    case PixelOp::kEqualize:
    case PixelOp::kHue: return 0;
  }
  return 0;
}

std::vector<PixelChange> draw_rand_augment(Random& random, const RandAugment& options, int width, int height) {
  std::vector<PixelChange> changes;
  for (int i = 0; i < options.operations; ++i) {
    const auto op = static_cast<PixelOp>(random.integer(0, kRandAugmentOps - 1));
    double amount = rand_augment_amount(op, options, width, height);
    if (op >= PixelOp::kShearX && op <= PixelOp::kSharpness && random.chance(0.5)) amount = -amount;
    if (op >= PixelOp::kBrightness && op <= PixelOp::kSharpness) amount += 1;
    changes.push_back({op, amount});
  }
  return changes;
}

std::vector<PixelChange> draw_changes(Random& random, const Augmentation& options, int width, int height) {
  std::vector<PixelChange> changes;
  if (options.colour_jitter) changes = draw_colour_jitter(random, *options.colour_jitter);
  if (options.rand_augment) {
    const auto more = draw_rand_augment(random, *options.rand_augment, width, height);
    changes.insert(changes.end(), more.begin(), more.end());
  }
  return changes;
}

std::optional<ErasingPlan> draw_erasing(Random& random, const RandomErasing& options, int width, int height) {
  if (!random.chance(options.probability)) return {};
  const double area = static_cast<double>(width) * height;
  for (int attempt = 0; attempt < kErasingAttempts; ++attempt) {
    const double erased = area * random.uniform(options.area[0], options.area[1]);
    const double ratio = std::exp(random.uniform(std::log(options.ratio[0]), std::log(options.ratio[1])));
    const auto h = static_cast<int>(std::nearbyint(std::sqrt(erased * ratio)));
    const auto w = static_cast<int>(std::nearbyint(std::sqrt(erased / ratio)));
    if (h >= height || w >= width) continue;
    const int y = random.integer(0, height - h);
    const int x = random.integer(0, width - w);
    return ErasingPlan{{x, y, w, h}, options.noise, options.value, random.bits()};
  }
  return {};
}

MixingPlan draw_mixing(Random& random, const BatchMixing& options, int width, int height) {
  const bool both = options.mixup_alpha > 0 && options.cutmix_alpha > 0;
  const bool cut = both ? random.chance(options.cutmix_probability) : options.cutmix_alpha > 0;
  if (cut) return draw_cutmix(random, options.cutmix_alpha, width, height);
  if (options.mixup_alpha > 0) return MixupPlan{draw_beta(random, options.mixup_alpha)};
  return {};
}

}  // namespace xoe::data
