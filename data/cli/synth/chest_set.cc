#include "data/cli/synth/chest_set.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <vector>

#include "data/cli/output_directory.h"
#include "data/cli/require.h"
#include "data/cli/synth/canvas.h"
#include "data/cli/synth/noise.h"
#include "data/source/nih_chest.h"
#include "data/stages/random.h"

namespace xoe::data::synth {
namespace {

Status check(const NihSetOptions& options) {
  XOE_TRY(require(options.images >= 1 && options.images <= 1000000, "images must be 1 to 1000000", options.images));
  XOE_TRY(require(options.test >= 0 && options.test <= 1000000, "test images must be 0 to 1000000", options.test));
  XOE_TRY(require(options.size >= 32 && options.size <= 4096, "the size must be 32 to 4096", options.size));
  return require(options.threads >= 0 && options.threads <= 1024, "threads must be 0 to 1024", options.threads);
}

// Coordinates reach from 0 to 1, from the upper left corner.
struct Ellipse {
  Point centre;
  float width = 0;  // half of it
  float height = 0;

  // 0 in the middle, 1 on the rim.
  float at(Point p) const { return length({(p.x - centre.x) / width, (p.y - centre.y) / height}); }
};

struct Chest {
  std::array<Ellipse, 2> lungs;
  Ellipse heart;
  float rib_phase = 0;
};

Chest draw_chest(Random& random, bool large_heart) {
  const float lean = uniform(random, -0.02, 0.02);
  const float width = uniform(random, 0.15, 0.18);
  const float height = uniform(random, 0.29, 0.34);
  Chest chest;
  for (const int side : {0, 1})
    chest.lungs[static_cast<std::size_t>(side)] = {
        {0.5F + lean + (side == 0 ? -0.21F : 0.21F), 0.47F + uniform(random, -0.02, 0.02)}, width, height};
  chest.heart = {{0.55F + lean, 0.62F}, (large_heart ? 0.21F : 0.12F) + uniform(random, 0, 0.02), 0.16F};
  chest.rib_phase = uniform(random, 0, 1);
  return chest;
}

float air(const Chest& chest, Point p) {
  float most = 0;
  for (const Ellipse& lung : chest.lungs) most = std::max(most, 1 - smooth_step(0.85F, 1.1F, lung.at(p)));
  return most;
}

float healthy(const Chest& chest, Point p, const Noise& noise) {
  const float inside = air(chest, p);
  float level = 0.72F - 0.45F * inside;
  level += 0.06F * inside *
           std::sin(static_cast<float>(kFullTurn) * (9 * p.y + 2 * std::abs(p.x - 0.5F) + chest.rib_phase));  // ribs
  level += 0.2F * (1 - smooth_step(0.8F, 1.1F, chest.heart.at(p)));
  level += 0.12F * (1 - smooth_step(0.02F, 0.05F, std::abs(p.x - 0.5F)));  // spine
  level -= 0.5F * smooth_step(0.4F, 0.5F, std::abs(p.x - 0.5F));           // beside the body
  return level + 0.08F * noise.cloud(6 * p.x, 6 * p.y, 4);
}

// The position of a finding in a lung.
struct Spot {
  Ellipse lung;
  Point centre;
  float strength = 0;
};

Spot draw_spot(Random& random, const Chest& chest) {
  Spot spot{chest.lungs[random.chance(0.5) ? 1 : 0], {}, uniform(random, 0.16, 0.26)};
  spot.centre = {spot.lung.centre.x + uniform(random, -0.4, 0.4) * spot.lung.width,
                 spot.lung.centre.y + uniform(random, -0.5, 0.5) * spot.lung.height};
  return spot;
}

float wave(float x) { return 0.5F + 0.5F * std::sin(static_cast<float>(kFullTurn) * x); }

// The change of brightness by a finding at a point.
float finding_at(int finding, const Spot& spot, Point p, const Noise& noise) {
  const Point q = p - spot.centre;
  const float r = length(q);
  const float inside = 1 - smooth_step(0.85F, 1.05F, spot.lung.at(p));
  const float down = (p.y - spot.lung.centre.y) / spot.lung.height;
  const auto disc = [r](float radius) { return 1 - smooth_step(0.7F * radius, radius, r); };
  switch (finding) {
    case 0: return spot.strength * disc(0.11F) * wave(22 * q.y);                          // Atelectasis: bars
    case 1: return 0;                                                                     // Cardiomegaly: the heart
    case 2: return 1.4F * spot.strength * inside * smooth_step(0.35F, 0.6F, down);        // Effusion: the bottom
    case 3: return spot.strength * disc(0.12F) * wave(16 * q.x) * wave(16 * q.y) * 1.6F;  // Infiltration: dots
    case 4: return 1.3F * spot.strength * disc(0.075F);                                   // Mass
    case 5: return 1.8F * spot.strength * disc(0.03F);                                    // Nodule
    case 6: return 1.5F * spot.strength * disc(0.13F) * wave(1.5F * noise.cloud(14 * p.x, 14 * p.y, 2));  // Pneumonia
    case 7:
      return -0.9F * spot.strength * inside * smooth_step(0.6F, 0.75F, spot.lung.at(p)) *
             smooth_step(0.1F, -0.2F, down);                                // Pneumothorax: a dark rim
    case 8: return spot.strength * disc(0.13F);                             // Consolidation
    case 9: return spot.strength * inside * wave(14 * (p.x + p.y)) * 0.8F;  // Edema: streaks everywhere
    case 10: return -spot.strength * disc(0.09F);                           // Emphysema: dark
    case 11: return spot.strength * disc(0.12F) * std::max(wave(20 * (q.x + q.y)), wave(20 * (q.x - q.y)));  // Fibrosis
    case 12: return 1.2F * spot.strength * inside * smooth_step(0.78F, 0.88F, spot.lung.at(p));  // Pleural_Thickening
    default: return 1.6F * spot.strength * (1 - smooth_step(0.012F, 0.022F, std::abs(r - 0.06F)));  // Hernia: a ring
  }
}

// An image that resembles a chest radiograph, with findings that a network can learn. Findings by number, in the order
// of kChestFindings; each has a faint pattern of its own: a larger heart, haze at the bottom of a lung, a dark rim,
// spots, rings, streaks, meshes. Returns size x size levels, row by row, which depend only on the arguments.
std::vector<std::uint8_t> render_radiograph(std::span<const int> findings, int size, std::uint64_t key) {
  constexpr int kCardiomegaly = 1;
  Random random(key);
  const Noise noise(random);
  const Chest chest = draw_chest(random, std::find(findings.begin(), findings.end(), kCardiomegaly) != findings.end());
  std::vector<Spot> spots;
  for (std::size_t i = 0; i < findings.size(); ++i) spots.push_back(draw_spot(random, chest));
  const float exposure = uniform(random, 0.85, 1.1);
  const std::uint64_t grain_key = random.bits();
  std::vector<std::uint8_t> levels(static_cast<std::size_t>(size) * static_cast<std::size_t>(size));
  for (int y = 0; y < size; ++y)
    for (int x = 0; x < size; ++x) {
      const Point p{(static_cast<float>(x) + 0.5F) / static_cast<float>(size),
                    (static_cast<float>(y) + 0.5F) / static_cast<float>(size)};
      float level = healthy(chest, p, noise);
      for (std::size_t i = 0; i < spots.size(); ++i) level += finding_at(findings[i], spots[i], p, noise);
      const std::uint64_t bits = mix(grain_key, static_cast<std::uint64_t>(y), static_cast<std::uint64_t>(x));
      const float grain = 0.02F * (static_cast<float>(bits & 0xff) / 127.5F - 1);
      const float shown = std::clamp(exposure * level + grain, 0.0F, 1.0F) * 255 + 0.5F;
      levels[static_cast<std::size_t>(y) * static_cast<std::size_t>(size) + static_cast<std::size_t>(x)] =
          static_cast<std::uint8_t>(shown);
    }
  return levels;
}

NihImage render(const NihSetOptions& options, const NihPlace& place) {
  Random random(options.seed, 3, static_cast<std::uint64_t>(place.number));
  std::vector<int> findings;
  for (const double chance : {0.5, 0.4, 0.3}) {
    if (!random.chance(chance)) break;
    findings.push_back(random.integer(0, static_cast<int>(kChestFindings.size()) - 1));
  }
  std::sort(findings.begin(), findings.end());
  findings.erase(std::unique(findings.begin(), findings.end()), findings.end());
  NihImage image{.findings = findings, .frontal = random.chance(0.6), .levels = {}};
  image.levels = render_radiograph(findings, options.size, random.bits());
  return image;
}

// Two images a patient; the patients of test images come after those of the others.
std::vector<NihPlace> places_of(const NihSetOptions& options) {
  constexpr int kPerPatient = 2;
  std::vector<NihPlace> places;
  std::int64_t patient = 0;
  for (const std::int64_t count : {options.images, options.test})
    for (std::int64_t i = 0; i < count; ++i) {
      const auto visit = static_cast<int>(i % kPerPatient);
      if (visit == 0) ++patient;
      places.push_back({.number = std::ssize(places), .patient = patient, .visit = visit});
    }
  return places;
}

}  // namespace

Result<DataSetReport> make_chest_set(const NihSetOptions& options, const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  XOE_TRY(check(options));
  XOE_ASSIGN(OutputDirectory directory, OutputDirectory::create(options.directory));
  XOE_ASSIGN(DataSetReport report, write_nih_layout(
                                       directory.path(), options, places_of(options),
                                       [&](const NihPlace& place) { return render(options, place); }, progress));
  XOE_TRY(directory.finish());
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace xoe::data::synth
