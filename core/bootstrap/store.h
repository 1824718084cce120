// A key-value store through which the ranks of a job find each other.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/fd.h"
#include "core/bootstrap/launch_info.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

class StoreService;

// Where the launcher restarts failed ranks or changes their number, its store has the version of the world under this
// key, as world_text() writes it: "0", "1", ..., or, if not all ranks are in it, with its members. A new version
// removes all other keys, and pending get()s fail with `unavailable`. The versions that have begun are also keys to
// wait for: "world_version/1", "world_version/2", ...; however many, they take no room.
inline constexpr std::string_view kWorldVersionKey = "world_version";
// What the name of a key of one version begins with: "world/2/". Once a later version has begun, each get() and set()
// of such a key fails with `unavailable` at once: who was told a version may ask for its keys only after it has passed.
// This beginning is itself a key that is set for as long as the version is the last: who waits for a rank of its
// version asks for it, and is answered at once.
std::string world_keys(int version);
// The beginning of this key that names a version, "world/2/"; empty: it is of none.
std::string_view world_of(std::string_view key);
// Set by the first member of a version that all its members have joined, where the number of ranks may change:
// "world_formed/2".
inline constexpr std::string_view kWorldFormedKey = "world_formed";
// Set by the process in a slot that is not a member yet, when it is ready to become one: "world_candidate/3".
inline constexpr std::string_view kWorldCandidateKey = "world_candidate";

// Thread-safe. Keys are set once: a second set of a key with another value is `invalid_argument`. The stores have room
// for a limited number of keys, so who set one for a group removes it when all that wanted it have read it.
class Store {
 public:
  virtual ~Store() = default;
  virtual Status set(std::string_view key, std::string_view value) = 0;
  // Keys that are not set are passed over.
  virtual Status remove(std::span<const std::string> keys) = 0;
  // Waits until the key is set. `timeout` names the key; `peer_lost` when the server is gone.
  Result<std::string> get(std::string_view key, std::chrono::nanoseconds timeout) {
    const std::string keys[] = {std::string(key)};
    auto values = get_all(keys, timeout);
    return values ? Result<std::string>(std::move(values->front())) : failure(std::move(values).error());
  }
  // The values of all keys, in their order, within `timeout` for all together; faster than one get() each.
  virtual Result<std::vector<std::string>> get_all(std::span<const std::string> keys,
                                                   std::chrono::nanoseconds timeout) = 0;
};

// In this process only: for ranks that are threads.
std::unique_ptr<Store> make_memory_store();

// Connects to the launcher's store, or opens the folder in XOE_STORE. Without either, rank 0 serves a store for as long
// as the returned object lives, at a unix socket on one host, at info.meeting on several; the other ranks connect
// within `timeout`. Keys stay set until the job ends, so the groups of a job use different ones. Keys have at most 256
// bytes, values 1 MiB.
Result<std::unique_ptr<Store>> open_store(const LaunchInfo& info, std::chrono::nanoseconds timeout);

// The server side, at a unix socket in the abstract namespace (no file to remove) or over TCP. Serves only processes
// that know the secret, at a unix socket only those of the same user. Sizes and counts are bounded.
class StoreServer {
 public:
  static Result<std::unique_ptr<StoreServer>> start(std::unique_ptr<StoreService> service);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;

  const std::string& address() const noexcept;  // "unix:@xoe-...", "tcp:10.0.0.1:4567"

 private:
  StoreServer(std::unique_ptr<StoreService> service, Fd stop);
  void run();

  std::unique_ptr<StoreService> service_;
  Fd stop_;  // eventfd
  std::jthread thread_;
};
// `address` empty: a unix socket with a random name.
Result<std::unique_ptr<StoreServer>> serve_store(std::string_view address, std::string_view secret);

// A store in a folder that all ranks can access, for jobs without a launcher: one file per key. `job` distinguishes
// jobs; the files stay until rank 0 ends. get() polls every few milliseconds.
Result<std::unique_ptr<Store>> open_file_store(const std::string& folder, const std::string& job, int rank);

}  // namespace xoe::bootstrap
