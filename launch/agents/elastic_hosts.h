// The hosts of a job that come and go while it runs.
#pragma once

#include <poll.h>

#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/agents/agent_startup.h"
#include "launch/agents/host_arrival.h"
#include "launch/agents/host_discovery.h"
#include "launch/agents/host_roster.h"
#include "launch/plan/hosts_plan.h"

namespace xoe::launch {

// Hosts that come by themselves.
class HostSource {
 public:
  virtual ~HostSource() = default;
  // Before and after poll(). pump() returns those that have greeted, each with a name that it has for good.
  virtual void add_to(std::vector<pollfd>& polled) = 0;
  virtual std::vector<JoinedHost> pump(const std::vector<pollfd>& polled) = 0;
  // Tells one why it is not taken, and hangs up.
  virtual void refuse(remote::AgentConnection& agent, const remote::HostFailure& why) = 0;
};

class ElasticHosts {
 public:
  using Clock = std::chrono::steady_clock;
  // `store`: its address. `source`: if hosts come by themselves. The references outlive this.
  ElasticHosts(const RunOptions& options, const HostsPlan& plan, const remote::Inherited& inherited, std::string store,
               std::unique_ptr<HostSource> source = {});

  // A host was lost, or could not be reached at the start. Returns a line for the user.
  std::string leave_out(const std::string& host, Clock::time_point now);
  // A host will be gone: it does not come again for the longest time that hosts are left out.
  void exclude(const std::string& host) { roster_.exclude(host, Clock::now()); }
  // A host that was lost has processes of the job yet: it does not come again before note_gone().
  void note_ending(const std::string& host) { roster_.note_ending(host); }
  // A host has left, as it was asked to, or has ended.
  void note_gone(const std::string& host) { roster_.note_gone(host); }
  // The job ends: none comes any more.
  void stop();
  bool stopped() const noexcept { return stopped_; }

  // Before and after poll().
  void add_to(std::vector<pollfd>& polled);
  void pump(const std::vector<pollfd>& polled, Clock::time_point now);
  std::optional<Clock::time_point> next_turn() const;

  struct Came {
    HostShare share;
    std::unique_ptr<remote::AgentConnection> agent;
  };
  // Hosts on which ranks can be started, each once.
  std::vector<Came> take_ready();
  // Hosts that are to leave, each once.
  std::vector<std::string> take_unwanted();
  // Of these, hosts that are named again, each once.
  std::vector<std::string> take_named_again() { return roster_.take_named_again(); }
  void note_there(const std::string& host) { roster_.note_there(host); }
  // Lines for the user.
  std::vector<std::string> take_news() { return std::exchange(news_, {}); }

 private:
  std::map<std::string, HostShare>::iterator place_of_past_host();
  void greet(JoinedHost joined);
  void invite(const remote::Host& host, Clock::time_point now);
  std::optional<HostShare> share_of(const remote::Host& host);

  const RunOptions& options_;
  const HostsPlan& plan_;
  const remote::Inherited& inherited_;
  const std::string store_;
  std::optional<HostDiscovery> discovery_;
  std::unique_ptr<HostSource> source_;
  HostRoster roster_;
  // By host: the slots that it has for as long as it may come again. Then the next new one gets them.
  std::map<std::string, HostShare> places_;
  int slots_;  // that they have
  std::list<HostArrival> arrivals_;
  std::vector<std::string> news_;
  bool stopped_ = false;
};

}  // namespace xoe::launch
