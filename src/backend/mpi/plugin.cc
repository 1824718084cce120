// libxoe-mpi-openmpi.so, libxoe-mpi-mpich.so: the MPI of this process as an engine.
#include "backend/net/plugin.h"

#include <time.h>

#include <algorithm>
#include <cstring>

#include "backend/mpi/mpi_net.h"
#include "backend/mpi/process.h"
#include "base/error.h"
#include "base/hash.h"

namespace xoe::mpi {
namespace {

constexpr auto kBootstrapLimit = std::chrono::minutes(5);

// What members tell each other before they make a communicator.
struct Hello {
  int rank, size, tag;
};

Status wait(Process& process, MPI_Request& request, Clock::time_point deadline) {
  for (;;) {
    int done = 0;
    const int error = process.call([&] { return MPI_Test(&request, &done, MPI_STATUS_IGNORE); });
    if (error != MPI_SUCCESS) return failure(Code::kPeerLost, "mpi: bootstrap: {}", mpi_text(error));
    if (done != 0) return {};
    if (Clock::now() >= deadline)
      return failure(Code::kTimeout, "mpi: not all {} processes that the launcher started came together",
                     process.size());
    const timespec nap{0, 100'000};
    ::nanosleep(&nap, nullptr);
  }
}

// Memory is shared with the requests: what was not completed keeps it.
Result<std::vector<std::string>> gather_strings(Process& process, MPI_Comm comm, const std::string& mine) {
  const auto deadline = Clock::now() + kBootstrapLimit;
  const auto size = static_cast<std::size_t>(process.size());
  auto lengths = std::make_unique<std::vector<int>>(size), places = std::make_unique<std::vector<int>>(size);
  (*lengths)[static_cast<std::size_t>(process.rank())] = static_cast<int>(mine.size());
  MPI_Request request = MPI_REQUEST_NULL;
  process.call([&] { return MPI_Iallgather(MPI_IN_PLACE, 0, MPI_INT, lengths->data(), 1, MPI_INT, comm, &request); });
  if (auto status = wait(process, request, deadline); !status) {
    [[maybe_unused]] auto* const left_to_mpi = lengths.release();
    process.note_failure();
    return failure(status.error());
  }
  int total = 0;
  for (std::size_t r = 0; r < size; ++r) {
    (*places)[r] = total;
    total += (*lengths)[r];
  }
  auto text = std::make_unique<std::string>(static_cast<std::size_t>(total), '\0');
  mine.copy(text->data() + (*places)[static_cast<std::size_t>(process.rank())], mine.size());
  process.call([&] {
    return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, text->data(), lengths->data(), places->data(), MPI_BYTE, comm,
                           &request);
  });
  if (auto status = wait(process, request, deadline); !status) {
    [[maybe_unused]] auto* const left_to_mpi = lengths.release();
    [[maybe_unused]] auto* const left_too = places.release();
    [[maybe_unused]] auto* const and_this = text.release();
    process.note_failure();
    return failure(status.error());
  }
  std::vector<std::string> all;
  for (std::size_t r = 0; r < size; ++r)
    all.push_back(text->substr(static_cast<std::size_t>((*places)[r]), static_cast<std::size_t>((*lengths)[r])));
  return all;
}

class MpiProvider final : public net::Provider {
 public:
  explicit MpiProvider(std::shared_ptr<Process> process) : process_(std::move(process)) {}

  std::string_view name() const noexcept override { return "mpi"; }
  std::string describe() const override { return process_->describe(); }

  Result<std::unique_ptr<net::Net>> connect(const net::Members& members, const net::Exchange& exchange,
                                            Clock::time_point deadline) override {
    XOE_TRY(process_->usable());
    const Hello mine{process_->rank(), process_->size(), process_->next_tag()};
    // Making a communicator knows no deadline: it begins when all are there.
    XOE_ASSIGN(const auto all, exchange(std::string(reinterpret_cast<const char*>(&mine), sizeof mine)));
    if (Clock::now() >= deadline)
      return failure(Code::kTimeout, "mpi: the {} members took too long to come together", members.ranks.size());
    XOE_ASSIGN(const auto ranks, world_ranks(members, all));
    Hello first{};
    std::memcpy(&first, all[0].data(), sizeof first);
    const auto tag =
        static_cast<int>(mix(static_cast<std::uint64_t>(first.tag) << 20 ^ static_cast<unsigned>(first.rank)) & 0x7fff);
    MPI_Comm comm = MPI_COMM_NULL;
    const int error = process_->call([&] { return make(ranks, tag, comm); });
    if (error != MPI_SUCCESS) return failure(Code::kPeerLost, "mpi: no communicator: {}", mpi_text(error));
    return std::make_unique<MpiNet>(process_, members, comm);
  }

  Result<net::Exchange> bootstrap() override {
    XOE_TRY(process_->usable());
    MPI_Comm comm = MPI_COMM_NULL;
    const int error = process_->call([&] { return MPI_Comm_dup(MPI_COMM_WORLD, &comm); });
    if (error != MPI_SUCCESS) return failure(Code::kPeerLost, "mpi: no communicator: {}", mpi_text(error));
    return net::Exchange([process = process_, comm](std::string mine) { return gather_strings(*process, comm, mine); });
  }

 private:
  // Ranks in MPI_COMM_WORLD by member.
  Result<std::vector<int>> world_ranks(const net::Members& members, const std::vector<std::string>& all) const {
    std::vector<int> ranks;
    for (std::size_t m = 0; m < all.size(); ++m) {
      Hello hello{};
      if (all.size() != members.ranks.size() || all[m].size() != sizeof hello)
        return failure(Code::kInternal, "mpi: {} members exchanged {} words; are all ranks of one build?",
                       members.ranks.size(), all.size());
      std::memcpy(&hello, all[m].data(), sizeof hello);
      if (hello.size != process_->size() || hello.rank < 0 || hello.rank >= hello.size ||
          std::find(ranks.begin(), ranks.end(), hello.rank) != ranks.end())
        return failure(Code::kUnsupported,
                       "mpi: rank {} is number {} of an MPI job of {} processes, this one number {} of {}: one mpirun "
                       "must start all ranks; or choose another backend",
                       members.ranks[m], hello.rank, hello.size, process_->rank(), process_->size());
      ranks.push_back(hello.rank);
    }
    return ranks;
  }

  static int make(const std::vector<int>& ranks, int tag, MPI_Comm& comm) {
    MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    int error = MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group);
    if (error == MPI_SUCCESS) error = MPI_Comm_create_group(MPI_COMM_WORLD, group, tag, &comm);
    if (error == MPI_SUCCESS) error = MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (group != MPI_GROUP_NULL) MPI_Group_free(&group);
    MPI_Group_free(&world);
    return error;
  }

  const std::shared_ptr<Process> process_;
};

using Opened = Result<std::unique_ptr<net::Provider>>;

Opened open() {
  XOE_ASSIGN(auto process, Process::start());
  return std::make_unique<MpiProvider>(std::move(process));
}

}  // namespace
}  // namespace xoe::mpi

extern "C" {

__attribute__((visibility("default"))) const char* xoe_net_build() { return xoe::net::build_name().data(); }

__attribute__((visibility("default"))) xoe::mpi::Opened* xoe_net_open(const xoe::net::NetOptions&) {
  return new xoe::mpi::Opened(xoe::mpi::open());
}

}  // extern "C"
