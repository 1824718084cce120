// A timeline as a profile of XProf, which TensorBoard's profile plug-in shows: XLA's message XSpace
// (tsl/profiler/protobuf/xplane.proto).
#pragma once

#include <string>

#include "measure/pages/timeline_figure.h"

namespace xoe::pages {

// A plane for each rank, with a line for each lane, or for each row of a lane whose spans overlap.
// `unsupported`: it is longer than picoseconds can count.
Result<std::string> xplane_of(const Timeline& timeline);

// Writes it where TensorBoard looks for profiles below `folder`: plugins/profile/NAME/HOST.xplane.pb, of which NAME is
// `name`. Replaces one of the same name. Returns the path.
Result<std::string> write_xplane(const std::string& folder, const std::string& name, const Timeline& timeline);

}  // namespace xoe::pages
