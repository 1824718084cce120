#include <curl/curl.h>

#include "core/base/error.h"
#include "pool/vsphere/soap.h"
#include "pool/vsphere/transport.h"

namespace xoe::pool::vsphere {
namespace {

constexpr long kConnectSeconds = 10;
constexpr long kAnswerSeconds = 120;

struct Cleanup {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// Called by curl: less than `size` ends the transfer.
std::size_t append(char* bytes, std::size_t, std::size_t size, void* text) {
  auto& answer = *static_cast<std::string*>(text);
  if (answer.size() + size > kMaxAnswer) return 0;
  answer.append(bytes, size);
  return size;
}

class Https : public Transport {
 public:
  Https(CURL* handle, const HttpsOptions& options) : url_(options.url), handle_(handle) {
    headers_.reset(curl_slist_append(nullptr, "Content-Type: text/xml; charset=utf-8"));
    headers_.reset(curl_slist_append(headers_.release(), "SOAPAction: urn:vim25/6.7"));
    set(CURLOPT_URL, url_.c_str());
    set(CURLOPT_PROTOCOLS_STR, "https");
    set(CURLOPT_HTTPHEADER, headers_.get());
    set(CURLOPT_COOKIEFILE, "");  // keeps cookies, in memory
    set(CURLOPT_WRITEFUNCTION, append);
    set(CURLOPT_WRITEDATA, &answer_);
    set(CURLOPT_ERRORBUFFER, static_cast<char*>(error_));
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    set(CURLOPT_TIMEOUT, kAnswerSeconds);
    if (!options.ca_file.empty()) set(CURLOPT_CAINFO, options.ca_file.c_str());
  }

  Result<std::string> post(const std::string& body) override {
    answer_.clear();
    error_[0] = '\0';
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    set(CURLOPT_POSTFIELDS, body.c_str());
    const CURLcode code = curl_easy_perform(handle_.get());
    if (code != CURLE_OK)
      return failure(Code::kUnavailable, "{}: {}", url_, error_[0] != '\0' ? error_ : curl_easy_strerror(code));
    long status = 0;
    curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
    // A fault comes with 500.
    if (status != 200 && status != 500)
      return failure(Code::kUnavailable, "{} answered HTTP {}, not as a vCenter does", url_, status);
    return std::move(answer_);
  }

  void forget_session() override { set(CURLOPT_COOKIELIST, "ALL"); }

 private:
  template <class Value>
  void set(CURLoption option, Value value) {
    curl_easy_setopt(handle_.get(), option, value);
  }

  std::string url_;
  std::string answer_;
  char error_[CURL_ERROR_SIZE] = {};
  std::unique_ptr<curl_slist, Cleanup> headers_;
  std::unique_ptr<CURL, Cleanup> handle_;
};

}  // namespace

Result<std::unique_ptr<Transport>> https_transport(const HttpsOptions& options) {
  if (!options.url.starts_with("https://"))
    return failure(Code::kInvalidArgument, "{}: not the URL of a vCenter, such as https://vcenter.example.org/sdk",
                   options.url);
  static const CURLcode kReady = curl_global_init(CURL_GLOBAL_DEFAULT);
  CURL* const handle = kReady == CURLE_OK ? curl_easy_init() : nullptr;
  if (handle == nullptr) return failure(Code::kUnavailable, "libcurl does not start");
  return std::unique_ptr<Transport>(std::make_unique<Https>(handle, options));
}

}  // namespace xoe::pool::vsphere
