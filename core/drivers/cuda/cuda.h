// The CUDA runtime as a table of functions, loaded where it is installed: our own declarations of the part of its
// documented C interface that is used (CUDA Runtime API 12 and 13). core/tests/drivers has the mock, and compares the
// declarations with NVIDIA's headers.
#pragma once

#include <cstddef>

#include "core/drivers/library.h"

namespace xoe {

struct CudaStreamObject;  // of the library
struct CudaEventObject;
using CudaStream = CudaStreamObject*;
using CudaEvent = CudaEventObject*;

// Only the errors that callers distinguish; there are many more.
enum class CudaError : int {
  kSuccess = 0,
  kMemoryAllocation = 2,
  kInsufficientDriver = 35,
  kNoDevice = 100,
  kNotReady = 600,
  kStreamCaptureImplicit = 906,  // the default stream, while a stream that it waits for is captured
};

enum class CudaCopy : int { kDefault = 4 };  // the addresses tell the direction

enum class CudaMemory : int { kUnregistered = 0, kHost = 1, kDevice = 2, kManaged = 3 };

struct CudaPointer {
  CudaMemory memory;
  int device;
  void* device_address;
  void* host_address;
  long reserved[8];  // of CUDA 13
};

enum class CudaCapture : int { kNone = 0, kActive = 1, kInvalidated = 2 };  // of a stream into a graph
// How this thread's calls treat captures: with kRelaxed they never invalidate a capture of another thread.
enum class CudaCaptureMode : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };

struct CudaContextObject;  // of the driver
using CudaContext = CudaContextObject*;

// At least as long as in every version.
struct CudaProperties {
  char name[256];
  unsigned char uuid[16];
  char more[8192 - 256 - 16];
};

inline constexpr unsigned kCudaStreamNonBlocking = 1;
inline constexpr unsigned kCudaEventDisableTiming = 2;
// An attribute of cuPointerGetAttribute: a number that no other allocation of the process gets.
inline constexpr int kCudaBufferId = 7;

struct CudaApi {
  CudaError (*runtime_get_version)(int*) = nullptr;  // 13020: CUDA 13.2
  CudaError (*get_device_count)(int*) = nullptr;
  CudaError (*set_device)(int) = nullptr;
  CudaError (*get_device)(int*) = nullptr;
  CudaError (*get_device_properties)(CudaProperties*, int device) = nullptr;
  CudaError (*device_get_pci_bus_id)(char*, int length, int device) = nullptr;
  CudaError (*stream_create_with_flags)(CudaStream*, unsigned) = nullptr;
  CudaError (*stream_destroy)(CudaStream) = nullptr;
  CudaError (*stream_wait_event)(CudaStream, CudaEvent, unsigned) = nullptr;
  CudaError (*stream_is_capturing)(CudaStream, CudaCapture*) = nullptr;
  CudaError (*thread_exchange_capture_mode)(CudaCaptureMode*) = nullptr;
  CudaError (*event_create_with_flags)(CudaEvent*, unsigned) = nullptr;
  CudaError (*event_destroy)(CudaEvent) = nullptr;
  CudaError (*event_record)(CudaEvent, CudaStream) = nullptr;
  CudaError (*event_query)(CudaEvent) = nullptr;
  CudaError (*memcpy_async)(void* to, const void* from, std::size_t, CudaCopy, CudaStream) = nullptr;
  CudaError (*launch_host_func)(CudaStream, void (*)(void*), void*) = nullptr;
  CudaError (*malloc)(void**, std::size_t) = nullptr;
  CudaError (*free)(void*) = nullptr;
  CudaError (*host_alloc)(void**, std::size_t, unsigned) = nullptr;
  CudaError (*free_host)(void*) = nullptr;
  CudaError (*pointer_get_attributes)(CudaPointer*, const void*) = nullptr;
  CudaError (*get_last_error)() = nullptr;  // of this thread; and forgets it, unless the GPU has failed for good
  const char* (*get_error_string)(CudaError) = nullptr;

  // Of the driver's library; null where it is not installed.
  int (*mem_get_address_range)(unsigned long long* base, std::size_t*, unsigned long long address) = nullptr;
  int (*pointer_get_attribute)(void* value, int attribute, unsigned long long address) = nullptr;
  int (*device_get)(int* device, int ordinal) = nullptr;
  int (*device_primary_context_retain)(CudaContext*, int device) = nullptr;
  int (*context_push_current)(CudaContext) = nullptr;
  int (*context_pop_current)(CudaContext*) = nullptr;
};

// visit(field, symbol) for every function of the runtime.
template <class Api, class Visit>
void for_each_cuda_function(Api& api, Visit&& visit) {
  visit(api.runtime_get_version, "cudaRuntimeGetVersion");
  visit(api.get_device_count, "cudaGetDeviceCount");
  visit(api.set_device, "cudaSetDevice");
  visit(api.get_device, "cudaGetDevice");
  visit(api.get_device_properties, "cudaGetDeviceProperties");
  visit(api.device_get_pci_bus_id, "cudaDeviceGetPCIBusId");
  visit(api.stream_create_with_flags, "cudaStreamCreateWithFlags");
  visit(api.stream_destroy, "cudaStreamDestroy");
  visit(api.stream_wait_event, "cudaStreamWaitEvent");
  visit(api.stream_is_capturing, "cudaStreamIsCapturing");
  visit(api.thread_exchange_capture_mode, "cudaThreadExchangeStreamCaptureMode");
  visit(api.event_create_with_flags, "cudaEventCreateWithFlags");
  visit(api.event_destroy, "cudaEventDestroy");
  visit(api.event_record, "cudaEventRecord");
  visit(api.event_query, "cudaEventQuery");
  visit(api.memcpy_async, "cudaMemcpyAsync");
  visit(api.launch_host_func, "cudaLaunchHostFunc");
  visit(api.malloc, "cudaMalloc");
  visit(api.free, "cudaFree");
  visit(api.host_alloc, "cudaHostAlloc");
  visit(api.free_host, "cudaFreeHost");
  visit(api.pointer_get_attributes, "cudaPointerGetAttributes");
  visit(api.get_last_error, "cudaGetLastError");
  visit(api.get_error_string, "cudaGetErrorString");
}

// The same for the functions of the driver.
template <class Api, class Visit>
void for_each_driver_function(Api& api, Visit&& visit) {
  visit(api.mem_get_address_range, "cuMemGetAddressRange_v2");
  visit(api.pointer_get_attribute, "cuPointerGetAttribute");
  visit(api.device_get, "cuDeviceGet");
  visit(api.device_primary_context_retain, "cuDevicePrimaryCtxRetain");
  visit(api.context_push_current, "cuCtxPushCurrent_v2");
  visit(api.context_pop_current, "cuCtxPopCurrent_v2");
}

// The runtime's functions; null where the library lacks one.
CudaApi find_cuda_functions(const Library& library);

// libcudart.so.13 or .12: where the loader looks, else of NVIDIA's wheels (find_in_wheels). `unsupported` with the
// loader's messages, or naming a function that is missing.
Result<CudaApi> load_cuda(const Env& env);

}  // namespace xoe
