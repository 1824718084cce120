// The members of a version of the world, where their number may change, and what each of them is there.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "xoe/collective.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

struct WorldMember {
  int slot = 0;  // of the job: where its process is started
  int host = 0;  // a number that the members on one host share
  bool operator==(const WorldMember&) const = default;
};

// The value of kWorldVersionKey: "2", or "2 0,1,3" with the members' slots in their order, or "2 0,1,4:1" where slot 4
// is on host 1. Without members all ranks are in the version.
std::string world_text(int version, std::span<const WorldMember> members);

struct World {
  int version = 0;
  std::vector<WorldMember> members = {};  // empty: all ranks
};
// `internal` for a text that world_text() would not write.
Result<World> parse_world(std::string_view text);

// Gives the place of the member with this index: ranks are numbered as members are, those of one host in the same
// order.
Topology topology_of(std::span<const WorldMember> members, std::size_t index);

}  // namespace xoe::bootstrap
