// Waits for the word that this host is to be taken away: `xoe notice` in processes of its own.
#pragma once

#include <poll.h>

#include <chrono>
#include <string>
#include <vector>

#include "launch/remote/child_process.h"

namespace xoe::launch {

// One thread at a time.
class DepartureWatch {
 public:
  // `sources`: of `xoe notice`. `inherited` outlives this.
  DepartureWatch(const std::vector<std::string>& sources, const remote::Inherited& inherited);

  struct Word {
    std::chrono::milliseconds left{-1};  // until the host is gone; negative: it cannot be found out whether it will be
    std::string why = {};
  };
  // Before and after poll(). pump() returns what was heard.
  void add_to(std::vector<pollfd>& polled) const;
  std::vector<Word> pump();

 private:
  struct Source {
    std::string name;
    std::optional<remote::StartedChild> child;
    std::string out = {};
    std::string err = {};
    std::size_t told = 0;  // bytes of `err`
  };
  void hear(Source& source, std::vector<Word>& words);

  std::vector<Source> sources_;
  std::vector<Word> problems_;  // of starting them
};

}  // namespace xoe::launch
