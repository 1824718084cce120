#include "drivers/curl/curl.h"

#include <array>
#include <memory>

#include "base/error.h"
#include "drivers/library.h"

namespace xoe {
namespace {

std::size_t drop(char* /*bytes*/, std::size_t size, std::size_t count, void* /*data*/) { return size * count; }

}  // namespace

Result<CurlApi> load_curl() {
  const auto library = Library::open({"libcurl.so.4", "libcurl-gnutls.so.4"});
  if (!library) return failure(Code::kUnavailable, "libcurl is not installed ({})", library.error().message());
  CurlApi api;
  library->find(api.global_init, "curl_global_init");
  library->find(api.easy_init, "curl_easy_init");
  library->find(api.easy_setopt, "curl_easy_setopt");
  library->find(api.easy_perform, "curl_easy_perform");
  library->find(api.easy_getinfo, "curl_easy_getinfo");
  library->find(api.easy_cleanup, "curl_easy_cleanup");
  library->find(api.slist_append, "curl_slist_append");
  library->find(api.slist_free_all, "curl_slist_free_all");
  library->find(api.easy_strerror, "curl_easy_strerror");
  if (api.global_init == nullptr || api.easy_init == nullptr || api.easy_setopt == nullptr ||
      api.easy_perform == nullptr || api.easy_getinfo == nullptr || api.easy_cleanup == nullptr ||
      api.slist_append == nullptr || api.slist_free_all == nullptr || api.easy_strerror == nullptr)
    return failure(Code::kUnavailable, "{} lacks functions of libcurl", library->path());
  if (api.global_init(kCurlGlobalDefault) != 0) return failure(Code::kUnavailable, "{}", "libcurl does not start");
  return api;
}

Result<long> post(const CurlApi& curl, const HttpsPost& request) {
  const std::unique_ptr<CurlHandle, void (*)(CurlHandle*)> handle(curl.easy_init(), curl.easy_cleanup);
  if (!handle) return failure(Code::kUnavailable, "{}", "libcurl does not start");
  CurlList* list = curl.slist_append(nullptr, "Content-Type: application/json");
  if (!request.bearer.empty()) list = curl.slist_append(list, ("Authorization: Bearer " + request.bearer).c_str());
  const std::unique_ptr<CurlList, void (*)(CurlList*)> headers(list, curl.slist_free_all);
  std::array<char, kCurlErrorSize> why{};
  const auto set = [&](CurlOption option, auto value) { curl.easy_setopt(handle.get(), option, value); };
  set(CurlOption::kUrl, request.url.c_str());
  set(CurlOption::kProtocols, kCurlHttps);
  set(CurlOption::kHttpHeader, headers.get());
  set(CurlOption::kPostFieldSize, static_cast<long>(request.json.size()));
  set(CurlOption::kPostFields, request.json.c_str());
  set(CurlOption::kWriteFunction, &drop);
  set(CurlOption::kErrorBuffer, why.data());
  set(CurlOption::kNoSignal, 1L);
  set(CurlOption::kConnectTimeout, request.seconds);
  set(CurlOption::kTimeout, request.seconds);
  if (!request.ca_file.empty()) set(CurlOption::kCaFile, request.ca_file.c_str());
  if (const int code = curl.easy_perform(handle.get()); code != 0)
    return failure(Code::kUnavailable, "{}", why[0] != '\0' ? why.data() : curl.easy_strerror(code));
  long status = 0;
  curl.easy_getinfo(handle.get(), kCurlResponseCode, &status);
  return status;
}

}  // namespace xoe
