// Any MPI under bench/collectives/harness.h. Compiled by bench/run.py with each mpicxx that it finds.
#include <mpi.h>
#include <sys/mman.h>

#include <cstdlib>

#include "harness.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const XoeBenchEngine callbacks{
      nullptr,
      [](void*, int dtype) { return dtype == kBenchFloat32 ? 1 : 0; },
      [](void*, std::size_t bytes) -> void* {
        void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return data == MAP_FAILED ? nullptr : data;
      },
      [](void*, void* data, std::size_t bytes) { munmap(data, bytes); },
      [](void*, void* data, std::size_t count, int) {
        return MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) ==
                       MPI_SUCCESS
                   ? 1
                   : 0;
      },
  };
  const int code = xoe_bench_serve(std::getenv("XOE_BENCH_SYNC"), rank, size, &callbacks);
  MPI_Finalize();
  return code;
}
