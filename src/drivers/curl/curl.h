// libcurl as a table of functions, loaded where it is installed: our own declarations of the part of its documented C
// interface that is used, whose numbers are part of its ABI. tests/drivers compares them with its headers.
#pragma once

#include <cstddef>
#include <string>

#include "xoe/status.h"

namespace xoe {

struct CurlHandle;  // of the library
struct CurlList;

enum class CurlOption : int {
  kWriteData = 10001,
  kUrl = 10002,
  kErrorBuffer = 10010,
  kTimeout = 13,  // seconds
  kPostFields = 10015,
  kHttpHeader = 10023,
  kPostFieldSize = 60,
  kCaFile = 10065,
  kConnectTimeout = 78,
  kNoSignal = 99,
  kProtocols = 181,  // as bits; its newer form, with names, is missing in older versions
  kWriteFunction = 20011
};
inline constexpr int kCurlResponseCode = 0x200000 + 2;
inline constexpr long kCurlHttps = 2;
inline constexpr long kCurlGlobalDefault = 3;
inline constexpr std::size_t kCurlErrorSize = 256;

struct CurlApi {
  int (*global_init)(long) = nullptr;
  CurlHandle* (*easy_init)() = nullptr;
  int (*easy_setopt)(CurlHandle*, CurlOption, ...) = nullptr;
  int (*easy_perform)(CurlHandle*) = nullptr;
  int (*easy_getinfo)(CurlHandle*, int, ...) = nullptr;
  void (*easy_cleanup)(CurlHandle*) = nullptr;
  CurlList* (*slist_append)(CurlList*, const char*) = nullptr;
  void (*slist_free_all)(CurlList*) = nullptr;
  const char* (*easy_strerror)(int) = nullptr;
};

// `unavailable`: libcurl is not installed.
Result<CurlApi> load_curl();

struct HttpsPost {
  std::string url = {};      // https:// only
  std::string ca_file = {};  // of the certificates that are trusted; empty: the system's
  std::string bearer = {};   // a token
  std::string json = {};
  long seconds = 5;  // for all of it
};

// The status of the answer, whose text is dropped. `unavailable`: there was none, and why.
Result<long> post(const CurlApi& curl, const HttpsPost& request);

}  // namespace xoe
