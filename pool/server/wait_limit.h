// How many requests may wait for a lease at once, of all clients and of each.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace xoe::pool {

// Any thread.
class WaitLimit {
 public:
  // Gives its place back when it is destroyed.
  class Place {
   public:
    Place() = default;
    Place(WaitLimit& limit, std::string client) : limit_(&limit), client_(std::move(client)) {}
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() {
      if (limit_ != nullptr) limit_->give_back(client_);
    }
    // False: there was none.
    bool taken() const noexcept { return limit_ != nullptr; }

   private:
    WaitLimit* limit_ = nullptr;
    std::string client_;
  };

  // Of one client, half of them.
  explicit WaitLimit(std::size_t most) : most_(most) {}
  Place take(const std::string& client);

 private:
  void give_back(const std::string& client);

  const std::size_t most_;
  std::mutex mutex_;
  std::size_t all_ = 0;
  std::map<std::string, std::size_t> of_client_;
};

}  // namespace xoe::pool
