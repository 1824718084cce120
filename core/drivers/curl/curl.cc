#include "core/drivers/curl/curl.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/base/error.h"
#include "core/drivers/library.h"

namespace xoe {
namespace {

std::size_t drop(char* /*bytes*/, std::size_t size, std::size_t count, void* /*data*/) { return size * count; }

constexpr std::size_t kMostBytes = std::size_t{1} << 20;
// A count that is not that of the bytes ends the transfer.
std::size_t keep(char* bytes, std::size_t size, std::size_t count, void* text) {
  auto& all = *static_cast<std::string*>(text);
  if (all.size() + size * count > kMostBytes) return 0;
  all.append(bytes, size * count);
  return size * count;
}

using Count = std::int64_t;  // libcurl's curl_off_t
int asks_to_stop(void* stop, Count /*to_receive*/, Count /*received*/, Count /*to_send*/, Count /*sent*/) {
  return static_cast<const std::stop_token*>(stop)->stop_requested() ? 1 : 0;
}

// Errors of libcurl that another attempt meets, too.
constexpr int kUnsupportedProtocol = 1, kMalformedUrl = 3, kAbortedByCallback = 42, kPeerNotVerified = 60,
              kBadCaFile = 77;
bool is_final(int code) {
  return code == kUnsupportedProtocol || code == kMalformedUrl || code == kPeerNotVerified || code == kBadCaFile;
}

}  // namespace

Result<CurlApi> load_curl() {
  const auto library = Library::open({"libcurl.so.4", "libcurl-gnutls.so.4"});
  if (!library)
    return failure(Code::kUnavailable,
                   "libcurl is not installed; its package is libcurl4 (Debian) or libcurl (RHEL): {}",
                   library.error().message());
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

Result<HttpAnswer> http_fetch(const CurlApi& curl, const HttpRequest& request) {
  const std::unique_ptr<CurlHandle, void (*)(CurlHandle*)> handle(curl.easy_init(), curl.easy_cleanup);
  if (!handle) return failure(Code::kUnavailable, "{}", "libcurl does not start");
  CurlList* list = nullptr;
  for (const std::string& header : request.headers) list = curl.slist_append(list, header.c_str());
  const std::unique_ptr<CurlList, void (*)(CurlList*)> headers(list, curl.slist_free_all);
  std::array<char, kCurlErrorSize> why = {};
  HttpAnswer answer;
  const auto set = [&](CurlOption option, auto value) { curl.easy_setopt(handle.get(), option, value); };
  set(CurlOption::kUrl, request.url.c_str());
  set(CurlOption::kProtocols, kCurlHttp);
  set(CurlOption::kNoProxy, "*");
  set(CurlOption::kHttpHeader, headers.get());
  if (!request.method.empty()) set(CurlOption::kCustomRequest, request.method.c_str());
  set(CurlOption::kWriteFunction, &keep);
  set(CurlOption::kWriteData, &answer.text);
  set(CurlOption::kErrorBuffer, why.data());
  set(CurlOption::kNoSignal, 1L);
  set(CurlOption::kTimeoutMs, std::max(1L, static_cast<long>(request.limit.count())));
  if (const int code = curl.easy_perform(handle.get()); code != 0)
    return failure(Code::kUnavailable, "{}", why[0] != '\0' ? why.data() : curl.easy_strerror(code));
  curl.easy_getinfo(handle.get(), kCurlResponseCode, &answer.status);
  return answer;
}

Result<long> HttpsPoster::post(const HttpsPost& request, std::stop_token stop) {
  if (!handle_) handle_.reset(curl_.easy_init());
  if (!handle_) return failure(Code::kUnavailable, "{}", "libcurl does not start");
  CurlList* list = curl_.slist_append(nullptr, "Content-Type: application/json");
  if (!request.bearer.empty()) list = curl_.slist_append(list, ("Authorization: Bearer " + request.bearer).c_str());
  const std::unique_ptr<CurlList, void (*)(CurlList*)> headers(list, curl_.slist_free_all);
  why_[0] = '\0';
  stop_ = std::move(stop);
  const auto set = [this](CurlOption option, auto value) { curl_.easy_setopt(handle_.get(), option, value); };
  set(CurlOption::kUrl, request.url.c_str());
  set(CurlOption::kProtocols, kCurlHttps);
  set(CurlOption::kHttpHeader, headers.get());
  set(CurlOption::kPostFieldSize, static_cast<long>(request.json.size()));
  set(CurlOption::kPostFields, request.json.c_str());
  set(CurlOption::kWriteFunction, &drop);
  set(CurlOption::kErrorBuffer, why_.data());
  set(CurlOption::kNoSignal, 1L);
  set(CurlOption::kNoProgress, 0L);
  set(CurlOption::kProgressFunction, &asks_to_stop);
  set(CurlOption::kProgressData, &stop_);
  set(CurlOption::kDnsCacheTimeout, -1L);
  // Names are looked up in a thread of libcurl's, which it joins when the time is over, unless this is said.
  set(CurlOption::kQuickExit, 1L);
  set(CurlOption::kTimeoutMs, std::max(1L, static_cast<long>(request.limit.count())));
  if (!request.ca_file.empty()) set(CurlOption::kCaFile, request.ca_file.c_str());
  if (const int code = curl_.easy_perform(handle_.get()); code != 0) {
    const std::string why = why_[0] != '\0' ? why_.data() : curl_.easy_strerror(code);
    if (code != kAbortedByCallback) handle_.reset();
    return failure(is_final(code) ? Code::kInvalidArgument : Code::kUnavailable, "{}", why);
  }
  long status = 0;
  curl_.easy_getinfo(handle_.get(), kCurlResponseCode, &status);
  return status;
}

}  // namespace xoe
