#include "xoe/data/detail/cpu_account.h"

#include <pthread.h>

#include <vector>

#include "data/tune/cpu_ledger.h"

namespace xoe::data::detail {

void CpuAccount::open(std::span<std::jthread> threads) {
  std::vector<clockid_t> clocks;
  for (std::jthread& thread : threads) {
    clockid_t clock = 0;
    if (::pthread_getcpuclockid(thread.native_handle(), &clock) == 0) clocks.push_back(clock);
  }
  CpuLedger::of_process().open(this, clocks);
}

void CpuAccount::close() { CpuLedger::of_process().close(this); }

}  // namespace xoe::data::detail
