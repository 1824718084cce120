// libcurl as a table of functions, loaded where it is installed: our own declarations of the part of its documented C
// interface that is used, whose numbers are part of its ABI. core/tests/drivers compares them with its headers.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "xoe/status.h"

namespace xoe {

struct CurlHandle;  // of the library
struct CurlList;

enum class CurlOption : int {
  kWriteData = 10001,
  kUrl = 10002,
  kErrorBuffer = 10010,
  kPostFields = 10015,
  kHttpHeader = 10023,
  kCustomRequest = 10036,
  kCookieFile = 10031,  // "" keeps cookies in memory
  kCookieList = 10135,
  kNoProxy = 10177,
  kNoProgress = 43,
  kProgressData = 10057,
  kPostFieldSize = 60,
  kConnectTimeout = 78,  // seconds
  kCaFile = 10065,
  kDnsCacheTimeout = 92,  // seconds; -1: for ever
  kNoSignal = 99,
  kTimeoutMs = 155,
  kProtocols = 181,  // as bits; its newer form, with names, is missing in older versions
  kQuickExit = 322,  // since 7.87
  kWriteFunction = 20011,
  kProgressFunction = 20219
};
inline constexpr int kCurlResponseCode = 0x200000 + 2;
inline constexpr long kCurlHttp = 1;
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

struct HttpRequest {
  std::string url = {};     // http:// only, without a proxy
  std::string method = {};  // empty: GET
  std::vector<std::string> headers = {};
  std::chrono::milliseconds limit = std::chrono::seconds(5);
};
struct HttpAnswer {
  long status = 0;
  std::string text = {};
};
// Asks a server of this network, such as a cloud's metadata server. `unavailable`: there was no answer, or one of more
// than 1 MiB.
Result<HttpAnswer> http_fetch(const CurlApi& curl, const HttpRequest& request);

struct HttpsPost {
  std::string url = {};      // https:// only
  std::string ca_file = {};  // of the certificates that are trusted; empty: the system's
  std::string bearer = {};   // a token
  std::string json = {};
  std::chrono::milliseconds limit = std::chrono::seconds(5);  // for all of it, the look-up of the name included
};

// Posts to one server, one after the other. The connection is kept, and the server's address with it: a name server
// that falls silent harms only the first post, and the first one after a failure.
class HttpsPoster {
 public:
  explicit HttpsPoster(const CurlApi& curl) : curl_(curl), handle_(nullptr, curl.easy_cleanup) {}
  HttpsPoster(const HttpsPoster&) = delete;
  HttpsPoster& operator=(const HttpsPoster&) = delete;

  // The status of the answer, whose text is dropped. `unavailable`: there was none, and why; or `stop` was asked for,
  // which may take a second. `invalid_argument`: there will be none, as with a certificate that is not trusted.
  // Before libcurl 7.87, a look-up that hangs goes on beyond the limit, and cannot be stopped.
  Result<long> post(const HttpsPost& request, std::stop_token stop);

 private:
  CurlApi curl_;
  std::array<char, kCurlErrorSize> why_{};  // the handle has pointers to these two
  std::stop_token stop_ = {};
  std::unique_ptr<CurlHandle, void (*)(CurlHandle*)> handle_;
};

}  // namespace xoe
