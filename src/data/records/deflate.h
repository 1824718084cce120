// Compresses a file from front to back.
#pragma once

#include <zlib.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/output_file.h"
#include "xoe/data/records.h"

namespace xoe::data {

class Deflater {
 public:
  // REQUIRES: `compression` is kGzip or kZlib. `invalid_argument`: an unknown level.
  static Result<std::unique_ptr<Deflater>> create(Compression compression, int level);
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;
  ~Deflater();

  Status write(std::string_view bytes, OutputFile& to);
  // Must be the last call.
  Status finish(OutputFile& to);

 private:
  Deflater();
  Status run(OutputFile& to, int flush);

  z_stream stream_ = {};
  std::string output_;
};

}  // namespace xoe::data
