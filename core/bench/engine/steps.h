// Measures training steps: many tensors that are submitted one by one and waited for together. Rank 0 reads
// commands from its standard input, one per line:
//   steps NETWORK ORDER SECONDS     e.g.  steps 160x16K random 0.5; ORDER is random or backward
//   idle NETWORK SECONDS            what the process uses while no operation is in flight, after 20 steps
//   record NETWORK SECONDS          steps with the timeline on and off, in turns
// and answers each with one line of JSON on its standard output; all ranks take part in each figure.
//
// One sample is, on each rank, the time from a flag barrier (not timed) before the first tensor is submitted to the
// completion of the last; the slowest rank counts. Before the barrier each rank sleeps for up to 2 ms and
// stores fresh values to all its tensors, not timed. ORDER `random`: each rank draws an order of its own for each step.
// Processor time is that of the whole process, without what this program spends outside of samples.
#pragma once

#include <cstddef>

extern "C" {

// The engine under test. Functions return 0 when they fail; all ranks must agree on that.
struct XoeBenchSteps {
  void* context;
  // Gives `count` float32 tensors; data[i] receives the memory of the i-th. May start threads.
  int (*prepare)(void* context, int count, const std::size_t* elements, void** data);
  void (*release)(void* context);  // after it nothing runs until the next prepare()
  // Sums all tensors in place. They become ready in this order, which is this rank's own.
  int (*step)(void* context, const int* order);
  int (*record)(void* context, int on);  // a timeline; null: has none
};

int xoe_bench_serve_steps(const char* path, int rank, int size, const XoeBenchSteps* engine);

}  // extern "C"
