// `xoe run --rendezvous`: one command on every host; member 0 leads.
#pragma once

#include "core/base/env.h"
#include "launch/options/options.h"
#include "launch/rendezvous/membership.h"

namespace xoe::tools {

// Of several members. Returns the exit code of this one.
int run_members(launch::RunOptions& options, const launch::Membership& membership, const Env& env);

}  // namespace xoe::tools
