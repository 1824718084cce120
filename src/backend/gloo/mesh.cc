#include "backend/gloo/mesh.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <utility>

#include "backend/gloo/farewell.h"
#include "base/bytes.h"
#include "base/error.h"

namespace xoe::gloo {
namespace {

using std::chrono::milliseconds;

constexpr auto kForever = std::chrono::hours(100);  // Gloo adds it to the time of day

// Addresses of one member's ends, by member; an empty one for itself.
std::string pack(const std::vector<std::vector<char>>& addresses) {
  ByteWriter packed;
  for (const auto& address : addresses) packed.text<std::uint32_t>({address.data(), address.size()});
  return std::move(packed).take();
}

// The address at `index`, empty if there is none.
std::vector<char> unpack(std::string_view packed, int index) {
  ByteReader reader(packed);
  for (int i = 0; i < index; ++i) reader.text<std::uint32_t>();
  const std::string_view address = reader.text<std::uint32_t>();
  return {address.begin(), address.end()};
}

using Context = ::gloo::transport::Context;

// A context whose pairs listen, and their addresses by member.
std::shared_ptr<Context> listen(::gloo::transport::Device& device, int size, int self, Clock::time_point deadline,
                                std::vector<std::vector<char>>& addresses) {
  auto context = device.createContext(self, size);
  // Gloo waits five times as long.
  const auto left = std::clamp<Clock::duration>(deadline - Clock::now(), milliseconds(5), kForever);
  context->setTimeout(std::chrono::ceil<milliseconds>(left) / 5);
  for (int m = 0; m < size; ++m)
    addresses.push_back(m == self ? std::vector<char>() : context->createPair(m)->address().bytes());
  return context;
}

Status connect_pair(::gloo::transport::Pair& pair, const std::vector<char>& address, int rank,
                    Clock::time_point deadline) {
  if (address.empty())
    return failure(Code::kInternal, "gloo: rank {} told no address of its end; are all ranks of one build?", rank);
  try {
    pair.connect(address);
    return {};
  } catch (const std::exception& e) {
    return failure(Clock::now() >= deadline ? Code::kTimeout : Code::kPeerLost, "gloo: no connection to rank {}: {}",
                   rank, e.what());
  }
}

}  // namespace

Result<std::unique_ptr<Mesh>> Mesh::connect(std::shared_ptr<::gloo::transport::Device> device,
                                            const net::Members& members, const net::Exchange& exchange,
                                            Clock::time_point deadline) {
  const int size = static_cast<int>(members.ranks.size());
  std::vector<std::vector<char>> addresses;
  std::shared_ptr<Context> data, control;
  try {
    data = listen(*device, size, members.self, deadline, addresses);
    control = listen(*device, size, members.self, deadline, addresses);
  } catch (const std::exception& e) {
    return failure(Code::kUnavailable, "gloo: cannot listen for the other ranks: {}", e.what());
  }
  XOE_ASSIGN(const std::vector<std::string> all, exchange(pack(addresses)));
  if (all.size() != members.ranks.size())
    return failure(Code::kInternal, "gloo: {} members exchanged {} addresses", size, all.size());
  for (int m = 0; m < size; ++m) {
    if (m == members.self) continue;
    const std::string& theirs = all[static_cast<std::size_t>(m)];
    const int rank = members.ranks[static_cast<std::size_t>(m)];
    XOE_TRY(connect_pair(*data->getPair(m), unpack(theirs, members.self), rank, deadline));
    XOE_TRY(connect_pair(*control->getPair(m), unpack(theirs, size + members.self), rank, deadline));
  }
  std::unique_ptr<Mesh> mesh;
  try {
    mesh.reset(new Mesh(members, std::move(data), std::move(control)));
  } catch (const std::exception& e) {
    return failure(Code::kPeerLost, "gloo: a connection broke at once: {}", e.what());
  }
  XOE_TRY(mesh->meet(deadline));
  return mesh;
}

Mesh::Mesh(net::Members members, std::shared_ptr<Context> data, std::shared_ptr<Context> control)
    : members_(std::move(members)),
      data_(std::move(data)),
      control_(std::move(control)),
      peers_(members_.ranks.size()),
      farewells_(members_.ranks.size()),
      farewell_room_(control_->createUnboundBuffer(farewells_.data(), farewells_.size() * sizeof farewells_[0])) {
  for (int m = 0; m < size(); ++m)
    if (m != self())
      farewell_room_->recv(m, kFarewellSlot, static_cast<std::size_t>(m) * sizeof(std::uint64_t),
                           sizeof(std::uint64_t));
  open_lanes(*control_);
  const auto lock = locked();
  look();
  watcher_ = std::jthread([this] { watch(); });
  timekeeper_ = std::jthread([this] { keep_deadline(); });
}

void Mesh::open_lanes(Context& context) {
  for (int m = 0; m < size(); ++m) {
    if (m == self()) continue;
    // Spans all addresses: nothing has to be made for a message, and nothing lasts beyond it but this.
    for (auto& lane : peer_at(m).lanes)
      lane = context.createUnboundBuffer(nullptr, std::numeric_limits<std::size_t>::max() - 1);
  }
}

Mesh::~Mesh() {
  {
    const auto lock = locked();
    fail({Code::kUnavailable, "gloo: this rank left"}, make_farewell(Farewell::kLeft, 0));
  }
  timekeeper_.join();
  watcher_.join();
}

// All have connected with all when this returns, and each knows that the others are ready to hear its farewell: their
// word of that came before, over the same connections.
Status Mesh::meet(Clock::time_point deadline) {
  const auto together = [&]() -> Status {
    XOE_TRY(enter(deadline));
    for (int m = 0; m < size(); ++m)
      if (m != self()) XOE_TRY(receive(m, kFirstLane, kMeetSlot, nullptr, 0));
    for (int m = 0; m < size(); ++m)
      if (m != self()) XOE_TRY(send(m, kFirstLane, kMeetSlot, nullptr, 0));
    for (int m = 0; m < size(); ++m) {
      if (m == self()) continue;
      XOE_TRY(wait_received(m, kFirstLane));
      XOE_TRY(wait_sent(m, kFirstLane));
    }
    return {};
  };
  XOE_TRY(leave(together(), "gloo: connecting", {}));
  const auto lock = locked();
  if (!cause_) open_lanes(*data_);
  return {};
}

Status Mesh::enter(Clock::time_point deadline) {
  const auto lock = locked();
  if (cause_) return failure(*cause_);
  running_ = true;
  deadline_ = deadline;
  started_ = Clock::now();
  if (deadline < looked_at_) earlier_.notify_one();
  return {};
}

Status Mesh::leave(Status outcome, std::string_view collective, std::string_view name) {
  auto lock = locked();
  // A turn that got all it needed is good, also when somebody went meanwhile: the next one fails.
  if (!outcome) {
    if (!cause_) fail(outcome.error(), make_farewell(Farewell::kAborted, 0));
    if (!std::exchange(named_, true)) {
      const std::string title = name.empty() ? std::string(collective) : fmt::format("{} ({})", collective, name);
      cause_ = Error(cause_->code(), fmt::format("{}: {}", title, cause_->message()));
    }
    outcome = failure(*cause_);
    if (running_) {  // else nothing was posted, and the watcher may be closing the connections
      lock.unlock();
      give_back();
      lock.lock();
    }
  }
  running_ = false;
  changed_.notify_all();
  return outcome;
}

// Ends what the device's thread does with the caller's memory. Nobody else takes a lane once there is a cause.
void Mesh::give_back() {
  for (int m = 0; m < size(); ++m) {
    if (m == self()) continue;
    data_->getPair(m)->close();
    for (auto& lane : peer_at(m).lanes) lane.reset();
  }
}

Status Mesh::send(int peer, Lane lane, std::uint64_t slot, const void* data, std::size_t bytes) {
  try {
    peer_at(peer).lanes[lane]->send(peer, slot, reinterpret_cast<std::uintptr_t>(data), bytes);
    return {};
  } catch (const std::exception& e) {
    return broken(peer, e.what());
  }
}

Status Mesh::receive(int peer, Lane lane, std::uint64_t slot, void* data, std::size_t bytes) {
  try {
    peer_at(peer).lanes[lane]->recv(peer, slot, reinterpret_cast<std::uintptr_t>(data), bytes);
    return {};
  } catch (const std::exception& e) {
    return broken(peer, e.what());
  }
}

Status Mesh::wait_sent(int peer, Lane lane) { return wait(peer, lane, false); }
Status Mesh::wait_received(int peer, Lane lane) { return wait(peer, lane, true); }

Status Mesh::wait(int peer, Lane lane, bool received) {
  Buffer& buffer = *peer_at(peer).lanes[lane];
  awaited_.store(peer, std::memory_order_relaxed);
  try {
    if (received ? buffer.waitRecv(nullptr, kForever) : buffer.waitSend(nullptr, kForever)) return {};
  } catch (const std::exception& e) {
    return broken(peer, e.what());
  }
  const auto lock = locked();
  return failure(*cause_);  // nothing else ends a wait
}

// Gloo gave up with this peer: why?
Status Mesh::broken(int peer, const char* what) {
  auto lock = locked();
  // The watcher is about to find out.
  changed_.wait_for(lock, std::chrono::seconds(3), [&] { return cause_ || peer_at(peer).gone; });
  if (!cause_ && peer_at(peer).gone)
    fail({Code::kPeerLost, fmt::format("rank {} left the group", rank_of(peer))},
         make_farewell(Farewell::kLost, rank_of(peer)));
  if (!cause_)
    fail({Code::kPeerLost, fmt::format("the connection to rank {} broke: {}", rank_of(peer), what)},
         make_farewell(Farewell::kLost, rank_of(peer)));
  return failure(*cause_);
}

void Mesh::abort() noexcept {
  const auto lock = locked();
  fail({Code::kUnavailable, "aborted"}, make_farewell(Farewell::kAborted, 0));
}

}  // namespace xoe::gloo
