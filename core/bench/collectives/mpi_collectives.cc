// Any MPI under core/bench/collectives/harness.h. Compiled by measure/compare/run.py with each mpicxx that it finds.
#include <mpi.h>
#include <sys/mman.h>

#include <cstdlib>

#include "core/bench/collectives/harness.h"

namespace {

int run(void*, const XoeBenchCall* call) {
  const int count = static_cast<int>(call->count);
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int done = MPI_ERR_ARG;
  switch (call->collective) {
    case kBenchAllreduce:
      done = MPI_Allreduce(MPI_IN_PLACE, call->data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      break;
    case kBenchBroadcast: done = MPI_Bcast(call->data, count, MPI_FLOAT, 0, MPI_COMM_WORLD); break;
    case kBenchAllgather:
      done = MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, call->data, count / size, MPI_FLOAT, MPI_COMM_WORLD);
      break;
    case kBenchAlltoall:
      done = MPI_Alltoall(call->data, count / size, MPI_FLOAT, call->out, count / size, MPI_FLOAT, MPI_COMM_WORLD);
      break;
    default: break;
  }
  return done == MPI_SUCCESS ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const XoeBenchEngine callbacks{
      nullptr,
      [](void*, int, int dtype) { return dtype == kBenchFloat32 ? 1 : 0; },
      [](void*, std::size_t bytes) -> void* {
        void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return data == MAP_FAILED ? nullptr : data;
      },
      [](void*, void* data, std::size_t bytes) { munmap(data, bytes); },
      run,
  };
  const int code = xoe_bench_serve(std::getenv("XOE_BENCH_SYNC"), rank, size, &callbacks);
  MPI_Finalize();
  return code;
}
