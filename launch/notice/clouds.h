// Asks the metadata server of a cloud, from one of its virtual machines, whether the machine is to be taken away.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/drivers/curl/curl.h"
#include "launch/notice/answers.h"

namespace xoe::notice {

enum class Cloud { kAws, kGcp, kAzure };
std::optional<Cloud> parse_cloud(std::string_view name);  // "aws", "gcp", "azure"

// One thread at a time.
class MetadataServer {
 public:
  // `endpoint`: "http://169.254.169.254", where all three have theirs, or a test's.
  MetadataServer(Cloud cloud, std::string endpoint, const CurlApi& curl)
      : cloud_(cloud), endpoint_(std::move(endpoint)), curl_(curl) {}

  // nullopt: the machine stays. `unavailable`: there was no answer; `invalid_argument`: one that is not known.
  Result<std::optional<Departure>> ask();

 private:
  Result<std::optional<Departure>> ask_aws();
  Result<std::optional<Departure>> ask_gcp();
  Result<std::optional<Departure>> ask_azure();
  Result<HttpAnswer> get(const std::string& path, std::vector<std::string> headers, std::string method = {});

  Cloud cloud_;
  std::string endpoint_;
  CurlApi curl_;
  std::string name_;  // of this machine, at Azure
};

}  // namespace xoe::notice
