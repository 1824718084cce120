// A host that the launcher reaches itself.
#pragma once

#include "launch/host_link.h"
#include "launch/shell_process.h"

namespace xoe::launch {

class ShellLink : public HostLink {
 public:
  static Result<std::unique_ptr<HostLink>> start(HostShare share, const std::vector<std::string>& command,
                                                 const Env& env, const sigset_t& mask, const rlimit& open_files);

  void add_to(std::vector<pollfd>& polled) override;
  void pump(const std::vector<pollfd>& polled) override;
  void write() override { pipe().write(); }
  void hang_up() override { pipe().close(); }
  void kill() override;
  const std::optional<int>& status() const noexcept override { return process_.status(); }

 private:
  ShellLink(HostShare share, StartedShell shell);
  void read_last_words() override;

  ShellProcess process_;
  Fd errors_;
  std::size_t first_ = 0;  // of our four entries in `polled`
};

}  // namespace xoe::launch
