// A stop that the user requested by a signal: which ranks end because of it, and which because others did.
#pragma once

#include <optional>
#include <vector>

#include "launch/supervise/first_fault.h"

namespace xoe::launch {

class RequestedStop {
 public:
  // A rank that ended well, or by the signal.
  void add(const Fault& end);
  // A failure that add()ed ends explain.
  void follow(const Fault& failure) { followed_.push_back(failure); }
  // Whether a failure may be the answer to a rank that has left: no crash, and not before the first that left.
  bool explain(const Fault& failure) const;

  // What the job ended with: the first end by the signal, or else the first failure that followed. None if all went
  // well.
  std::optional<Fault> first_failure() const;
  const std::vector<Fault>& followed() const noexcept { return followed_; }

 private:
  std::vector<Fault> first_of_host_;
  std::optional<Fault> by_signal_;
  std::vector<Fault> followed_;
};

}  // namespace xoe::launch
