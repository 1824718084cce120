// Compressed bytes for fuzz targets.
#pragma once

#include <zlib.h>

#include <cstdlib>
#include <string>

#include "xoe/data/records.h"

namespace xoe {

inline std::string compressed(const std::string& content, data::Compression compression) {
  z_stream stream = {};
  if (::deflateInit2(&stream, 1, Z_DEFLATED, compression == data::Compression::kGzip ? 31 : 15, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
    std::abort();
  std::string out(::deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (::deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

}  // namespace xoe
