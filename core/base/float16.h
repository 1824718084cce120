// float16 as a type of the compiler, for programs that need it beside the kernels of core/reduce.
#pragma once

namespace xoe {

#if defined(__aarch64__)
using Float16 = __fp16;  // g++ 12 has no _Float16 there
#else
using Float16 = _Float16;
#endif

}  // namespace xoe
