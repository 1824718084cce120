// MPI in this process, of which there is one.
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "xoe/status.h"

namespace xoe::mpi {

class Context {
 public:
  // Initialises MPI unless the program has. If it was initialised here, it is finalised when the process exits, unless
  // a net has failed by then: MPI_Finalize would wait for the lost ranks.
  static Result<std::shared_ptr<Context>> start();

  // Calls `function`, which may call MPI. Where MPI admits one thread at a time, the others wait here.
  template <class F>
  auto call(F&& function) {
    if (many_threads_) return function();
    const std::lock_guard lock(mutex_);
    return function();
  }

  int rank() const noexcept { return rank_; }  // in MPI_COMM_WORLD
  int size() const noexcept { return size_; }
  std::string describe() const;
  const std::string& version() const noexcept { return version_; }

  void note_failure() noexcept { failed_.store(true); }
  // `unavailable` if MPI was finalised meanwhile.
  Status usable();
  // A different number for each group, also for groups that are made at the same time.
  int next_tag() noexcept { return tag_.fetch_add(1); }

 private:
  Context() = default;
  static void finalize();

  bool many_threads_ = false;
  int rank_ = 0, size_ = 1, level_ = 0;
  std::string version_;
  std::atomic<bool> failed_{false};
  std::atomic<int> tag_{0};
  std::mutex mutex_;
};

// MPI's message for an error code.
std::string mpi_text(int error);

}  // namespace xoe::mpi
