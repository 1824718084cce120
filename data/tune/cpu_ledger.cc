#include "data/tune/cpu_ledger.h"

#include <pthread.h>

namespace xoe::data {

// Never destroyed: threads of stages that live as long as the program may still ask.
CpuLedger& CpuLedger::of_process() {
  static auto* ledger = new CpuLedger;
  return *ledger;
}

double CpuLedger::seconds_of(Account& account) {
  double seconds = 0;
  for (Clock& clock : account.clocks) {
    timespec now = {};
    if (::clock_gettime(clock.id, &now) == 0)
      clock.seconds = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
    seconds += clock.seconds;
  }
  return seconds;
}

void CpuLedger::open(const void* stage, const std::vector<clockid_t>& clocks) {
  Account account;
  for (const clockid_t id : clocks) account.clocks.push_back({id, 0});
  const std::lock_guard lock(mutex_);
  accounts_[stage] = std::move(account);
}

void CpuLedger::close(const void* stage) {
  const std::lock_guard lock(mutex_);
  const auto found = accounts_.find(stage);
  if (found == accounts_.end()) return;
  gone_ += seconds_of(found->second);
  accounts_.erase(found);
}

CpuLedger::Use CpuLedger::read(const void* stage) {
  Use use{.others = gone_};
  for (auto& [owner, account] : accounts_) {
    const double seconds = seconds_of(account);
    (owner == stage ? use.mine : use.others) += seconds;
    if (owner != stage) use.promised += account.promised;
  }
  return use;
}

CpuLedger::Use CpuLedger::use(const void* stage) {
  const std::lock_guard lock(mutex_);
  return read(stage);
}

void CpuLedger::choose(const void* stage, const std::function<int(const Use&)>& choose) {
  const std::lock_guard lock(mutex_);
  const int promised = choose(read(stage));
  if (const auto found = accounts_.find(stage); found != accounts_.end()) found->second.promised = promised;
}

void CpuAccount::open(std::span<std::jthread> threads) {
  std::vector<clockid_t> clocks;
  for (std::jthread& thread : threads) {
    clockid_t clock = 0;
    if (::pthread_getcpuclockid(thread.native_handle(), &clock) == 0) clocks.push_back(clock);
  }
  CpuLedger::of_process().open(this, clocks);
}

void CpuAccount::close() { CpuLedger::of_process().close(this); }

}  // namespace xoe::data
