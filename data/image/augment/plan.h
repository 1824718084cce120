// Random changes of an image or a batch. They are drawn first and applied later, so that tests can apply any change.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "data/image/planes.h"
#include "data/stages/random.h"
#include "xoe/data/augment.h"
#include "xoe/status.h"

namespace xoe::data {

enum class PixelOp : std::uint8_t {
  kIdentity,
  kShearX,        // amount: columns per row
  kShearY,        // amount: rows per column
  kTranslateX,    // amount: pixels to the right, towards zero
  kTranslateY,    // amount: pixels down
  kRotate,        // amount: degrees, counterclockwise
  kBrightness,    // amount: factor, 1 changes nothing
  kSaturation,    // amount: factor
  kContrast,      // amount: factor
  kSharpness,     // amount: factor
  kPosterize,     // amount: bits that are kept
  kSolarize,      // amount: levels from here on are inverted
  kAutoContrast,  // no amount
  kEqualize,      // no amount
  kHue,           // amount: turns, from -0.5 to 0.5
};
inline constexpr int kRandAugmentOps = 14;  // those before kHue

struct PixelChange {
  PixelOp op = PixelOp::kIdentity;
  double amount = 0;
};

// `invalid_argument`: a field out of its range, by name.
Status check(const Augmentation& augmentation);

std::vector<PixelChange> draw_colour_jitter(Random& random, const ColourJitter& options);
std::vector<PixelChange> draw_rand_augment(Random& random, const RandAugment& options, int width, int height);
// Both, as far as the options ask for them, in that order.
std::vector<PixelChange> draw_changes(Random& random, const Augmentation& options, int width, int height);
// The strength of `op` for an image of this size, without the sign that is drawn for some operations.
double rand_augment_amount(PixelOp op, const RandAugment& options, int width, int height);

struct ErasingPlan {
  PixelRect box;
  bool noise = false;
  float value = 0;
  std::uint64_t noise_key = 0;
};
// nullopt: nothing is erased.
std::optional<ErasingPlan> draw_erasing(Random& random, const RandomErasing& options, int width, int height);

struct MixupPlan {
  double share = 1;  // of the image itself
};
struct CutmixPlan {
  PixelRect box;     // may be empty
  double share = 1;  // of the image itself that is left outside of the box
};
using MixingPlan = std::variant<std::monostate, MixupPlan, CutmixPlan>;
MixingPlan draw_mixing(Random& random, const BatchMixing& options, int width, int height);

// Marsaglia and Tsang 2000. In (0, 1) but for rounding; `alpha` above 0.
double draw_beta(Random& random, double alpha);
double draw_normal(Random& random);  // mean 0, deviation 1

}  // namespace xoe::data
