// One host's part of a job, as the launcher sends it to the agent there.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/options/options.h"
#include "xoe/status.h"

namespace xoe::launch {

// The exit code of `xoe run` when a host cannot be used.
inline constexpr int kHostFailed = 125;

struct AgentRank {
  int rank = 0;
  int cross_rank = 0;
  int cross_size = 1;
  std::string device = {};  // the GPU that it sees, and no other; empty: as its host has it
};

struct AgentJob {
  std::string host = {};        // its name in the user's list
  std::string first_host = {};  // the name of rank 0's
  std::string job = {};
  std::string secret = {};
  std::string store = {};
  std::string network_interface = {};
  std::string backend = {};
  std::string directory = {};
  std::vector<std::string> command = {};
  std::vector<std::pair<std::string, std::string>> env = {};
  std::vector<AgentRank> ranks = {};  // by local rank
  int first = 0;                      // so many of them are started with the job; the others when the launcher says so
  int size = 0;                       // of the whole job
  Binding binding = Binding::kNone;
  bool by_socket = false;
  bool bind_gpus = true;
  bool restarts = false;                                             // ranks are restarted, or started later
  std::vector<std::string> notices = {};                             // sources of `xoe notice` that are watched there
  std::chrono::nanoseconds host_timeout = std::chrono::seconds(10);  // of silence
};

std::string encode(const AgentJob& job);
// `invalid_argument` for anything that encode() would not write.
Result<AgentJob> decode_job(std::string_view text);

}  // namespace xoe::launch
