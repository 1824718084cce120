// What results of a measurement tell of the machine that they are from.
#pragma once

#include <string>

namespace xoe::command_line {

struct MachineFacts {
  std::string started;  // now: "2026-11-26 06:40:29 UTC"
  std::string host;
  std::string version;    // of Xoe
  std::string system;     // "Linux 6.1.0 x86_64"
  std::string processor;  // its name; empty: not known
  unsigned processors = 0;
  std::string memory;  // "23.5 GiB"
};

MachineFacts machine_facts();

}  // namespace xoe::command_line
