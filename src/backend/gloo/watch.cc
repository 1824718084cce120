// The mesh's thread: notices who goes, wakes who waits, and ends the connections.
#include <algorithm>

#include "backend/gloo/farewell.h"
#include "backend/gloo/mesh.h"
#include "backend/gloo/quiet_pipe.h"
#include "base/error.h"

namespace xoe::gloo {
namespace {

using std::chrono::milliseconds;

// So long a member that failed keeps its connections: the others see by themselves who went first.
constexpr milliseconds kGrace{50};

}  // namespace

// Posts the alarm anew, which fails where the connection is broken.
void Mesh::look() {
  auto fresh = control_->createUnboundBuffer(nullptr, 0);
  std::vector<int> gone;
  for (int m = 0; m < size(); ++m) {
    if (m == self() || peer_at(m).gone) continue;
    try {
      fresh->recv(m, kAlarmSlot, 0, 0);
    } catch (const std::exception&) {
      peer_at(m).gone = true;
      gone.push_back(m);
    }
  }
  alarm_ = std::move(fresh);
  // Who says why knows better than who is silent because of it.
  std::stable_partition(gone.begin(), gone.end(), [&](int m) { return farewells_[static_cast<std::size_t>(m)] != 0; });
  for (const int m : gone) read_farewell(m);
  changed_.notify_all();
}

void Mesh::read_farewell(int member) {
  const std::uint64_t said = farewells_[static_cast<std::size_t>(member)];
  const int rank = rank_of(member), other = farewell_rank(said);
  if (said == 0) {
    fail({Code::kPeerLost, fmt::format("rank {} ended, or its connection broke", rank)},
         make_farewell(Farewell::kLost, rank));
    return;
  }
  switch (farewell_kind(said)) {
    case Farewell::kLeft: return;  // only who still needs it is in trouble, and Gloo wakes those
    case Farewell::kLost:
      fail({Code::kPeerLost, fmt::format("rank {} was lost (rank {} noticed)", other, rank)}, said);
      return;
    case Farewell::kTimeout:
      fail({Code::kTimeout, fmt::format("rank {} gave up: rank {} did not take its part in time", rank, other)}, said);
      return;
    case Farewell::kAborted: break;
  }
  fail({Code::kPeerLost, fmt::format("rank {} gave up", rank)}, make_farewell(Farewell::kLost, rank));
}

void Mesh::fail(Error cause, std::uint64_t farewell) {
  if (cause_) return;
  cause_ = std::move(cause);
  farewell_ = farewell;
  for (Peer& peer : peers_) {
    for (const auto& lane : peer.lanes) {
      if (!lane) continue;
      lane->abortWaitRecv();
      lane->abortWaitSend();
    }
  }
  if (alarm_) alarm_->abortWaitRecv();
  changed_.notify_all();
  earlier_.notify_all();
}

void Mesh::watch() {
  const QuietPipe quiet;
  for (auto lock = locked(); !cause_;) {
    lock.unlock();
    try {
      alarm_->waitRecv(nullptr, std::chrono::hours(100));
    } catch (const std::exception&) {  // a connection broke: look() tells whose
    }
    lock.lock();
    if (!cause_) look();
  }
  auto lock = locked();
  if (farewell_kind(farewell_) != Farewell::kLeft) changed_.wait_for(lock, kGrace, [] { return false; });
  changed_.wait(lock, [&] { return !running_; });
  lock.unlock();
  say_farewell_and_close();
}

void Mesh::keep_deadline() {
  for (auto lock = locked(); !cause_;) {
    const auto now = Clock::now();
    if (running_ && now >= deadline_) {
      const int rank = rank_of(awaited_.load(std::memory_order_relaxed));
      const double waited = std::chrono::duration<double>(now - started_).count();
      fail({Code::kTimeout, fmt::format("rank {} did not take its part within {:.3g} s", rank, waited)},
           make_farewell(Farewell::kTimeout, rank));
      return;
    }
    // Most deadlines come later than the one before, and then nobody has to be woken for them.
    looked_at_ = std::min(running_ ? deadline_ : Clock::time_point::max(), now + std::chrono::hours(100));
    earlier_.wait_until(lock, looked_at_);
  }
}

void Mesh::say_farewell_and_close() {
  const auto word = control_->createUnboundBuffer(&farewell_, sizeof farewell_);
  for (int m = 0; m < size(); ++m) {
    if (m == self() || peer_at(m).gone) continue;
    try {
      word->send(m, kFarewellSlot);
    } catch (const std::exception&) {  // gone as well
    }
  }
  for (const auto& context : {control_, data_})
    for (int m = 0; m < size(); ++m)
      if (m != self()) context->getPair(m).reset();
}

}  // namespace xoe::gloo
