// Our declarations of libcurl against its headers, where they are installed.
#include <curl/curl.h>

#include "core/drivers/curl/curl.h"

namespace xoe {

static_assert(static_cast<int>(CurlOption::kWriteData) == CURLOPT_WRITEDATA);
static_assert(static_cast<int>(CurlOption::kUrl) == CURLOPT_URL);
static_assert(static_cast<int>(CurlOption::kErrorBuffer) == CURLOPT_ERRORBUFFER);
static_assert(static_cast<int>(CurlOption::kPostFields) == CURLOPT_POSTFIELDS);
static_assert(static_cast<int>(CurlOption::kHttpHeader) == CURLOPT_HTTPHEADER);
static_assert(static_cast<int>(CurlOption::kCustomRequest) == CURLOPT_CUSTOMREQUEST);
static_assert(static_cast<int>(CurlOption::kNoProxy) == CURLOPT_NOPROXY);
static_assert(static_cast<int>(CurlOption::kCookieFile) == CURLOPT_COOKIEFILE);
static_assert(static_cast<int>(CurlOption::kCookieList) == CURLOPT_COOKIELIST);
static_assert(static_cast<int>(CurlOption::kConnectTimeout) == CURLOPT_CONNECTTIMEOUT);
static_assert(static_cast<int>(CurlOption::kPostFieldSize) == CURLOPT_POSTFIELDSIZE);
static_assert(static_cast<int>(CurlOption::kCaFile) == CURLOPT_CAINFO);
static_assert(static_cast<int>(CurlOption::kNoProgress) == CURLOPT_NOPROGRESS);
static_assert(static_cast<int>(CurlOption::kProgressData) == CURLOPT_XFERINFODATA);
static_assert(static_cast<int>(CurlOption::kDnsCacheTimeout) == CURLOPT_DNS_CACHE_TIMEOUT);
static_assert(static_cast<int>(CurlOption::kNoSignal) == CURLOPT_NOSIGNAL);
static_assert(static_cast<int>(CurlOption::kTimeoutMs) == CURLOPT_TIMEOUT_MS);
#if LIBCURL_VERSION_NUM >= CURL_VERSION_BITS(7, 87, 0)
static_assert(static_cast<int>(CurlOption::kQuickExit) == CURLOPT_QUICK_EXIT);
#endif
static_assert(static_cast<int>(CurlOption::kWriteFunction) == CURLOPT_WRITEFUNCTION);
static_assert(static_cast<int>(CurlOption::kProgressFunction) == CURLOPT_XFERINFOFUNCTION);
static_assert(kCurlResponseCode == CURLINFO_RESPONSE_CODE);
static_assert(kCurlHttp == CURLPROTO_HTTP);
static_assert(kCurlHttps == CURLPROTO_HTTPS);
static_assert(kCurlGlobalDefault == CURL_GLOBAL_DEFAULT);
static_assert(kCurlErrorSize == CURL_ERROR_SIZE);

}  // namespace xoe
