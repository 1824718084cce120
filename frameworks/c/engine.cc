// Engines: creation from options and environment, process sets, shared buffers.
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/comm/init.h"
#include "core/comm/subgroup.h"
#include "frameworks/c/error.h"
#include "frameworks/c/objects.h"
#include "frameworks/c/structs.h"

namespace xoe::capi {
namespace {

constexpr std::size_t kFirstOptionsSize = 104;
static_assert(sizeof(xoe_options) >= kFirstOptionsSize);

struct StartOptions {
  InitOptions init;
  std::vector<int> ranks;  // of this rank's group; empty: all
  EngineOptions engine;
  TellsFormed tells = TellsFormed::kAtOnce;
};

// -1: not chosen, so that nothing changes.
template <class T, class To>
Status choose(T value, std::int64_t low, std::int64_t high, std::string_view what, To& to) {
  if (value == -1) return {};
  XOE_TRY(check_number(value, low, high, what));
  to = static_cast<To>(value);
  return {};
}

Status apply_sizes(const xoe_options& from, EngineOptions& to) {
  XOE_TRY(choose(from.fusion_threshold, 0, INT64_MAX, "options: fusion_threshold", to.fusion_threshold));
  XOE_TRY(choose(from.pack_limit, 0, INT64_MAX, "options: pack_limit", to.pack_limit));
  XOE_TRY(choose(from.in_flight, 1, 8, "options: in_flight", to.in_flight));
  if (from.fusion_threshold != -1 || from.pack_limit != -1 || from.in_flight != -1) to.tune = false;
  XOE_TRY(choose(from.tune, 0, 1, "options: tune", to.tune));
  return choose(from.cache_capacity, 1, 1 << 20, "options: cache_capacity", to.cache_capacity);
}

Status apply_options(const xoe_options& from, StartOptions& to) {
  XOE_TRY(apply_sizes(from, to.engine));
  XOE_TRY(choose(from.start_timeout, 1, INT64_MAX, "options: start_timeout", to.init.start_timeout));
  XOE_TRY(choose(from.progress_thread, 0, 1, "options: progress_thread", to.engine.progress_thread));
  XOE_TRY(choose(from.stall_warning, 0, INT64_MAX, "options: stall_warning", to.engine.stall_warning));
  XOE_TRY(choose(from.stall_limit, 0, INT64_MAX, "options: stall_limit", to.engine.stall_limit));
  if (from.stall_limit != -1) to.engine.stall_spares_computing = false;
  XOE_TRY(choose(from.metrics_port, 0, 65535, "options: metrics_port", to.engine.metrics_port));
  XOE_TRY(check_number(from.tells_formed, 0, 1, "options: tells_formed"));
  to.tells = from.tells_formed == 1 ? TellsFormed::kLater : TellsFormed::kAtOnce;
  if (from.rank_count > 0) XOE_TRY(need(from.ranks, "options: ranks"));
  to.ranks.assign(from.ranks, from.ranks + from.rank_count);
  if (to.engine.metrics_port == 0) to.engine.metrics_port = -1;
  if (from.tune_file != nullptr) to.engine.tune_file = from.tune_file;
  if (from.timeline != nullptr) to.engine.timeline = from.timeline;
  if (from.warn != nullptr) {
    to.engine.warn = [call = from.warn, user = from.warn_user](std::string_view line) {
      call(user, std::string(line).c_str());
    };
    to.init.warn = to.engine.warn;
  }
  return {};
}

constexpr xoe_options default_options() {
  xoe_options options{};
  options.struct_size = sizeof(xoe_options);
  options.start_timeout = -1;
  options.fusion_threshold = -1;
  options.pack_limit = -1;
  options.in_flight = -1;
  options.cache_capacity = -1;
  options.tune = -1;
  options.progress_thread = -1;
  options.stall_warning = -1;
  options.stall_limit = -1;
  options.metrics_port = -1;
  return options;
}

// Options that `from` (may be null) leaves open come from the environment.
Result<StartOptions> convert_options(const xoe_options* from, std::vector<std::string>& warnings) {
  StartOptions to;
  XOE_ASSIGN(to.engine, read_engine_options(warnings));
  if (from == nullptr) return to;
  XOE_ASSIGN(const xoe_options options, copy_struct(from, default_options(), kFirstOptionsSize, "options"));
  XOE_TRY(apply_options(options, to));
  return to;
}

void warn_of(const EngineOptions& options, const std::string& line) {
  if (options.warn) {
    options.warn(line);
  } else {
    std::fprintf(stderr, "xoe: %s\n", line.c_str());
  }
}

Status init(const xoe_options* options, xoe_engine** engine) {
  XOE_TRY(need(engine, "engine"));
  std::vector<std::string> warnings;
  XOE_ASSIGN(StartOptions start, convert_options(options, warnings));
  auto made = std::make_unique<xoe_engine>();
  const auto make_engine = [&](Joined& joined) -> Status {
    Communicator world = std::move(joined.world);
    if (options != nullptr && !start.ranks.empty()) {
      XOE_ASSIGN(world, subgroup(std::move(world), start.ranks));
    }
    // Once per host.
    if (world.local_rank() == 0)
      for (const std::string& line : std::exchange(warnings, {})) warn_of(start.engine, line);
    XOE_ASSIGN(made->engine, Engine::create(std::move(world), start.engine));
    return {};
  };
  XOE_ASSIGN(Joined joined, join(Env::process(), start.init, start.engine.warn, make_engine, start.tells));
  made->key = std::move(joined.key);
  made->address = std::move(joined.address);
  made->encrypts = joined.encrypts;
  made->world_version = joined.version;
  made->world_view = std::move(joined.view);
  made->tell_formed = std::move(joined.tell_formed);
  // No rank of the first world has a state that another one waits for.
  if (joined.version == 0)
    if (const auto tell = std::exchange(made->tell_formed, {})) tell();
  *engine = made.release();
  return {};
}

}  // namespace
}  // namespace xoe::capi

using xoe::Status;
using xoe::capi::fill;
using xoe::capi::give;
using xoe::capi::guard;
using xoe::capi::need;
using xoe::capi::with_engine;

extern "C" {

int32_t xoe_abi_version(void) { return XOE_ABI_VERSION; }
const char* xoe_version_string(void) { return XOE_VERSION_STRING; }

void xoe_options_init(xoe_options* options, size_t struct_size) {
  xoe::capi::init_struct(options, xoe::capi::default_options(), struct_size);
}

xoe_status xoe_init(const xoe_options* options, xoe_engine** engine) {
  return guard([&] { return xoe::capi::init(options, engine); });
}

void xoe_shutdown(xoe_engine* engine) { xoe::capi::destroy(engine); }

xoe_status xoe_close(xoe_engine* engine) {
  return with_engine(engine, [](xoe::Engine& it) -> Status {
    it.close();
    return {};
  });
}

xoe_status xoe_abort(xoe_engine* engine, const char* why) {
  return with_engine(engine, [&](xoe::Engine& it) -> Status {
    XOE_TRY(need(why, "why"));
    return it.abort(why);
  });
}

xoe_status xoe_topology_of(const xoe_engine* engine, xoe_topology* topology) {
  return with_engine(engine, [&](const xoe::Engine& it) {
    const xoe::Topology& from = it.topology();
    return give(xoe_topology{from.rank, from.size, from.local_rank, from.local_size, from.cross_rank, from.cross_size},
                topology, "topology");
  });
}

xoe_status xoe_key(const xoe_engine* engine, unsigned char* key) {
  return with_engine(engine, [&](xoe::Engine&) -> Status {
    XOE_TRY(need(key, "key"));
    std::memcpy(key, engine->key.data(), XOE_KEY_BYTES);
    return {};
  });
}

xoe_status xoe_world_change(const xoe_engine* engine, int32_t* change) {
  using Change = xoe::bootstrap::WorldView::Change;
  return with_engine(engine, [&](xoe::Engine&) -> Status {
    XOE_TRY(need(change, "change"));
    if (!engine->world_view.may_change()) {
      *change = XOE_WORLD_FIXED;
      return {};
    }
    const Change now = engine->world_view.change(engine->world_version);
    *change = now == Change::kStay ? XOE_WORLD_STAY : now == Change::kReForm ? XOE_WORLD_RE_FORM : XOE_WORLD_LEAVE;
    return {};
  });
}

xoe_status xoe_world_formed(const xoe_engine* engine) {
  return with_engine(engine, [&](xoe::Engine&) -> Status {
    std::function<void()> tell;
    {
      const std::lock_guard lock(engine->formed_mutex);
      tell = std::exchange(engine->tell_formed, {});
    }
    if (tell) tell();
    return {};
  });
}

xoe_status xoe_world_wish(const xoe_engine* engine, int32_t* change) { return xoe_world_change(engine, change); }

xoe_status xoe_takes_gpu_memory(const xoe_engine* engine) {
  return with_engine(engine, [](xoe::Engine& it) { return it.takes_gpu_memory(); });
}

xoe_status xoe_add_process_set(xoe_engine* engine, const int32_t* ranks, size_t count, int32_t* set) {
  return with_engine(engine, [&](xoe::Engine& it) -> Status {
    XOE_TRY(need(set, "set"));
    if (count > 0) XOE_TRY(need(ranks, "ranks"));
    XOE_ASSIGN(*set, it.add_process_set({ranks, count}));
    return {};
  });
}

xoe_status xoe_remove_process_set(xoe_engine* engine, int32_t set) {
  return with_engine(engine, [&](xoe::Engine& it) { return it.remove_process_set(set); });
}

xoe_status xoe_process_sets(const xoe_engine* engine, int32_t* sets, size_t capacity, size_t* count) {
  return with_engine(engine, [&](xoe::Engine& it) { return fill(it.process_sets(), sets, capacity, count); });
}

xoe_status xoe_process_set_ranks(const xoe_engine* engine, int32_t set, int32_t* ranks, size_t capacity,
                                 size_t* count) {
  return with_engine(engine, [&](xoe::Engine& it) -> Status {
    XOE_ASSIGN(const auto found, it.process_set_ranks(set));
    return fill(found, ranks, capacity, count);
  });
}

xoe_status xoe_process_set_rank(const xoe_engine* engine, int32_t set, int32_t* rank) {
  return with_engine(engine, [&](xoe::Engine& it) -> Status {
    XOE_TRY(need(rank, "rank"));
    XOE_ASSIGN(*rank, it.process_set_rank(set));
    return {};
  });
}

xoe_status xoe_buffer_allocate(xoe_engine* engine, size_t bytes, xoe_buffer** buffer, void** data) {
  return with_engine(engine, [&](xoe::Engine& it) -> Status {
    XOE_TRY(need(buffer, "buffer"));
    XOE_TRY(need(data, "data"));
    auto made = std::make_unique<xoe_buffer>();
    XOE_ASSIGN(made->buffer, it.shared_buffer(bytes));
    *data = made->buffer.data();
    *buffer = made.release();
    return {};
  });
}

xoe_status xoe_buffer_map_peers(xoe_engine* engine, const char* name, const xoe_buffer* buffer, xoe_buffer** peers,
                                void** data, size_t capacity) {
  return with_engine(engine, [&](xoe::Engine& it) -> Status {
    XOE_TRY(need(name, "name"));
    XOE_TRY(need(buffer, "buffer"));
    XOE_TRY(need(peers, "peers"));
    XOE_TRY(need(data, "data"));
    const auto size = static_cast<std::size_t>(it.topology().size);
    if (capacity < size)
      return xoe::failure(xoe::Code::kInvalidArgument, "capacity is {}, and there are {} ranks", capacity, size);
    XOE_ASSIGN(auto mapped, it.map_peers(buffer->buffer, name));
    std::vector<std::unique_ptr<xoe_buffer>> made;
    for (xoe::SharedBuffer& peer : mapped) {
      made.push_back(peer.data() == nullptr ? nullptr : std::make_unique<xoe_buffer>());
      if (made.back()) made.back()->buffer = std::move(peer);
    }
    for (std::size_t r = 0; r < size; ++r) {
      data[r] = made[r] ? made[r]->buffer.data() : nullptr;
      peers[r] = made[r].release();
    }
    return {};
  });
}

void xoe_buffer_free(xoe_buffer* buffer) { xoe::capi::destroy(buffer); }

}  // extern "C"
