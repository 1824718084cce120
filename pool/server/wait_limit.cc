#include "pool/server/wait_limit.h"

namespace xoe::pool {

WaitLimit::Place WaitLimit::take(const std::string& client) {
  const std::lock_guard lock(mutex_);
  const auto found = of_client_.find(client);
  if (all_ >= most_ || (found != of_client_.end() && found->second >= (most_ + 1) / 2)) return {};
  ++all_;
  ++of_client_[client];
  return {*this, client};
}

void WaitLimit::give_back(const std::string& client) {
  const std::lock_guard lock(mutex_);
  --all_;
  const auto found = of_client_.find(client);
  if (--found->second == 0) of_client_.erase(found);
}

}  // namespace xoe::pool
