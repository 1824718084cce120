// The page of `xoe bench collectives`.
#pragma once

#include <string>

#include "tools/bench/collectives/collective_table.h"

namespace xoe::bench {

std::string collectives_page(const CollectiveReport& report);

}  // namespace xoe::bench
