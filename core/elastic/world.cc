#include "core/elastic/world.h"

#include <optional>
#include <utility>

#include "core/base/error.h"

namespace xoe::elastic {

World::World(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
World::World(World&&) noexcept = default;
World& World::operator=(World&&) noexcept = default;
World::~World() = default;

const Topology& World::topology() const noexcept { return parts_->joined.world.topology(); }
int World::version() const noexcept { return parts_->joined.version; }
Communicator& World::comm() noexcept { return parts_->joined.world; }

Result<Engine*> World::engine() {
  if (!parts_->engine) {
    XOE_ASSIGN(auto ranks, comm().split(0, rank()));
    XOE_ASSIGN(parts_->engine, Engine::create(std::move(*ranks), parts_->engine_options));
  }
  return parts_->engine.get();
}

void World::tell_formed() {
  if (const auto tell = std::exchange(parts_->joined.tell_formed, {})) tell();
}

Change World::change() const noexcept {
  using Wanted = bootstrap::WorldView::Change;
  switch (parts_->joined.change()) {
    case Wanted::kReForm: return Change::kReForm;
    case Wanted::kLeave: return Change::kLeave;
    case Wanted::kStay: break;
  }
  return Change::kStay;
}

}  // namespace xoe::elastic
