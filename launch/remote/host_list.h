// Lists of hosts as users write them, -H and --hostfile of `xoe run` and `xoe doctor`, and as Slurm does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "xoe/status.h"

namespace xoe::remote {

struct Host {
  std::string name;
  int slots = 1;
  int max_slots = 0;  // even with --oversubscribe; 0: no limit
  bool operator==(const Host&) const = default;
};

// "a:4,b,[fe80::1]:2,me@c:4"; a name without a number has one slot. A host named twice has the slots of both.
// `invalid_argument` names the entry that is wrong: among others a name that ssh could take for an option, or that has
// a character with a meaning to a shell.
Result<std::vector<Host>> parse_hosts(std::string_view text);

// A line for each host: "host slots=4 max-slots=8" (Open MPI, Horovod) or "host:4" (MPICH); # begins a comment.
// `path` is for messages, which name the line.
Result<std::vector<Host>> parse_hostfile(std::string_view text, std::string_view path);
Result<std::vector<Host>> read_hostfile(const std::string& path);

// As gethostname() has it.
std::string this_hostname();
// Whether `name` means the host that is called `hostname`: localhost, 127.*, ::1, or its name with or without a domain.
bool names_this_host(std::string_view name, std::string_view hostname);

// Slurm's short form, "n[1-3,07],login". Leading zeros of a range's first number are kept; several brackets in one name
// multiply. `invalid_argument` for a malformed list and for more than 65536 names.
Result<std::vector<std::string>> expand_hostlist(std::string_view text);

}  // namespace xoe::remote
