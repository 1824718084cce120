// The pool's state in Prometheus' text format.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "pool/core/pool.h"
#include "pool/hooks/notifier.h"

namespace xoe::pool {

// Of the server, since it started.
struct ServerCounters {
  std::array<std::atomic<std::uint64_t>, 6> answers = {};  // by the first digit of their status
  std::atomic<std::uint64_t> streams_dropped = 0;          // because their clients read too slowly or were gone
  const NoticeCounters* notices = nullptr;                 // none: there are no hooks
};

struct ServerFacts {
  std::uint64_t turns = 0;  // since it started
  int streams = 0;          // open now
};

// docs/reference/pool-http.md lists the names.
std::string metrics_text(const Pool& pool, const ServerCounters& counters, const ServerFacts& facts, Time now);

}  // namespace xoe::pool
