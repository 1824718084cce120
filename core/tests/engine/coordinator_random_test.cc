// Random programs on random hosts over links with random delays.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "core/tests/engine/coordinator_net.h"

namespace xoe::engine {
namespace {

struct Announcement {
  std::string name;
  std::uint64_t signature = 0;
  bool failed = false;

  std::string text() const {
    return failed ? "ranks " + std::to_string(signature) : "args " + std::to_string(signature);
  }
};

// A step in the program of one host.
struct Action {
  enum Kind { kSubmit, kWait, kJoin } kind = kSubmit;
  Announcement submission;
};

struct Workload {
  int hosts = 1;
  CoordinatorOptions options;
  int steps = 0;
  int tensors = 0;
  bool barriers = true;  // a step ends before the next begins
  bool jitter = false;   // in the order of hosts
  int odd_steps = 0;     // of 100: with other names or signatures
  int mismatches = 0;    // of 1000 submissions: one host differs
  bool joins = false;
};

class RandomProgram {
 public:
  explicit RandomProgram(std::uint32_t seed) : random_(seed) {
    shape_.hosts = pick(1, 9);
    shape_.options = {.fanout = pick(1, 4),
                      .cache_capacity = chance(30) ? static_cast<std::size_t>(pick(1, 12)) : 8192};
    shape_.steps = pick(1, 14);
    shape_.tensors = pick(1, 12);
    shape_.barriers = chance(70);
    shape_.jitter = chance(50);
    shape_.odd_steps = chance(50) ? 0 : pick(1, 60);
    shape_.mismatches = chance(60) ? 0 : pick(1, 80);
    shape_.joins = chance(40);
    net_ = std::make_unique<CoordinatorNet>(shape_.hosts, shape_.options);
    outstanding_.resize(static_cast<std::size_t>(shape_.hosts));
    seen_.resize(static_cast<std::size_t>(shape_.hosts));
    joined_.resize(static_cast<std::size_t>(shape_.hosts));
  }

  void run() {
    const int episodes = shape_.joins ? pick(1, 3) : 1;
    for (int i = 0; i < episodes && !::testing::Test::HasFailure(); ++i) {
      write_scripts();
      play();
    }
    if (::testing::Test::HasFailure()) return;
    for (int host = 1; host < shape_.hosts; ++host) ASSERT_EQ(net_->decided(host), net_->decided(0));
  }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }

  std::vector<Announcement> step_of(int step) {
    std::vector<Announcement> list;
    const bool odd = pick(1, 100) <= shape_.odd_steps;
    for (int i = 0; i < shape_.tensors; ++i) {
      Announcement one{.name = "t" + std::to_string(i), .signature = 1};
      if (odd && chance(20)) one.name += "." + std::to_string(step);
      if (odd && chance(20)) one.signature = static_cast<std::uint64_t>(pick(1, 3));
      if (odd && chance(20)) continue;
      list.push_back(one);
    }
    return list;
  }

  void write_scripts() {
    scripts_.assign(static_cast<std::size_t>(shape_.hosts), {});
    at_.assign(static_cast<std::size_t>(shape_.hosts), 0);
    std::vector<std::vector<Announcement>> steps;
    for (int step = 0; step < shape_.steps; ++step) steps.push_back(step_of(step));
    for (auto& script : scripts_) {
      const std::size_t own = shape_.joins ? static_cast<std::size_t>(pick(0, shape_.steps)) : steps.size();
      for (std::size_t step = 0; step < own; ++step) {
        std::vector<Announcement> list = steps[step];
        if (shape_.jitter) std::shuffle(list.begin(), list.end(), random_);
        for (Announcement& one : list) {
          if (pick(1, 1000) <= shape_.mismatches) one.signature = static_cast<std::uint64_t>(pick(4, 5));
          if (pick(1, 1000) <= shape_.mismatches) one.failed = true;
          script.push_back({Action::kSubmit, one});
        }
        if (shape_.barriers) script.push_back({Action::kWait, {}});
      }
      script.push_back({shape_.joins ? Action::kJoin : Action::kWait, {}});
    }
  }

  // One action of a host, if it can do one now.
  bool act(int host) {
    auto& at = at_[static_cast<std::size_t>(host)];
    auto& script = scripts_[static_cast<std::size_t>(host)];
    auto& outstanding = outstanding_[static_cast<std::size_t>(host)];
    if (at == script.size()) return false;
    const Action& action = script[at];
    if (action.kind == Action::kWait && !outstanding.empty()) return false;
    if (action.kind == Action::kSubmit) {
      const Announcement& one = action.submission;
      if (!outstanding.emplace(one.name, one).second) return false;
      if (one.failed)
        net_->at(host).fail_local(one.name, one.text());
      else
        net_->at(host).ready(one.name, one.signature, one.text());
    }
    if (action.kind == Action::kJoin) {
      joined_[static_cast<std::size_t>(host)] = true;
      net_->at(host).joined(host * 10);
    }
    ++at;
    check_decisions(host);
    return true;
  }

  // The root has just decided: all hosts must have submitted the tensor, and it is an error where values differ.
  void check_at_root(const Decision& decision) {
    for (const DecidedTensor& tensor : decision.tensors) {
      std::set<std::string> values;
      bool failed = false;
      for (int host = 0; host < shape_.hosts; ++host) {
        const auto& outstanding = outstanding_[static_cast<std::size_t>(host)];
        const auto found = outstanding.find(tensor.name());
        // The submission of a host that has joined may be decided already, unknown to that host.
        if (found == outstanding.end() || times_decided(host, tensor.name()) != times_decided(0, tensor.name())) {
          ASSERT_TRUE(joined_[static_cast<std::size_t>(host)]) << tensor.name() << " decided without host " << host;
          continue;
        }
        values.insert(found->second.text());
        failed = failed || found->second.failed;
      }
      ASSERT_FALSE(values.empty());
      ASSERT_EQ(values.size() > 1 || failed, !tensor.error.empty()) << tensor.name() << ' ' << tensor.error;
      if (tensor.error.empty()) {
        ASSERT_EQ(tensor.text(), *values.begin());
      } else {
        for (const std::string& value : values) ASSERT_NE(tensor.error.find(value), std::string::npos) << tensor.error;
      }
    }
    if (!decision.joined) return;
    for (const bool joined : joined_) {
      ASSERT_TRUE(joined);
    }
  }

  int times_decided(int host, const std::string& name) { return times_[{host, name}]; }

  void check_decisions(int host) {
    net_->collect(host);
    auto& seen = seen_[static_cast<std::size_t>(host)];
    const auto& decided = net_->decided(host);
    for (; seen < decided.size(); ++seen) {
      const Decision& decision = decided[seen];
      ASSERT_EQ(decision.sequence, seen);
      if (host == 0) check_at_root(decision);
      for (const DecidedTensor& tensor : decision.tensors) {
        const std::size_t had = outstanding_[static_cast<std::size_t>(host)].erase(tensor.name());
        ASSERT_TRUE(had == 1 || joined_[static_cast<std::size_t>(host)]);
        ++times_[{host, tensor.name()}];
      }
      if (!decision.joined) continue;
      ASSERT_TRUE(outstanding_[static_cast<std::size_t>(host)].empty());
      joined_[static_cast<std::size_t>(host)] = false;
    }
  }

  void deliver_some() {
    if (net_->links.empty()) return;
    auto link = net_->links.begin();
    std::advance(link, pick(0, static_cast<int>(net_->links.size()) - 1));
    const auto key = link->first;
    net_->deliver(key);
    check_decisions(key.second);
  }

  void flush() {
    net_->at(0).flush(static_cast<std::uint64_t>(pick(0, 2)));
    check_decisions(0);
  }

  bool done() const {
    for (int host = 0; host < shape_.hosts; ++host) {
      const auto h = static_cast<std::size_t>(host);
      if (at_[h] < scripts_[h].size() || !outstanding_[h].empty() || joined_[h]) return false;
    }
    return true;
  }

  // Lets every host act once, after nothing has moved for a while. False: the program is stuck.
  bool push() {
    bool acted = false;
    for (int host = 0; host < shape_.hosts; ++host) acted = act(host) || acted;
    net_->post_all();
    flush();
    net_->post_all();
    if (acted || !net_->links.empty() || net_->at(0).has_ready() || done()) return true;
    for (int host = 0; host < shape_.hosts; ++host)
      if (act(host)) return true;
    return false;
  }

  void play() {
    int idle = 0;
    while (!done() && !::testing::Test::HasFailure()) {
      const int what = pick(0, 9);
      const std::size_t before = net_->messages;
      bool moved = false;
      if (what < 3) moved = act(pick(0, shape_.hosts - 1));
      if (what >= 3 && what < 6 && !net_->links.empty()) {
        deliver_some();
        moved = true;
      }
      if (what >= 6 && what < 9) net_->post(pick(0, shape_.hosts - 1));
      if (what == 9 && net_->at(0).has_ready()) {
        flush();
        moved = true;
      }
      idle = moved || net_->messages != before ? 0 : idle + 1;
      if (idle < 100) continue;
      idle = 0;
      ASSERT_TRUE(push()) << "nothing moves any more";
    }
  }

  std::mt19937 random_;
  Workload shape_;
  std::unique_ptr<CoordinatorNet> net_;
  std::vector<std::vector<Action>> scripts_;
  std::vector<std::size_t> at_;
  std::vector<std::map<std::string, Announcement>> outstanding_;
  std::vector<std::size_t> seen_;
  std::vector<bool> joined_;
  std::map<std::pair<int, std::string>, int> times_;
};

// XOE_SOAK=n runs n programs.
TEST(CoordinatorRandom, AllHostsTakeTheSameDecisions) {
  const char* soak = std::getenv("XOE_SOAK");
  const int programs = soak != nullptr ? std::atoi(soak) : 3000;
  for (int seed = 0; seed < programs && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomProgram program(static_cast<std::uint32_t>(seed));
    program.run();
  }
}

}  // namespace
}  // namespace xoe::engine
