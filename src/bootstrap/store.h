// A key-value store through which the ranks of a job find each other.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/launch_env.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

// Where ranks that failed are started anew, the launcher's store tells how often that was: "0", "1", ... With each time
// it forgets all other keys, and a get() that waits for one fails with `unavailable`. Those that have begun are also
// keys to wait for: "generation/1", "generation/2", ...
inline constexpr std::string_view kGenerationKey = "generation";

// Thread-safe. Keys are set once: a second set of a key with another value is `invalid_argument`.
class Store {
 public:
  virtual ~Store() = default;
  virtual Status set(std::string_view key, std::string_view value) = 0;
  // Waits until the key is set. `timeout` names the key; `peer_lost` when the store went away.
  virtual Result<std::string> get(std::string_view key, std::chrono::nanoseconds timeout) = 0;
  // The values of all keys, in their order, within `timeout` for all together; faster than a get() for each.
  virtual Result<std::vector<std::string>> get_all(std::span<const std::string> keys,
                                                   std::chrono::nanoseconds timeout) = 0;
};

// In this process only: for ranks that are threads.
std::unique_ptr<Store> make_memory_store();

// Connects to the launcher's store, or to the folder that XOE_STORE names; without one rank 0 serves it (for as long as
// the returned object lives), on one host at a unix socket, on several at info.meeting, and the others connect as soon
// as it is there, within `timeout`. What was set stays set until the job ends: the groups of a job use different keys.
// Keys have at most 256 bytes, values 1 MiB.
Result<std::unique_ptr<Store>> open_store(const LaunchInfo& info, std::chrono::nanoseconds timeout);

// The server side, over a unix socket in the abstract name space (nothing to clean up in the file system) or TCP. Only
// processes that know the secret are served, on a unix socket only those of the same user; sizes and counts are
// bounded.
class StoreServer {
 public:
  virtual ~StoreServer() = default;
  virtual const std::string& address() const noexcept = 0;  // "unix:@xoe-...", "tcp:10.0.0.1:4567"
};
// `address` empty: a unix socket with a random name.
Result<std::unique_ptr<StoreServer>> serve_store(std::string_view address, std::string_view secret);

// A folder that all ranks see, for jobs without a launcher: a file for each key. `job` tells jobs apart; its files stay
// until rank 0 ends. get() looks again every few milliseconds.
Result<std::unique_ptr<Store>> open_file_store(const std::string& folder, const std::string& job, int rank);
// 32 random hexadecimal digits: for names and secrets.
Result<std::string> random_token();

}  // namespace xoe::bootstrap
