// The half of a program that is linked with libtorch, which takes a second to load: started once the command line is
// understood, and once there is a PyTorch that it fits.
#pragma once

#include <string>
#include <string_view>

#include "core/base/env.h"
#include "xoe/status.h"

namespace xoe::train {

// The version that this build was made with: "2.15.0".
std::string_view torch_version() noexcept;

// The folder of PyTorch, for a package's program in `folder`: beside that package, else where the python3 of PATH finds
// it. `unavailable`: no PyTorch of this version was found; the message says which one to install.
Result<std::string> find_torch(const std::string& folder, const Env& env);

// Becomes the program `name` beside this one. Returns only what kept it from that. A program of a build folder knows
// the path to libtorch itself; for one of a package find_torch() looks.
Error become_trainer(std::string_view name, char** argv);

}  // namespace xoe::train
