// Writes a directory in the layout of NIH ChestX-ray14.
#pragma once

#include "data/cli/synth/nih_layout.h"

namespace xoe::data::synth {

// As write_nih_layout(). About half of the images have no finding, the others one to three; a patient has two images,
// both in one list. The bytes depend only on the options. The directory appears whole or not at all.
Result<DataSetReport> make_chest_set(const NihSetOptions& options, const Progress& progress);

}  // namespace xoe::data::synth
