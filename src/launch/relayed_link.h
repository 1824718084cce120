// A host that the agent of another one reaches: its shell is a process there, whose bytes travel in that agent's
// frames.
#pragma once

#include "launch/host_link.h"

namespace xoe::launch {

class RelayedLink : public HostLink {
 public:
  // `number`: its place among all links. `hosts`: those behind it, and itself. `relay` outlives this.
  RelayedLink(HostShare share, HostLink& relay, std::size_t number, std::size_t hosts,
              std::vector<std::string> command);

  void open() override;
  void take(const AgentFrame& frame) override;
  void write() override;
  void hang_up() override;
  void kill() override;
  const std::optional<int>& status() const noexcept override { return status_; }

 private:
  void tell(AgentFrame::Kind kind, std::string_view text = {});

  HostLink& carrier_;
  std::int64_t number_;
  std::int64_t hosts_;
  std::vector<std::string> command_;
  std::optional<int> status_;
};

}  // namespace xoe::launch
