// The resources that this process has used so far, for reports.
#pragma once

#include <cstdint>

namespace xoe {

double process_cpu_seconds();  // of all its threads, also ended ones, in the program and in the kernel
double thread_cpu_seconds();   // of the calling thread
double process_age_seconds();  // since its start by fork or exec; in steps of 10 ms
// Its memory, with a proportional share of shared pages (PSS); 0: unknown. Walks all pages: some milliseconds per
// gigabyte.
std::uint64_t process_memory_bytes();
// Its peak resident memory, including all shared pages (VmHWM); 0: unknown.
std::uint64_t process_peak_bytes();

}  // namespace xoe
