// MPI in this process. There is one, whoever started it.
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "xoe/status.h"

namespace xoe::mpi {

class Process {
 public:
  // Initialises MPI unless somebody has. What was initialised here is finalised when the process exits, unless a net
  // has failed by then: finalising would wait for the lost.
  static Result<std::shared_ptr<Process>> start();

  // A call into MPI, or several at once. Where MPI lets but one thread in at a time, the others wait here.
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
  // MPI_ERR_... as `unavailable` if MPI was finalised meanwhile.
  Status usable();
  // Numbers groups, so that two that are made at once differ.
  int next_tag() noexcept { return tag_.fetch_add(1); }

 private:
  Process() = default;
  static void finalize();

  bool many_threads_ = false;
  int rank_ = 0, size_ = 1, level_ = 0;
  std::string version_;
  std::atomic<bool> failed_{false};
  std::atomic<int> tag_{0};
  std::mutex mutex_;
};

// "no memory (MPI_ERR_NO_MEM)" in MPI's own words.
std::string mpi_text(int error);

}  // namespace xoe::mpi
