#include "launch/supervise/local_job.h"

#include <fcntl.h>

#include <memory>
#include <optional>

#include "core/base/error.h"
#include "core/bootstrap/status_page.h"
#include "core/bootstrap/store_service.h"
#include "core/bootstrap/world_page.h"
#include "launch/output/job_streams.h"
#include "launch/supervise/job.h"
#include "launch/supervise/local_processes.h"

namespace xoe::launch {

Result<JobOutcome> run_job(const RunOptions& options, const JobPlan& plan, int out, int err) {
  reset_child_signal();
  const auto inherited = remote::Inherited::current({});  // the plan has the ranks' variables
  XOE_TRY(remote::allow_open_files(options.slots()));
  auto output = std::make_unique<Output>(out, err);
  XOE_ASSIGN(auto opened, open_streams(options, *output));
  XOE_ASSIGN(const auto address, bootstrap::SocketAddress::parse(plan.store));
  XOE_ASSIGN(auto store, bootstrap::StoreService::listen(address, plan.secret));
  XOE_ASSIGN(auto signals, SignalSource::open());
  std::optional<bootstrap::StatusPage> status;
  if (options.panel) {
    XOE_ASSIGN(auto page, bootstrap::StatusPage::create(static_cast<std::size_t>(options.slots())));
    status.emplace(std::move(page));
  }
  std::optional<bootstrap::WorldPage> world;
  if (options.changes_size()) {
    XOE_ASSIGN(auto page, bootstrap::WorldPage::create());
    world.emplace(std::move(page));
    if (options.resize_fd >= 0) ::fcntl(options.resize_fd, F_SETFD, FD_CLOEXEC);
  }
  const RankCommands commands(plan, opened.ends, inherited, status ? status->path() : "", world ? world->path() : "");
  auto not_inherited = opened.streams.descriptors();
  if (status) not_inherited.push_back(status->fd());
  if (world) not_inherited.push_back(world->fd());
  if (options.resize_fd >= 0) not_inherited.push_back(options.resize_fd);
  XOE_ASSIGN(auto supervisor, SupervisorLink::start(commands.requests(), not_inherited, options.restarts > 0 || world,
                                                    static_cast<std::size_t>(options.size)));
  opened.ends.clear();
  auto processes = std::make_unique<LocalProcesses>(std::move(supervisor), std::move(opened.streams), std::move(status),
                                                    std::move(world), options.size, options.slots());
  return supervise_job(options, std::move(signals), std::move(store), std::move(output), std::move(processes));
}

}  // namespace xoe::launch
