// What this process has used so far, for reports.
#pragma once

#include <cstdint>

namespace xoe {

double process_cpu_seconds();  // of all its threads, also ended ones, in the program and in the kernel
double thread_cpu_seconds();   // of the calling thread
double process_age_seconds();  // since it was started, by fork or exec; in steps of 10 ms
// Its memory, with a share of what it has in common with other processes (PSS); 0: the kernel does not say. Walks all
// its pages: some milliseconds for a gigabyte.
std::uint64_t process_memory_bytes();
// The most that it ever had in memory, shared pages counted whole (VmHWM); 0: the kernel does not say.
std::uint64_t process_peak_bytes();

}  // namespace xoe
