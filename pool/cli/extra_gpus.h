// GPUs beyond those that a training needs: it takes them while no more important lease wants them, a lease for each.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "pool/cli/lease_reaper.h"
#include "pool/cli/verbs.h"

namespace xoe::tools::pool {

// Talks with the pool, and with a running `xoe run` whose number of ranks it changes (launch/supervise/resizing.h).
class ExtraGpus {
 public:
  using Clock = std::chrono::steady_clock;
  using Say = std::function<void(const std::string&)>;
  // request: for one of them. control: a socket to the launcher. grace: that a rank has to leave, where the pool gives
  // no time. All references outlive it.
  ExtraGpus(Client& client, const Connection& connection, const LeaseReaper& reaper, LeaseOptions request, int count,
            Fd control, Span grace, Say say);

  // Before the program starts: asks for all, and returns the GPUs that are there at once, for its first ranks.
  std::vector<std::string> take_at_once();
  // Does what is due, without waiting long. Returns when to call it again.
  Clock::time_point turn();
  // When the program has ended. `patient`: for a server that is being restarted.
  void give_back_all(Client& patient);

 private:
  // After a server that did not answer.
  static constexpr auto kLookLater = std::chrono::seconds(3);

  enum class State : std::uint8_t {
    kNone,       // no lease; `again`: when to ask for one
    kWaiting,    // in the pool's queue
    kJoining,    // it has a GPU, and a rank is being started with it
    kRank,       // a rank uses it
    kLeaving,    // that rank shall leave
    kReturning,  // no rank uses it any more: the pool shall have it back
  };
  struct Extra {
    State state = State::kNone;
    std::int64_t lease = 0;
    std::string gpu = {};
    bool taken_back = false;  // by another than its holder, for a reason: it is not asked for at once
    // Asking again with it is asking for the same lease: a reply that was lost loses none.
    std::string token = {};
    Clock::time_point again = {};
    Clock::time_point give_back_at = {};  // kReturning: when it is tried again
  };

  // This and give_back(): false if the server did not answer.
  bool ask(Client& client, Extra& extra);
  void look();
  void look_later() { next_look_ = Clock::now() + kLookLater; }
  void update(Extra& extra, const Json& lease);
  void leave(Extra& extra, double seconds, const std::string& why);
  bool give_back(Extra& extra);
  void hear();
  void on_line(const std::string& line);
  void tell_launcher(const std::string& line) const;

  Client& client_;
  const Connection& connection_;
  const LeaseReaper& reaper_;
  LeaseOptions request_;
  std::vector<Extra> extras_;
  Fd control_;
  Span grace_;
  Say say_;
  std::string heard_;
  Clock::time_point next_look_ = {};
};

}  // namespace xoe::tools::pool
