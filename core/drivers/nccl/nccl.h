// NVIDIA's collectives library as a table of functions, loaded where it is installed: our own declarations of the part
// of its documented C interface that is used (NCCL user guide, 2.7 to 2.30). core/tests/drivers has the mock, and
// compares the declarations with NVIDIA's headers.
#pragma once

#include <climits>
#include <cstddef>
#include <string>

#include "core/drivers/cuda/cuda.h"
#include "core/drivers/library.h"

namespace xoe {

struct NcclCommunicator;  // of the library
using NcclComm = NcclCommunicator*;

// Passed by value.
struct NcclUniqueId {
  char bytes[128];
};

enum class NcclResult : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
  kTimeout = 8,
};

enum class NcclType : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kInt64 = 4,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
};

// Values above kAverage are operators that a communicator has created.
enum class NcclOp : int { kSum = 0, kProduct = 1, kMax = 2, kMin = 3, kAverage = 4 };

enum class NcclResidence : int { kDevice = 0, kHost = 1 };

// As one number: 2708 for 2.7.8, 21003 for 2.10.3.
constexpr int nccl_version(int major, int minor, int patch) noexcept {
  return major <= 2 && minor <= 8 ? major * 1000 + minor * 100 + patch : major * 10000 + minor * 100 + patch;
}
std::string nccl_version_text(int version);  // "2.10.3"

// The configuration of 2.14, which later versions accept: they read `size` bytes and treat fields newer than `version`
// as unset.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = static_cast<unsigned>(nccl_version(2, 14, 0));
  int blocking = 1;
  int unset = INT_MIN;  // where later versions have a field
};

// Functions marked with a version came later than 2.7, and may be null.
struct NcclApi {
  NcclResult (*get_version)(int*) = nullptr;
  NcclResult (*get_unique_id)(NcclUniqueId*) = nullptr;
  NcclResult (*comm_init_rank)(NcclComm*, int size, NcclUniqueId, int rank) = nullptr;
  NcclResult (*comm_init_rank_config)(NcclComm*, int size, NcclUniqueId, int rank, NcclConfig*) = nullptr;  // 2.14
  NcclResult (*comm_finalize)(NcclComm) = nullptr;                                                          // 2.14
  NcclResult (*comm_destroy)(NcclComm) = nullptr;
  NcclResult (*comm_abort)(NcclComm) = nullptr;
  NcclResult (*comm_get_async_error)(NcclComm, NcclResult*) = nullptr;
  const char* (*get_error_string)(NcclResult) = nullptr;
  const char* (*get_last_error)(NcclComm) = nullptr;  // 2.13

  NcclResult (*all_reduce)(const void*, void*, std::size_t, NcclType, NcclOp, NcclComm, CudaStream) = nullptr;
  NcclResult (*broadcast)(const void*, void*, std::size_t, NcclType, int root, NcclComm, CudaStream) = nullptr;
  NcclResult (*reduce)(const void*, void*, std::size_t, NcclType, NcclOp, int root, NcclComm, CudaStream) = nullptr;
  NcclResult (*all_gather)(const void*, void*, std::size_t of_each, NcclType, NcclComm, CudaStream) = nullptr;
  NcclResult (*reduce_scatter)(const void*, void*, std::size_t of_each, NcclType, NcclOp, NcclComm,
                               CudaStream) = nullptr;
  NcclResult (*send)(const void*, std::size_t, NcclType, int peer, NcclComm, CudaStream) = nullptr;
  NcclResult (*recv)(void*, std::size_t, NcclType, int peer, NcclComm, CudaStream) = nullptr;
  NcclResult (*group_start)() = nullptr;
  NcclResult (*group_end)() = nullptr;

  NcclResult (*red_op_create_pre_mul_sum)(NcclOp*, void* scalar, NcclType, NcclResidence, NcclComm) = nullptr;  // 2.11
  NcclResult (*red_op_destroy)(NcclOp, NcclComm) = nullptr;                                                     // 2.11
  NcclResult (*comm_register)(NcclComm, void*, std::size_t, void** handle) = nullptr;                           // 2.19
  NcclResult (*comm_deregister)(NcclComm, void* handle) = nullptr;                                              // 2.19
};

// What a version of the library supports.
struct NcclFeatures {
  bool bfloat16 = false;
  bool average = false;
  bool pre_mul_sum = false;   // scales the input while summing
  bool non_blocking = false;  // calls return at once, and a pending initialisation can be aborted
  bool registration = false;
};
NcclFeatures nccl_features(const NcclApi& api, int version) noexcept;

// visit(field, symbol, first version that has it, 0: all) for every function of the table.
template <class Api, class Visit>
void for_each_nccl_function(Api& api, Visit&& visit) {
  visit(api.get_version, "ncclGetVersion", 0);
  visit(api.get_unique_id, "ncclGetUniqueId", 0);
  visit(api.comm_init_rank, "ncclCommInitRank", 0);
  visit(api.comm_init_rank_config, "ncclCommInitRankConfig", nccl_version(2, 14, 0));
  visit(api.comm_finalize, "ncclCommFinalize", nccl_version(2, 14, 0));
  visit(api.comm_destroy, "ncclCommDestroy", 0);
  visit(api.comm_abort, "ncclCommAbort", 0);
  visit(api.comm_get_async_error, "ncclCommGetAsyncError", 0);
  visit(api.get_error_string, "ncclGetErrorString", 0);
  visit(api.get_last_error, "ncclGetLastError", nccl_version(2, 13, 0));
  visit(api.all_reduce, "ncclAllReduce", 0);
  visit(api.broadcast, "ncclBroadcast", 0);
  visit(api.reduce, "ncclReduce", 0);
  visit(api.all_gather, "ncclAllGather", 0);
  visit(api.reduce_scatter, "ncclReduceScatter", 0);
  visit(api.send, "ncclSend", 0);
  visit(api.recv, "ncclRecv", 0);
  visit(api.group_start, "ncclGroupStart", 0);
  visit(api.group_end, "ncclGroupEnd", 0);
  visit(api.red_op_create_pre_mul_sum, "ncclRedOpCreatePreMulSum", nccl_version(2, 11, 0));
  visit(api.red_op_destroy, "ncclRedOpDestroy", nccl_version(2, 11, 0));
  visit(api.comm_register, "ncclCommRegister", nccl_version(2, 19, 0));
  visit(api.comm_deregister, "ncclCommDeregister", nccl_version(2, 19, 0));
}

// The functions that the library's version should have; null where it lacks one.
NcclApi find_nccl_functions(const Library& library);

// XOE_NCCL_LIBRARY if it is set, else libnccl.so.2 where the loader looks, else of NVIDIA's wheels (find_in_wheels).
// `unsupported` with the loader's messages, or naming a function that is missing.
Result<NcclApi> load_nccl(const Env& env);

}  // namespace xoe
