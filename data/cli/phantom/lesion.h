// The lesions of phantoms: which form where, for each of the 14 findings.
//
// The image is a grid of 4 by 4 regions, of which the two upper corners stay empty; each finding has a region of its
// own. A lesion is one form of an eighth of the image's side, at one of 4 by 4 places of its region, all alike
// probable, as strong as one of kStrengths times the finding's contrast says, all alike probable.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace xoe::data::synth {

inline constexpr int kRegions = 4;     // along a side
inline constexpr int kPlaces = 4;      // along a side of a region
inline constexpr int kLeastSize = 32;  // of an image; sizes are multiples of it
inline constexpr std::array kStrengths = {0.7, 0.9, 1.1, 1.3};

enum class Form : std::uint8_t {
  kDisc,
  kBand,    // horizontal
  kColumn,  // vertical
};
std::string_view form_name(Form form) noexcept;  // "disc"

struct LesionKind {
  std::string_view finding;
  std::int64_t published;  // images with it among the kPublishedImages of ChestX-ray14
  double difficulty;       // the AUROC that its contrast is chosen for
  Form form;
  int row;  // of its region
  int column;

  double prevalence() const noexcept;
};
inline constexpr double kPublishedImages = 112120;

// In the order of kChestFindings.
const std::array<LesionKind, 14>& lesion_kinds() noexcept;

// Adds contrast times the form to an image, at place 0 to kPlaces² - 1 of its kind's region.
void add_lesion(const LesionKind& kind, int place, double contrast, std::vector<double>& image, int size);

}  // namespace xoe::data::synth
