// Allreduce over hosts with an MPI, started by its mpirun.
#include <mpi.h>

#include "core/bench/hosts/loop.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  xoe::bench::Engine engine;
  MPI_Comm_rank(MPI_COMM_WORLD, &engine.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &engine.size);
  engine.sum = [](float* data, std::size_t count) {
    MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  };
  engine.maximum = [](double x) {
    MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return x;
  };
  const int code = xoe::bench::measure(engine, argc, argv);
  MPI_Finalize();
  return code;
}
