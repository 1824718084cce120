// NIH ChestX-ray14 (Wang et al., "ChestX-ray8", CVPR 2017); docs/formats/nih-chest.md.
#pragma once

#include <array>
#include <string_view>

namespace xoe::data {

// In the order of the paper, which CheXNet keeps.
inline constexpr std::array<std::string_view, 14> kChestFindings = {
    "Atelectasis", "Cardiomegaly", "Effusion",           "Infiltration",  "Mass",
    "Nodule",      "Pneumonia",    "Pneumothorax",       "Consolidation", "Edema",
    "Emphysema",   "Fibrosis",     "Pleural_Thickening", "Hernia"};

}  // namespace xoe::data
