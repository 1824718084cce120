// Ranks of an engine compare the data that they opened.
#pragma once

#include "frameworks/c/objects.h"
#include "xoe/data/opened.h"

namespace xoe::capi {

// Collective, except after a restart of ranks. `mine`: what this rank opened, or why it could not; compare_opened().
Status compare_on(xoe_engine& engine, const Result<data::OpenedData>& mine);

}  // namespace xoe::capi
