// libxoe-mpi-openmpi.so and libxoe-mpi-mpich.so: the MPI of this process.
#include "core/backend/net/plugin.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/backend/mpi/context.h"
#include "core/backend/mpi/net.h"
#include "core/base/error.h"
#include "core/base/hash.h"

namespace xoe::mpi {
namespace {

constexpr auto kBootstrapLimit = std::chrono::minutes(5);

// The members of a new net exchange it before they make a communicator.
struct Hello {
  int rank, size, tag;  // in MPI_COMM_WORLD; of the sender's next group
};

Status wait(Context& context, MPI_Request& request, Clock::time_point deadline) {
  for (;;) {
    int done = 0;
    const int error = context.call([&] { return MPI_Test(&request, &done, MPI_STATUS_IGNORE); });
    if (error != MPI_SUCCESS) return failure(Code::kPeerLost, "mpi: bootstrap: {}", mpi_text(error));
    if (done != 0) return {};
    if (Clock::now() >= deadline)
      return failure(Code::kTimeout, "mpi: not all {} processes that the launcher started came together",
                     context.size());
    const timespec nap{0, 100'000};
    ::nanosleep(&nap, nullptr);
  }
}

// A communicator of all processes that the launcher started. One that has failed stays: its requests may go on.
struct Everyone {
  explicit Everyone(std::shared_ptr<Context> mpi) : context(std::move(mpi)) {}
  Everyone(const Everyone&) = delete;
  ~Everyone() {
    if (comm == MPI_COMM_NULL || failed || !context->usable()) return;
    context->call([&] { return MPI_Comm_free(&comm); });
  }

  const std::shared_ptr<Context> context;
  MPI_Comm comm = MPI_COMM_NULL;
  bool failed = false;
};

// The memory of an allgather of strings.
struct Gather {
  std::vector<int> lengths, offsets;
  std::string text;
};

Result<std::vector<std::string>> gather_strings(Everyone& everyone, const std::string& mine) {
  Context& context = *everyone.context;
  MPI_Comm const comm = everyone.comm;
  const auto deadline = Clock::now() + kBootstrapLimit;
  const auto size = index(context.size()), me = index(context.rank());
  auto gather = std::make_unique<Gather>();
  auto& lengths = gather->lengths;
  auto& offsets = gather->offsets;
  auto& text = gather->text;
  MPI_Request request = MPI_REQUEST_NULL;
  const auto run = [&](auto&& begin) -> Status {
    const int error = context.call(begin);
    Status status = error == MPI_SUCCESS ? wait(context, request, deadline)
                                         : failure(Code::kPeerLost, "mpi: bootstrap: {}", mpi_text(error));
    if (status) return status;
    [[maybe_unused]] auto* const left_to_mpi = gather.release();  // a request may still use it
    everyone.failed = true;
    context.note_failure();
    return status;
  };
  lengths.resize(size);
  lengths[me] = static_cast<int>(mine.size());
  XOE_TRY(run([&] { return MPI_Iallgather(MPI_IN_PLACE, 0, MPI_INT, lengths.data(), 1, MPI_INT, comm, &request); }));
  offsets.resize(size);
  std::exclusive_scan(lengths.begin(), lengths.end(), offsets.begin(), 0);
  text.resize(index(offsets.back() + lengths.back()));
  mine.copy(text.data() + offsets[me], mine.size());
  XOE_TRY(run([&] {
    return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, text.data(), lengths.data(), offsets.data(), MPI_BYTE, comm,
                           &request);
  }));
  std::vector<std::string> all;
  all.reserve(size);
  for (std::size_t r = 0; r < size; ++r) all.push_back(text.substr(index(offsets[r]), index(lengths[r])));
  return all;
}

class MpiProvider final : public net::Provider {
 public:
  explicit MpiProvider(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  std::string_view name() const noexcept override { return "mpi"; }
  std::string describe() const override { return context_->describe(); }

  Result<std::unique_ptr<net::Net>> connect(const net::Members& members, const net::Exchange& exchange,
                                            Clock::time_point deadline) override {
    XOE_TRY(context_->usable());
    const Hello mine{context_->rank(), context_->size(), context_->next_tag()};
    // MPI_Comm_create_group knows no deadline: it is called once all members are there.
    XOE_ASSIGN(const auto all, exchange(std::string(reinterpret_cast<const char*>(&mine), sizeof mine)));
    if (Clock::now() >= deadline)
      return failure(Code::kTimeout, "mpi: the {} members took too long to come together", members.ranks.size());
    XOE_ASSIGN(const auto ranks, world_ranks(members, all));
    if (members.check) XOE_TRY(members.check());
    Hello first{};
    std::memcpy(&first, all[0].data(), sizeof first);
    const auto tag =
        static_cast<int>(mix(static_cast<std::uint64_t>(first.tag) << 20 ^ static_cast<unsigned>(first.rank)) & 0x7fff);
    MPI_Comm comm = MPI_COMM_NULL;
    const int error = context_->call([&] { return make(ranks, tag, comm); });
    if (error != MPI_SUCCESS) return failure(Code::kPeerLost, "mpi: no communicator: {}", mpi_text(error));
    return std::make_unique<MpiNet>(context_, members, comm);
  }

  Result<net::Exchange> bootstrap() override {
    XOE_TRY(context_->usable());
    const auto everyone = std::make_shared<Everyone>(context_);
    const int error = context_->call([&] {
      const int made = MPI_Comm_dup(MPI_COMM_WORLD, &everyone->comm);
      return made == MPI_SUCCESS ? MPI_Comm_set_errhandler(everyone->comm, MPI_ERRORS_RETURN) : made;
    });
    if (error != MPI_SUCCESS) return failure(Code::kPeerLost, "mpi: no communicator: {}", mpi_text(error));
    return net::Exchange([everyone](const std::string& mine) { return gather_strings(*everyone, mine); });
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
      if (hello.size != context_->size() || hello.rank < 0 || hello.rank >= hello.size ||
          std::find(ranks.begin(), ranks.end(), hello.rank) != ranks.end())
        return failure(Code::kUnsupported,
                       "mpi: rank {} is number {} of an MPI job of {} processes, this one number {} of {}: one mpirun "
                       "must start all ranks; or choose another backend",
                       members.ranks[m], hello.rank, hello.size, context_->rank(), context_->size());
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

  const std::shared_ptr<Context> context_;
};

Result<std::unique_ptr<net::Provider>> open_provider(const net::NetOptions&) {
  XOE_ASSIGN(auto context, Context::start());
  return std::make_unique<MpiProvider>(std::move(context));
}

}  // namespace
}  // namespace xoe::mpi

XOE_NET_PLUGIN(xoe::mpi::open_provider)
