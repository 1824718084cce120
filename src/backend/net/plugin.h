// Engines that live in libraries of their own, loaded when they are needed: the core starts without any of them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "backend/net/net.h"
#include "xoe/status.h"

namespace xoe::net {

// What a plug-in exports, in C: `xoe_net_build` (kBuild, so that no other build's plug-in is taken) and `xoe_net_open`.
inline constexpr const char* kBuildSymbol = "xoe_net_build";
inline constexpr const char* kOpenSymbol = "xoe_net_open";
using OpenFunction = Result<std::unique_ptr<Provider>>* (*)(const NetOptions&);  // the caller deletes

// Of this build.
std::string_view build_name() noexcept;

// Loads libxoe-<name>.so, from XOE_PLUGIN_DIR's folder `folder` if one is given, else from beside this library or
// program or the `lib` folder beside its own. The library stays loaded. `unsupported` when it is not there or does not
// load, with the loader's words.
Result<std::unique_ptr<Provider>> open_plugin(std::string_view name, const NetOptions& options,
                                              std::string_view folder = {});

}  // namespace xoe::net
