#include <array>

#include "core/base/error.h"
#include "core/drivers/curl/curl.h"
#include "pool/vsphere/soap.h"
#include "pool/vsphere/transport.h"

namespace xoe::pool::vsphere {
namespace {

constexpr long kConnectSeconds = 10;
constexpr long kAnswerMilliseconds = 120'000;
constexpr int kFault = 500;  // the status of an answer that is a fault

// Called by curl: less than `size` ends the transfer.
std::size_t append(char* bytes, std::size_t, std::size_t size, void* text) {
  auto& answer = *static_cast<std::string*>(text);
  if (answer.size() + size > kMaxAnswer) return 0;
  answer.append(bytes, size);
  return size;
}

class Https : public Transport {
 public:
  Https(const CurlApi& curl, CurlHandle* handle, const HttpsOptions& options)
      : curl_(curl),
        url_(options.url),
        headers_(curl.slist_append(nullptr, "Content-Type: text/xml; charset=utf-8"), curl.slist_free_all),
        handle_(handle, curl.easy_cleanup) {
    headers_.reset(curl.slist_append(headers_.release(), "SOAPAction: urn:vim25/6.7"));
    set(CurlOption::kUrl, url_.c_str());
    set(CurlOption::kProtocols, kCurlHttps);
    set(CurlOption::kHttpHeader, headers_.get());
    set(CurlOption::kCookieFile, "");  // keeps cookies, in memory
    set(CurlOption::kWriteFunction, &append);
    set(CurlOption::kWriteData, &answer_);
    set(CurlOption::kErrorBuffer, why_.data());
    set(CurlOption::kNoSignal, 1L);
    set(CurlOption::kConnectTimeout, kConnectSeconds);
    set(CurlOption::kTimeoutMs, kAnswerMilliseconds);
    if (!options.ca_file.empty()) set(CurlOption::kCaFile, options.ca_file.c_str());
  }

  Result<std::string> post(const std::string& body) override {
    answer_.clear();
    why_[0] = '\0';
    set(CurlOption::kPostFieldSize, static_cast<long>(body.size()));
    set(CurlOption::kPostFields, body.c_str());
    if (const int code = curl_.easy_perform(handle_.get()); code != 0)
      return failure(Code::kUnavailable, "{}: {}", url_, why_[0] != '\0' ? why_.data() : curl_.easy_strerror(code));
    long status = 0;
    curl_.easy_getinfo(handle_.get(), kCurlResponseCode, &status);
    if (status != 200 && status != kFault)
      return failure(Code::kUnavailable, "{} answered HTTP {}, not as a vCenter does", url_, status);
    return std::move(answer_);
  }

  void forget_session() override { set(CurlOption::kCookieList, "ALL"); }

 private:
  template <class Value>
  void set(CurlOption option, Value value) {
    curl_.easy_setopt(handle_.get(), option, value);
  }

  CurlApi curl_;
  std::string url_;
  std::string answer_;
  std::array<char, kCurlErrorSize> why_ = {};
  std::unique_ptr<CurlList, void (*)(CurlList*)> headers_;
  std::unique_ptr<CurlHandle, void (*)(CurlHandle*)> handle_;
};

}  // namespace

Result<std::unique_ptr<Transport>> https_transport(const HttpsOptions& options) {
  if (!options.url.starts_with("https://"))
    return failure(Code::kInvalidArgument, "{}: not the URL of a vCenter, such as https://vcenter.example.org/sdk",
                   options.url);
  const Result<CurlApi> curl = load_curl();
  if (!curl) return failure(Code::kUnavailable, "{}: {}", options.url, curl.error().message());
  CurlHandle* const handle = curl->easy_init();
  if (handle == nullptr) return failure(Code::kUnavailable, "libcurl does not start");
  return std::unique_ptr<Transport>(std::make_unique<Https>(*curl, handle, options));
}

}  // namespace xoe::pool::vsphere
