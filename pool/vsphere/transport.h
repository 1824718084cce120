// Carries requests to a vCenter; tests have their own.
#pragma once

#include <memory>
#include <string>

#include "xoe/status.h"

namespace xoe::pool::vsphere {

// Of one thread at a time. Keeps the session's cookie.
class Transport {
 public:
  virtual ~Transport() = default;
  // The body of the answer, also of one that is a fault. `unavailable`: there is none.
  virtual Result<std::string> post(const std::string& body) = 0;
  // Drops the cookie: the session is over.
  virtual void forget_session() = 0;
};

struct HttpsOptions {
  std::string url = {};      // "https://vcenter.example.org/sdk"
  std::string ca_file = {};  // certificates to trust, if not the system's
};
// `invalid_argument`: not the URL of a vCenter.
Result<std::unique_ptr<Transport>> https_transport(const HttpsOptions& options);

}  // namespace xoe::pool::vsphere
