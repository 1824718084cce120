// Tells a web address of notices.
#pragma once

#include <memory>
#include <string>

#include "pool/hooks/notice.h"
#include "xoe/status.h"

namespace xoe::pool {

// One thread at a time.
class Webhook {
 public:
  // `secret`: signs what is sent, so that the other end knows who sent it; may be empty. `invalid_argument`: no URL of
  // the web.
  static Result<Webhook> create(const std::string& url, std::string secret);
  Webhook(Webhook&&) noexcept;
  Webhook& operator=(Webhook&&) noexcept;
  ~Webhook();

  // `unavailable`: it did not answer within some seconds, or not with 2xx.
  Status post(const Notice& notice);

 private:
  struct Connection;
  Webhook(std::string url, std::string path, std::string secret, std::unique_ptr<Connection> connection);

  std::string url_;  // without its path, which may be a secret
  std::string path_;
  std::string secret_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace xoe::pool
