// Reads the launcher's stdin for a rank 0 on another host.
#pragma once

#include <poll.h>

#include <vector>

#include "launch/output/output.h"
#include "launch/remote/frame_connection.h"

namespace xoe::launch {

// At most a window of bytes is under way that rank 0 has not taken yet. A terminal is read in the foreground only.
class StdinFeed {
 public:
  // `echo`: where what is typed shows, if it is the same terminal; outlives this.
  explicit StdinFeed(Sink& echo);

  void add_to(std::vector<pollfd>& polled);
  void pump(const std::vector<pollfd>& polled, remote::FrameConnection& agent);
  void taken(std::int64_t bytes) { under_way_ -= bytes; }
  void close() { open_ = false; }
  // There is a terminal, but the job is in the background: no event tells when that changes, so check again soon.
  bool in_background() const { return open_ && terminal_ && !in_foreground(); }

 private:
  bool in_foreground() const;

  Sink& echo_;
  bool open_ = true;
  bool terminal_;
  std::int64_t under_way_ = 0;
  std::size_t entry_ = 0;  // ours in `polled`, if asked_
  bool asked_ = false;
};

}  // namespace xoe::launch
