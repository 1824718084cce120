// A lab in a simulation: its server, its hosts with their agents, its people, and what happens to them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/testing/sim/runner.h"
#include "pool/tests/sim/ledger.h"
#include "pool/tests/sim/schedule.h"

namespace xoe::pool::sim_tests {

class Lab {
 public:
  // folder: an empty one, for the files of all hosts. look_every: between two looks at the database.
  Lab(Schedule schedule, const std::set<std::size_t>& without, std::string folder, sim::Time look_every);

  const sim::Options& options() const { return schedule_.options; }
  // In a simulation.
  sim::Outcome run();

 private:
  using Kind = Event::Kind;
  struct Client {
    pid_t pid = 0;
    Event event = {};
    std::string purpose = {};  // of a `run`: no other has it
  };
  // A program that is started again where it ends.
  struct Service {
    pid_t pid = 0;
    sim::Time back_at = 0;
    sim::Time began = 0;
    bool may_end = false;  // it was killed, or told to end
    int failures = 0;
  };

  // --- programs (lab.cc)
  void set_up();
  pid_t command(int host, const std::string& home, const std::string& user, std::vector<std::string> words) const;
  // Runs it to its end; what it wrote. An error is a problem.
  std::string admin(std::vector<std::string> words, bool may_fail = false);
  void start_server();
  void start_agent(std::size_t host);
  void keep_running();
  void keep_service(Service& service, std::size_t host, const std::function<void()>& start, const char* what);
  pid_t start_client(const Event& event, std::vector<std::string> words, std::string purpose = {});
  void collect_clients();
  void take_output(const Client& client, const std::string& output);

  // --- what happens (happenings.cc)
  void plan(std::size_t index);
  void act(const Event& event);
  void fail(const Event& event);
  void acquire(const Event& event);
  void change_lease(const Event& event, const char* verb, std::vector<std::string> more);
  void use_without_lease(const Event& event);
  void adopt(const Event& event);
  void end_service(Service& service, int signal, sim::Time lasts);
  void signal_client(const Event& event, int signal);
  void kill_program(const Event& event);
  void hold(const std::string& what, sim::Time lasts, const std::function<void(bool)>& set);
  void stop_process(const Event& event);
  void cut(const Event& event);
  void pause(const Event& event);
  void switch_off(const Event& event);
  void jump(const Event& event);
  void after(sim::Time time, std::function<void()> action) { actions_.emplace(sim::now() + time, std::move(action)); }

  // --- the course of it
  void pass(sim::Time until);
  void look();
  void heal();
  void end_clients();
  void check_recovery();
  void check_ends();
  void tell_all();
  void problem(std::string text);
  void tell(const std::string& line);
  bool serves() const;
  std::string database() const { return folder_ + "/admin/.local/share/xoe/pool/pool.db"; }
  std::string home_of(int user) const;
  sim::Time wall(std::size_t host) const;

  const Schedule schedule_;
  const std::set<std::size_t>& without_;
  const std::string folder_;
  const sim::Time look_every_;
  std::vector<sim::Host> hosts_;  // the first is the server's
  Service server_;
  std::vector<Service> agents_;  // by host
  std::vector<Client> clients_;
  std::map<int, std::vector<std::int64_t>> leases_;  // that users know of
  std::vector<sim::Time> ahead_;                     // of the clock of each host
  std::set<pid_t> stopped_;
  std::set<std::size_t> paused_;     // hosts
  std::multiset<std::size_t> cut_;   // in either direction
  std::map<std::string, int> held_;  // what lasts for a while, by what it is: how often at a time
  sim::Time disturbed_ = 0;          // when the server could last not do its work
  sim::Time looked_ = 0;
  sim::Time kills_next_ = 0;  // the next client, so soon after its start
  int runs_ = 0;
  std::size_t bytes_ = 0;
  Snapshot seen_;     // at the last look
  std::string mark_;  // of the commits that it has
  std::multimap<sim::Time, std::function<void()>> actions_;
  std::multimap<sim::Time, std::string> told_;
  Ledger ledger_;
  sim::Outcome outcome_;
};

}  // namespace xoe::pool::sim_tests
