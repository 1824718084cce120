// The supervisor of a simulated host: its copy of the requests is its own, since its memory is that of its parent.
#include "launch/supervise/start_supervisor.h"

#include <unistd.h>

#include <deque>
#include <memory>
#include <string>

#include "core/testing/sim/simulation.h"
#include "launch/supervise/supervisor.h"

namespace xoe::launch {
namespace {

class Copies {
 public:
  const char* text(const char* one) { return one == nullptr ? nullptr : texts_.emplace_back(one).c_str(); }
  char* const* list(char* const* words) {
    if (words == nullptr) return nullptr;
    auto& all = lists_.emplace_back();
    for (; *words != nullptr; ++words) all.push_back(const_cast<char*>(text(*words)));
    all.push_back(nullptr);
    return all.data();
  }

 private:
  std::deque<std::string> texts_;
  std::deque<std::vector<char*>> lists_;
};

}  // namespace

pid_t start_supervisor(const SupervisorStart& start) {
  const auto copies = std::make_shared<Copies>();
  auto copy = std::make_shared<SupervisorStart>(start);
  for (remote::SpawnRequest& request : copy->requests) {
    request.path = copies->text(request.path);
    request.argv = copies->list(request.argv);
    request.shell_argv = copies->list(request.shell_argv);
    request.envp = copies->list(request.envp);
  }
  return sim::start_copy_of_caller([copies, copy] {
    for (const int fd : copy->closed) ::close(fd);
    Supervisor(Fd(copy->control), copy->requests, copy->restarts, copy->first).run();
    ::_exit(0);
  });
}

}  // namespace xoe::launch
