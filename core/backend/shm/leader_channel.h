// The channel between leaders of simulated hosts, whose ranks all share memory (XOE_PRETEND_HOSTS).
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/backend/leader_channel.h"

namespace xoe::shm {

// Bytes that each leader provides for its incoming messages, zero at first.
std::size_t leader_channel_bytes(std::size_t hosts) noexcept;

// memory: of each host's leader, mapped here. host: this process's.
std::unique_ptr<LeaderChannel> make_leader_channel(const std::vector<std::byte*>& memory, int host);

}  // namespace xoe::shm
