// The link of hosts that are pretended: mailboxes in memory that all ranks map.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "backend/host_link.h"

namespace xoe::shm {

// What each leader gives, zero at first.
std::size_t mailbox_bytes(std::size_t hosts) noexcept;

// memory: of each host's leader, mapped here. host: this one.
std::unique_ptr<HostLink> make_mailbox_link(const std::vector<std::byte*>& memory, int host);

}  // namespace xoe::shm
