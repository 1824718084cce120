// Measures a collective. Rank 0 reads commands from its standard input, one a line:
//   COLLECTIVE BYTES DTYPE MODE SECONDS        e.g.  allreduce 65536 float32 rewritten 0.2
// and answers each with one line of JSON on its standard output; all ranks take part in each figure.
//
// One sample is, on each rank, the time from a flag barrier (the same for all engines, not timed) to the return of the
// call; the slowest rank counts. MODE `hot`: the buffers stay as the last call left them, and a sample is the mean of
// as many calls as fill 20 us. MODE `rewritten`: before the barrier each rank stores fresh values to its whole buffer,
// not timed; a sample is one call.
//
// Waiting ranks sleep, so that several engines can be kept running and measured in turns.
#pragma once

#include <cstddef>

extern "C" {

// In one buffer, but for alltoall. Broadcast: of rank 0. Allgather: rank r's part is the r-th of equal ones, alltoall
// sends the r-th to rank r.
enum XoeBenchCollective : int {
  kBenchAllreduce = 0,
  kBenchBroadcast = 1,
  kBenchAllgather = 2,
  kBenchAlltoall = 3,
  kBenchCollectives = 4
};
enum XoeBenchDType : int { kBenchFloat32 = 0, kBenchBfloat16 = 1, kBenchFloat16 = 2 };

struct XoeBenchCall {
  int collective;
  int dtype;
  void* data;
  void* out;          // alltoall only, else null
  std::size_t count;  // elements of the whole buffer
};

// The engine under test. Functions return 0 when they fail; all ranks must agree on that.
struct XoeBenchEngine {
  void* context;
  int (*supports)(void* context, int collective, int dtype);
  void* (*acquire)(void* context, std::size_t bytes);
  void (*release)(void* context, void* data, std::size_t bytes);
  int (*run)(void* context, const XoeBenchCall* call);
};

// Serves commands until standard input ends. `path`: a file that all ranks map, made by the driver, of
// xoe_bench_sync_bytes() zero bytes. Returns the process's exit code.
int xoe_bench_serve(const char* path, int rank, int size, const XoeBenchEngine* engine);
std::size_t xoe_bench_sync_bytes(void);

// The canary: one-way time of a flag between two cores in nanoseconds, measured for about `milliseconds`: the median of
// many short runs. `spread` receives their p90 / p10, which is far above 1 when other programs use the cores. Negative
// on failure.
double xoe_bench_canary(int core_a, int core_b, double milliseconds, double* spread);

}  // extern "C"
