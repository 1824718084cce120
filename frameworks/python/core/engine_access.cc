#include "frameworks/python/core/engine_access.h"

#include <cstdint>
#include <mutex>
#include <utility>

#include "frameworks/plugins/engine_access.h"
#include "frameworks/python/core/engine.h"

namespace xoe::python {
namespace {

// Never destroyed: threads of frameworks may run until the process ends.
struct Shared {
  std::mutex mutex;
  EnginePtr engine;
};

Shared& shared() {
  static auto* const one = new Shared();
  return *one;
}

xoe_engine* acquire(void** use) {
  Shared& from = shared();
  const std::lock_guard lock(from.mutex);
  if (!from.engine) return nullptr;
  auto* const held = new EnginePtr(from.engine);
  *use = held;
  return held->get();
}

void release(void* use) { delete static_cast<EnginePtr*>(use); }

void share_engine(const Engine* engine) {
  EnginePtr next = engine != nullptr ? engine->get() : EnginePtr();
  {
    Shared& to = shared();
    const std::lock_guard lock(to.mutex);
    std::swap(to.engine, next);
  }
  const nb::gil_scoped_release released;  // the last use of an engine may end here
  next.reset();
}

std::uintptr_t engine_access() {
  static constexpr plugins::EngineAccess kAccess{&acquire, &release};
  return reinterpret_cast<std::uintptr_t>(&kAccess);
}

}  // namespace

void bind_engine_access(nb::module_& module) {
  module.def("share_engine", &share_engine, nb::arg("engine").none(),
             "From now on collectives of frameworks' own programs run on this engine; None: on none.");
  module.def("engine_access", &engine_access, "Address of what libraries of frameworks/plugins are connected with.");
}

}  // namespace xoe::python
