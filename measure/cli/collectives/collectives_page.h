// The page of `xoe bench collectives`.
#pragma once

#include <string>

#include "measure/cli/collectives/collective_table.h"

namespace xoe::bench {

std::string collectives_page(const CollectiveReport& report);

}  // namespace xoe::bench
