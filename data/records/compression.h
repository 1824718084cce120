// Which compression a record file has.
#pragma once

#include <memory>

#include "data/files/byte_source.h"
#include "xoe/data/records.h"
#include "xoe/status.h"

namespace xoe::data {

// By the file's first bytes; kNone where they do not match a compressed format.
Result<Compression> detect_compression(const std::shared_ptr<const OpenFile>& file);
// True where a file, compressed or not, begins with a record's header.
bool holds_records(const std::shared_ptr<const OpenFile>& file);

}  // namespace xoe::data
