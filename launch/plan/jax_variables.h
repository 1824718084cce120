// What JAX reads, so that its own multi-process programs find each other and run on Xoe: `xoe run --jax`.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "xoe/collective.h"
#include "xoe/status.h"

namespace xoe::launch {

using Variables = std::map<std::string, std::string, std::less<>>;

// Whether the job asks for them (XOE_JAX=1). An error where this installation has no library for JAX.
Result<bool> wants_jax(const Variables& variables);

// Adds them for a rank; what the user has set stays. `first_host`: rank 0's.
void set_jax_variables(Variables& variables, const Topology& at, std::string_view first_host, std::string_view job);

}  // namespace xoe::launch
