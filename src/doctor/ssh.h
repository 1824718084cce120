// How hosts are reached: the command line of ssh, and what its failures mean.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/finding.h"

namespace xoe::doctor {

struct SshOptions {
  std::vector<std::string> command = {"ssh"};  // and options of it
  int port = 0;                                // 0: ssh decides
  std::string identity_file = {};
  int connect_timeout = 5;   // seconds
  std::string xoe = {};      // `xoe` on the other hosts; empty: where it is here, else in their PATH
  std::string program = {};  // this program's whole path
};

// The arguments that start `xoe doctor probe` on a host. No secret is among them.
std::vector<std::string> ssh_arguments(const SshOptions& options, const std::string& host);

// Why a host was not reached, as a finding with a remedy. `code`: how ssh ended, -1: it did not in time; `error`: its
// words.
Finding reach_problem(const std::string& host, int code, std::string_view error, const SshOptions& options);

}  // namespace xoe::doctor
