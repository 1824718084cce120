// The tables, and how older databases become of this version.
#pragma once

#include "pool/state/database.h"

namespace xoe::pool {

// Creates or migrates, in one transaction each step. `unsupported`: a newer Xoe wrote it.
Status migrate(Database& database);

}  // namespace xoe::pool
