#include "core/bootstrap/world_members.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/bootstrap/world_page.h"

namespace xoe::bootstrap {
namespace {

constexpr int kMostHosts = 1 << 20;

std::optional<WorldMember> parse_member(std::string_view word) {
  const auto colon = word.find(':');
  const auto slot = parse_integer(word.substr(0, colon));
  const auto host = colon == std::string_view::npos ? 0 : parse_integer(word.substr(colon + 1));
  if (!slot || *slot < 0 || *slot >= kMostSlots || !host || *host < 0 || *host >= kMostHosts) return std::nullopt;
  return WorldMember{.slot = static_cast<int>(*slot), .host = static_cast<int>(*host)};
}

}  // namespace

std::string world_text(int version, std::span<const WorldMember> members) {
  std::string text = std::to_string(version);
  for (const WorldMember& member : members) {
    text += &member == members.data() ? ' ' : ',';
    text += std::to_string(member.slot);
    if (member.host != 0) text += fmt::format(":{}", member.host);
  }
  return text;
}

Result<World> parse_world(std::string_view text) {
  const auto space = text.find(' ');
  const auto version = parse_integer(text.substr(0, space));
  World world{.version = static_cast<int>(version.value_or(0))};
  bool good = version.has_value();
  if (space != std::string_view::npos)
    for (const std::string& word : split_text(text.substr(space + 1), ',')) {
      const auto member = parse_member(word);
      good = good && member;
      if (good) world.members.push_back(*member);
    }
  if (!good) return failure(Code::kInternal, "store: '{}' is not a world version", text);
  return world;
}

Topology topology_of(std::span<const WorldMember> members, std::size_t index) {
  const int host = members[index].host;
  Topology at{.rank = static_cast<int>(index), .size = static_cast<int>(members.size())};
  at.local_size = static_cast<int>(std::ranges::count(members, host, &WorldMember::host));
  at.local_rank = static_cast<int>(std::ranges::count(members.first(index), host, &WorldMember::host));
  // Across the hosts that have a member with this local rank, in the order of their first members.
  std::vector<int> hosts;
  std::map<int, int> sizes;
  for (const WorldMember& member : members)
    if (sizes[member.host]++ == 0) hosts.push_back(member.host);
  at.cross_rank = at.cross_size = 0;
  for (const int other : hosts) {
    if (sizes[other] <= at.local_rank) continue;
    if (other == host) at.cross_rank = at.cross_size;
    ++at.cross_size;
  }
  return at;
}

}  // namespace xoe::bootstrap
