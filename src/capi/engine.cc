// The life of an engine, and what may be asked of it.
#include <cstdio>
#include <utility>

#include "capi/error.h"
#include "capi/objects.h"
#include "capi/structs.h"
#include "comm/subgroup.h"

namespace xoe::capi {
namespace {

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
  XOE_ASSIGN(Communicator world, xoe::init(start.init));
  if (options != nullptr && !start.ranks.empty()) {
    XOE_ASSIGN(world, subgroup(std::move(world), start.ranks));
  }
  // Once a host is enough.
  if (world.local_rank() == 0)
    for (const std::string& line : warnings) warn_of(start.engine, line);
  XOE_ASSIGN(made->engine, Engine::create(std::move(world), std::move(start.engine)));
  *engine = made.release();
  return {};
}

Status topology_of(const xoe_engine* engine, xoe_topology* topology) {
  XOE_TRY(need(engine, "engine"));
  XOE_TRY(need(topology, "topology"));
  const Topology& from = engine->engine->topology();
  *topology = {from.rank, from.size, from.local_rank, from.local_size, from.cross_rank, from.cross_size};
  return {};
}

Status add_process_set(xoe_engine* engine, const std::int32_t* ranks, std::size_t count, std::int32_t* set) {
  XOE_TRY(need(engine, "engine"));
  XOE_TRY(need(set, "set"));
  if (count > 0) XOE_TRY(need(ranks, "ranks"));
  XOE_ASSIGN(*set, engine->engine->add_process_set({ranks, count}));
  return {};
}

}  // namespace
}  // namespace xoe::capi

using xoe::Status;
using xoe::capi::fill;
using xoe::capi::guard;
using xoe::capi::need;

extern "C" {

int32_t xoe_abi_version(void) { return XOE_ABI_VERSION; }
const char* xoe_version_string(void) { return XOE_VERSION_STRING; }

xoe_status xoe_init(const xoe_options* options, xoe_engine** engine) {
  return guard([&] { return xoe::capi::init(options, engine); });
}

void xoe_shutdown(xoe_engine* engine) {
  (void)guard([&]() -> Status {
    delete engine;
    return {};
  });
}

xoe_status xoe_topology_of(const xoe_engine* engine, xoe_topology* topology) {
  return guard([&] { return xoe::capi::topology_of(engine, topology); });
}

xoe_status xoe_takes_gpu_memory(const xoe_engine* engine) {
  return guard([&]() -> Status {
    XOE_TRY(need(engine, "engine"));
    return engine->engine->takes_gpu_memory();
  });
}

xoe_status xoe_add_process_set(xoe_engine* engine, const int32_t* ranks, size_t count, int32_t* set) {
  return guard([&] { return xoe::capi::add_process_set(engine, ranks, count, set); });
}

xoe_status xoe_remove_process_set(xoe_engine* engine, int32_t set) {
  return guard([&]() -> Status {
    XOE_TRY(need(engine, "engine"));
    return engine->engine->remove_process_set(set);
  });
}

xoe_status xoe_process_sets(const xoe_engine* engine, int32_t* sets, size_t capacity, size_t* count) {
  return guard([&]() -> Status {
    XOE_TRY(need(engine, "engine"));
    return fill(engine->engine->process_sets(), sets, capacity, count);
  });
}

xoe_status xoe_process_set_ranks(const xoe_engine* engine, int32_t set, int32_t* ranks, size_t capacity,
                                 size_t* count) {
  return guard([&]() -> Status {
    XOE_TRY(need(engine, "engine"));
    XOE_ASSIGN(const auto found, engine->engine->process_set_ranks(set));
    return fill(found, ranks, capacity, count);
  });
}

xoe_status xoe_process_set_rank(const xoe_engine* engine, int32_t set, int32_t* rank) {
  return guard([&]() -> Status {
    XOE_TRY(need(engine, "engine"));
    XOE_TRY(need(rank, "rank"));
    XOE_ASSIGN(*rank, engine->engine->process_set_rank(set));
    return {};
  });
}

xoe_status xoe_buffer_allocate(xoe_engine* engine, size_t bytes, xoe_buffer** buffer, void** data) {
  return guard([&]() -> Status {
    XOE_TRY(need(engine, "engine"));
    XOE_TRY(need(buffer, "buffer"));
    XOE_TRY(need(data, "data"));
    auto made = std::make_unique<xoe_buffer>();
    XOE_ASSIGN(made->buffer, engine->engine->shared_buffer(bytes));
    *data = made->buffer.data();
    *buffer = made.release();
    return {};
  });
}

void xoe_buffer_free(xoe_buffer* buffer) {
  (void)guard([&]() -> Status {
    delete buffer;
    return {};
  });
}

}  // extern "C"
