// Providers that live in libraries of their own, loaded when they are needed: the core starts without any of them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/backend/net/net.h"
#include "xoe/status.h"

namespace xoe::net {

// The C symbols that a plug-in exports: the name of its build, so that no plug-in of another build is used, and the
// function that opens its provider.
inline constexpr const char* kBuildSymbol = "xoe_net_build";
inline constexpr const char* kOpenSymbol = "xoe_net_open";
using OpenFunction = Result<std::unique_ptr<Provider>>* (*)(const NetOptions&);  // the caller deletes the result

// Defines both; `open` is a function Result<std::unique_ptr<Provider>>(const NetOptions&).
#define XOE_NET_PLUGIN(open)                                                                                        \
  extern "C" __attribute__((visibility("default"))) const char* xoe_net_build() {                                   \
    return xoe::net::build_name().data();                                                                           \
  }                                                                                                                 \
  extern "C" __attribute__((visibility("default"))) xoe::Result<std::unique_ptr<xoe::net::Provider>>* xoe_net_open( \
      const xoe::net::NetOptions& options) {                                                                        \
    return new xoe::Result<std::unique_ptr<xoe::net::Provider>>(open(options));                                     \
  }

// The name of this build.
std::string_view build_name() noexcept;

// Loads libxoe-<name>.so from `folder` (XOE_PLUGIN_DIR) if one is given, else from beside this library or program, from
// the `lib` folder beside its own, or from where the loader seeks libraries. The library stays loaded. `unsupported`
// when it is missing or does not load, with the loader's message.
Result<std::unique_ptr<Provider>> open_plugin(std::string_view name, const NetOptions& options,
                                              std::string_view folder = {});

}  // namespace xoe::net
